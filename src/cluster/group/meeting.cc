#include "cluster/group/meeting.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <new>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/system/shared_library.h"
#include "base/text/json.h"
#include "cluster/group/addresses.h"
#include "cluster/group/members.h"
#include "cluster/group/pmix_module.h"
#include "cluster/group/run_key.h"

namespace tessera::group {
namespace {

using nlohmann::json;

const Module kPmixModule{.file = "tessera_pmix.so",
                         .environment = "TESSERA_PMIX",
                         .function = "tessera_pmix_api",
                         .needed_by = "processes that mpirun or srun started, without --coordinator-address, need",
                         .code = Exit::kDevice,
                         .help_missing =
                             "./dev build makes it (TESSERA_PMIX=FILE names it elsewhere); or name an etcd with "
                             "--coordinator-address",
                         .help_unloadable = "apt-get install libpmix2, or name an etcd with --coordinator-address"};

bool is_ipv4(const std::string& text) {
  in_addr address{};
  return ::inet_pton(AF_INET, text.c_str(), &address) == 1;
}

// Until the others have left: as long as a process that is gone is a member.
constexpr std::chrono::seconds kLeavePatience{13};

// The launcher's server, for as long as the processes find each other.
class Pmix {
 public:
  explicit Pmix(TesseraPmixPlace& place) : api_(module_api<TesseraPmixApi>(kPmixModule, kTesseraPmixVersion)) {
    char* reason = nullptr;
    if (!api_.open(&place, &reason)) fail(reason);
  }
  ~Pmix() { api_.close(); }
  Pmix(const Pmix&) = delete;
  Pmix& operator=(const Pmix&) = delete;

  std::string share(const std::string& value) const {
    std::string out;
    char* reason = nullptr;
    const auto take = [](void* taker, const char* bytes, size_t count) {
      static_cast<std::string*>(taker)->assign(bytes, count);
    };
    if (!api_.share(value.data(), value.size(), &out, take, &reason)) fail(reason);
    return out;
  }

 private:
  [[noreturn]] void fail(char* reason) const {
    if (!reason) throw std::bad_alloc();
    const std::string text = reason;
    api_.free_text(reason);
    throw device_error(fmt::format("the server of mpirun or srun: {}", text), "PMIx",
                       "name an etcd with --coordinator-address instead, or use `tessera launch mpi:N`");
  }

  const TesseraPmixApi& api_;
};

}  // namespace

Meeting::Meeting(const PlaceOptions& options, const Environment& environment, const TpuAttributes& attributes) {
  const bool told = options.process_id || options.num_processes || !options.coordinator.empty();
  if (!told && several_by_pmix(environment)) {
    refuse_key_alone(options.key, options.coordinator);
    meet_by_pmix(options.run.empty() ? scheduled_run(environment) : options.run);
    return;
  }
  place_ = find_place(options, environment, attributes);
  if (told || !place_.several() || !place_.leads()) return;
  const std::string host = place_.coordinator.substr(0, place_.coordinator.find(':'));
  etcd_ = std::make_unique<LocalEtcd>(is_ipv4(host) ? host : own_address(), place_.key, kTpuPort);
}

Meeting::~Meeting() {
  if (!etcd_) return;
  const auto end = std::chrono::steady_clock::now() + kLeavePatience;
  while (std::chrono::steady_clock::now() < end && has_members(place_.coordinator, place_.key, place_.run)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void Meeting::meet_by_pmix(const std::string& run) {
  TesseraPmixPlace found{};
  const Pmix pmix(found);
  place_.process_id = found.process;
  place_.num_processes = found.count;
  place_.run = run;
  if (!place_.several()) return;
  json own;
  std::exception_ptr failure;  // the others, which wait, are told first
  try {
    if (place_.leads()) {
      start_etcd_for_pmix(found.one_host);
      own = {{"coordinator", etcd_->address()}, {"key", place_.key}};
    }
  } catch (const Error& error) {
    failure = std::current_exception();
    own = {{"problem", error.message()}, {"help", error.help()}};
  } catch (...) {
    failure = std::current_exception();
    own = {{"problem", "its own message says why"}, {"help", ""}};
  }
  const json shared = parse_json(pmix.share(own.dump(-1, ' ', false, json::error_handler_t::replace)), "PMIx");
  if (failure) std::rethrow_exception(failure);
  // With the reason: where one process ends, mpirun may end the others before they have said theirs.
  if (shared.contains("problem"))
    throw device_error(fmt::format("process 0 started no etcd: {}", shared["problem"].get<std::string>()), {}, shared["help"]);
  place_.coordinator = shared["coordinator"];
  place_.key = shared["key"];
}

void Meeting::start_etcd_for_pmix(bool one_host) {
  if (!one_host) place_.key = new_run_key();
  etcd_ = std::make_unique<LocalEtcd>(one_host ? "127.0.0.1" : own_address(), place_.key);
}

}  // namespace tessera::group
