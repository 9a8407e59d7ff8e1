// Gloo's connections between processes, for cluster/group/exchange.cc. A module, because Gloo brings libraries along (hiredis, ibverbs) that
// only runs over several CPU hosts need.

#include "cluster/group/gloo_module.h"

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <sched.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

class Store final : public gloo::rendezvous::Store {
 public:
  explicit Store(const TesseraGlooStore& store) : store_(store) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    if (!store_.put(store_.self, key.c_str(), data.data(), data.size()))
      throw std::runtime_error("cannot tell the others " + key);
  }
  std::vector<char> get(const std::string& key) override {
    std::vector<char> value;
    const auto take = [](void* taker, const char* bytes, size_t count) {
      static_cast<std::vector<char>*>(taker)->assign(bytes, bytes + count);
    };
    if (!store_.get(store_.self, key.c_str(), &value, take)) throw std::runtime_error("nobody told " + key);
    return value;
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override { wait(keys); }

 private:
  const TesseraGlooStore store_;
};

// Null when there is no memory for it.
char* text_of(const char* text) { return ::strdup(text); }

// Runs what may throw; exceptions must not leave a C function.
template <class Result, class Fn>
Result guarded(Result failed, char** reason, Fn&& fn) noexcept {
  *reason = nullptr;
  try {
    return fn();
  } catch (const std::bad_alloc&) {
  } catch (const std::exception& error) {
    *reason = text_of(error.what());
  } catch (...) {
    *reason = text_of("an unknown failure of Gloo");
  }
  return failed;
}

// Threads that are made meanwhile don't take a core from a running thread when they wake up. Gloo's own wakes up when bytes come, and
// as long as another thread has the lock of that connection, as one has that sends, it asks for them again and again: where the two
// have one core, for a whole time slice.
class WithoutPreemption {
 public:
  WithoutPreemption() : usual_(::sched_getscheduler(0) == SCHED_OTHER) {
    if (usual_) set(SCHED_BATCH);
  }
  ~WithoutPreemption() {
    if (usual_) set(SCHED_OTHER);
  }
  WithoutPreemption(const WithoutPreemption&) = delete;
  WithoutPreemption& operator=(const WithoutPreemption&) = delete;

 private:
  // Where the system refuses, Gloo is slower.
  static void set(int policy) {
    const sched_param none{};
    ::sched_setscheduler(0, policy, &none);
  }
  const bool usual_;
};

std::shared_ptr<gloo::transport::Device> make_device(const char* address) {
  gloo::transport::tcp::attr attr;
  attr.hostname = address;  // without one Gloo takes what the host's own name resolves to
  const WithoutPreemption thread;
  return gloo::transport::tcp::CreateDevice(attr);
}

void free_text(char* text) { std::free(text); }

void* connect(int32_t process, int32_t count, const char* address, const TesseraGlooStore* store, int64_t timeout_ms,
              char** reason) {
  return guarded<void*>(nullptr, reason, [&]() -> void* {
    std::shared_ptr<gloo::transport::Device> device = make_device(address);
    auto context = std::make_unique<gloo::rendezvous::Context>(process, count);
    context->setTimeout(std::chrono::milliseconds(timeout_ms));
    Store adapter(*store);
    context->connectFullMesh(adapter, device);
    return context.release();
  });
}

void close(void* context) { delete static_cast<gloo::rendezvous::Context*>(context); }

bool transfer(void* context, const TesseraGlooPart* sends, size_t send_count, const TesseraGlooPart* receives,
              size_t receive_count, uint64_t slot, char** reason) {
  return guarded(false, reason, [&] {
    auto& own = *static_cast<gloo::rendezvous::Context*>(context);
    std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> in, out;
    for (size_t i = 0; i < receive_count; ++i) {
      in.push_back(own.createUnboundBuffer(receives[i].data, receives[i].bytes));
      in.back()->recv(receives[i].process, slot);
    }
    for (size_t i = 0; i < send_count; ++i) {
      out.push_back(own.createUnboundBuffer(sends[i].data, sends[i].bytes));
      out.back()->send(sends[i].process, slot);
    }
    const auto timeout = own.getTimeout();
    for (const auto& buffer : in) {
      if (!buffer->waitRecv(timeout)) throw std::runtime_error("a transfer was given up");
    }
    for (const auto& buffer : out) {
      if (!buffer->waitSend(timeout)) throw std::runtime_error("a transfer was given up");
    }
    return true;
  });
}

constexpr TesseraGlooApi kApi{kTesseraGlooVersion, free_text, connect, close, transfer};

}  // namespace

extern "C" __attribute__((visibility("default"))) const void* tessera_gloo_api() { return &kApi; }
