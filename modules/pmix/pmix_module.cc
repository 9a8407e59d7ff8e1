// PMIx, by which mpirun and srun tell a process who it is, for cluster/group/meeting.cc. A module, because only runs that one of
// them started need the library.

#include "cluster/group/pmix_module.h"

#include <pmix.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

namespace {

constexpr const char* kKey = "tessera/leader";

pmix_proc_t own;

void check(pmix_status_t status, const char* what) {
  if (status != PMIX_SUCCESS) throw std::runtime_error(std::string(what) + ": " + PMIx_Error_string(status));
}

pmix_proc_t process(pmix_rank_t rank) {
  pmix_proc_t other;
  PMIX_LOAD_PROCID(&other, own.nspace, rank);
  return other;
}

// What the server knows of the job, or of a process.
struct Value {
  pmix_value_t* value = nullptr;
  Value(pmix_rank_t rank, const char* key) {
    const pmix_proc_t of = process(rank);
    check(PMIx_Get(&of, key, nullptr, 0, &value), key);
  }
  ~Value() { PMIX_VALUE_RELEASE(value); }
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;
};

int32_t job_number(const char* key) { return static_cast<int32_t>(Value(PMIX_RANK_WILDCARD, key).value->data.uint32); }

// Runs what may throw; exceptions must not leave a C function.
template <class Fn>
bool guarded(char** reason, Fn&& fn) noexcept {
  *reason = nullptr;
  try {
    fn();
    return true;
  } catch (const std::bad_alloc&) {
  } catch (const std::exception& error) {
    *reason = ::strdup(error.what());
  } catch (...) {
    *reason = ::strdup("an unknown failure of PMIx");
  }
  return false;
}

void free_text(char* text) { std::free(text); }

bool open(TesseraPmixPlace* place, char** reason) {
  return guarded(reason, [&] {
    check(PMIx_Init(&own, nullptr, 0), "PMIx_Init");
    place->process = static_cast<int32_t>(own.rank);
    place->count = job_number(PMIX_JOB_SIZE);
    place->one_host = job_number(PMIX_LOCAL_SIZE) == place->count;
  });
}

bool share(const char* value, size_t bytes, void* taker, void (*take)(void* taker, const char* value, size_t bytes),
           char** reason) {
  return guarded(reason, [&] {
    if (own.rank == 0) {
      pmix_value_t put;
      PMIX_VALUE_CONSTRUCT(&put);
      put.type = PMIX_BYTE_OBJECT;
      put.data.bo.bytes = const_cast<char*>(value);
      put.data.bo.size = bytes;
      check(PMIx_Put(PMIX_GLOBAL, kKey, &put), "PMIx_Put");
      check(PMIx_Commit(), "PMIx_Commit");
    }
    pmix_info_t collect;
    bool yes = true;
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    check(PMIx_Fence(nullptr, 0, &collect, 1), "PMIx_Fence");
    const Value got(0, kKey);
    take(taker, got.value->data.bo.bytes, got.value->data.bo.size);
  });
}

void close() { PMIx_Finalize(nullptr, 0); }

constexpr TesseraPmixApi kApi{kTesseraPmixVersion, free_text, open, share, close};

}  // namespace

extern "C" __attribute__((visibility("default"))) const void* tessera_pmix_api() { return &kApi; }
