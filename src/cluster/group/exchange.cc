#include "cluster/group/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/system/shared_library.h"
#include "cluster/group/addresses.h"
#include "cluster/group/gloo_module.h"
#include "cluster/group/pairwise_sum.h"
#include "cluster/group/parts.h"
#include "cluster/group/wait_time.h"

namespace tessera::group {
namespace {

// A slot is a channel, the number of the call in it, and a step of the call.
constexpr int kCallBits = 32, kStepBits = 8;
constexpr size_t kPiece = size_t{4} << 20;        // bytes of a broadcast that are passed on at once
constexpr size_t kSummed = size_t{1} << 20;       // numbers of a sum that travel at once: what comes is still in the cache
constexpr size_t kWholeArray = size_t{16} << 10;  // numbers up to which everybody sends everything to everybody

// Until the last of them tells its address: process 0 may fetch weights before.
constexpr std::chrono::minutes kConnectPatience{10};

const Module kGlooModule{.file = "tessera_gloo.so",
                         .environment = "TESSERA_GLOO",
                         .function = "tessera_gloo_api",
                         .needed_by = "several processes need",
                         .code = Exit::kDevice,
                         .help_missing = "./dev build makes it; TESSERA_GLOO=FILE names it elsewhere",
                         .help_unloadable = "apt-get install libgloo0"};

const TesseraGlooApi& gloo() {
  static const TesseraGlooApi& api = module_api<TesseraGlooApi>(kGlooModule, kTesseraGlooVersion);
  return api;
}

[[noreturn]] void fail(const std::string& what, char* reason) {
  if (!reason) throw std::bad_alloc();
  const std::string text = reason;
  gloo().free_text(reason);
  throw transient_error(fmt::format("{}: {}", what, text.substr(0, text.find('\n'))), {},
                        "look at the logs of the other processes");
}

// Of Members, for the module, whose functions may not throw.
struct AddressBook {
  Members& members;
  std::chrono::milliseconds patience;

  TesseraGlooStore store() {
    const auto put = [](void* self, const char* key, const char* value, size_t bytes) {
      return guarded([&] { static_cast<AddressBook*>(self)->members.put("gloo/" + std::string(key), {value, bytes}); });
    };
    const auto get = [](void* self, const char* key, void* taker, void (*take)(void*, const char*, size_t)) {
      return guarded([&] {
        const auto& book = *static_cast<AddressBook*>(self);
        const std::string value = book.members.get("gloo/" + std::string(key), book.patience);
        take(taker, value.data(), value.size());
      });
    };
    return {this, put, get};
  }
  // Nothing may be thrown through the module: a failed check ends the program here.
  template <class Fn>
  static bool guarded(Fn&& fn) noexcept {
    try {
      fn();
      return true;
    } catch (const InternalError&) {
      std::terminate();
    } catch (...) {
      return false;
    }
  }
};

// A wait of one call for the others.
class Wait {
 public:
  explicit Wait(WaitTime& time) : time_(time) { time_.begin(); }
  ~Wait() { time_.end(); }
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

 private:
  WaitTime& time_;
};

}  // namespace

struct GlooExchange::Connections {
  const int64_t process_id, process_count;
  void* context = nullptr;
  std::atomic<bool> broken = false;
  std::mutex mutex;
  std::map<uint32_t, uint64_t> calls;  // of each channel, so far
  WaitTime waits;

  Connections(int64_t id, int64_t count) : process_id(id), process_count(count) {}
  ~Connections() {
    if (context) gloo().close(context);
  }
  void transfer(const std::vector<TesseraGlooPart>& sends, const std::vector<TesseraGlooPart>& receives, uint64_t slot) {
    char* reason = nullptr;
    if (gloo().transfer(context, sends.data(), sends.size(), receives.data(), receives.size(), slot, &reason)) return;
    broken = true;
    fail("an array does not reach the other processes", reason);
  }
  // The first transfer of a call, with all others: they may come to it later than this process.
  void meet(const std::vector<TesseraGlooPart>& sends, const std::vector<TesseraGlooPart>& receives, uint64_t slot) {
    const Wait wait(waits);
    transfer(sends, receives, slot);
  }
  void sum(std::span<const float> in, std::span<float> out, std::vector<float>& others, uint64_t slot, bool first);
};

GlooExchange::GlooExchange(Members& members, const std::string& coordinator, const ExchangeOptions& options)
    : process_id_(members.process_id()),
      count_(members.count()),
      connections_(std::make_unique<Connections>(process_id_, count_)) {
  AddressBook book{members, std::min<std::chrono::milliseconds>(options.patience, kConnectPatience)};
  const TesseraGlooStore store = book.store();
  char* reason = nullptr;
  connections_->context = gloo().connect(static_cast<int32_t>(process_id_), static_cast<int32_t>(count_),
                                         address_towards(coordinator).c_str(), &store, options.patience.count(), &reason);
  if (!connections_->context) fail("the processes cannot connect to each other", reason);
}

GlooExchange::~GlooExchange() = default;

bool GlooExchange::broken() const { return connections_->broken; }

double GlooExchange::waited_for_others() const { return connections_->waits.seconds(); }

uint64_t GlooExchange::next_slot(uint32_t channel) {
  const std::lock_guard lock(connections_->mutex);
  const uint64_t call = connections_->calls[channel]++ & ((uint64_t{1} << kCallBits) - 1);
  return (static_cast<uint64_t>(channel) << (kCallBits + kStepBits)) | (call << kStepBits);
}

// `others` has room for the other processes' numbers, or gets it. `first`: of the pieces of an array.
void GlooExchange::Connections::sum(std::span<const float> in, std::span<float> out, std::vector<float>& others, uint64_t slot,
                                    bool first) {
  const bool whole = in.size() <= kWholeArray;
  const auto part = [&](int64_t process) { return whole ? Part{0, in.size()} : part_of(in.size(), process, process_count); };
  const Part own = part(process_id);
  const auto sent = [](const float* data, size_t count) {  // Gloo takes no const pointers
    return std::pair{static_cast<void*>(const_cast<float*>(data)), count * sizeof(float)};
  };

  others.resize(std::max(others.size(), static_cast<size_t>(process_count - 1) * own.size()));
  std::vector<TesseraGlooPart> sends, receives;
  float* free = others.data();
  for (int64_t process = 0; process < process_count; ++process) {
    if (process == process_id) continue;
    const Part theirs = part(process);
    const auto [data, bytes] = sent(in.data() + theirs.begin, theirs.size());
    sends.push_back({static_cast<int32_t>(process), data, bytes});
    receives.push_back({static_cast<int32_t>(process), free, own.size() * sizeof(float)});
    free += own.size();
  }
  first ? meet(sends, receives, slot) : transfer(sends, receives, slot);

  std::vector<const float*> parts;
  for (int64_t process = 0, other = 0; process < process_count; ++process) {
    parts.push_back(process == process_id ? in.data() + own.begin : others.data() + static_cast<size_t>(other++) * own.size());
  }
  pairwise_sum(parts, out.subspan(own.begin, own.size()));
  if (whole) return;

  sends.clear();
  receives.clear();
  for (int64_t process = 0; process < process_count; ++process) {
    if (process == process_id) continue;
    const Part theirs = part(process);
    const auto [data, bytes] = sent(out.data() + own.begin, own.size());
    sends.push_back({static_cast<int32_t>(process), data, bytes});
    receives.push_back({static_cast<int32_t>(process), out.data() + theirs.begin, theirs.size() * sizeof(float)});
  }
  transfer(sends, receives, slot + 1);
}

void GlooExchange::sum(std::span<const float> in, std::span<float> out, uint32_t channel) {
  TESSERA_CHECK(in.size() == out.size(), "{} numbers become {}", in.size(), out.size());
  std::vector<float> others;  // the other processes' numbers, of one piece after the other
  for (size_t begin = 0; begin < in.size(); begin += kSummed) {
    const size_t count = std::min(kSummed, in.size() - begin);
    connections_->sum(in.subspan(begin, count), out.subspan(begin, count), others, next_slot(channel), begin == 0);
  }
}

void GlooExchange::gather(std::span<const std::byte> in, std::span<std::byte> out, uint32_t channel) {
  TESSERA_CHECK(in.size() * static_cast<size_t>(count_) == out.size(), "{} bytes of each of {} are not {}", in.size(), count_,
                out.size());
  const uint64_t slot = next_slot(channel);
  std::vector<TesseraGlooPart> sends, receives;
  for (int64_t process = 0; process < count_; ++process) {
    std::byte* place = out.data() + static_cast<size_t>(process) * in.size();
    if (process == process_id_) {
      std::memcpy(place, in.data(), in.size());
      continue;
    }
    sends.push_back({static_cast<int32_t>(process), const_cast<std::byte*>(in.data()), in.size()});
    receives.push_back({static_cast<int32_t>(process), place, in.size()});
  }
  connections_->meet(sends, receives, slot);
}

// From each process to the next, behind the last to the first, so that no connection carries the bytes more than once.
void GlooExchange::broadcast(std::span<std::byte> bytes, int64_t from, uint32_t channel) {
  const int64_t next = (process_id_ + 1) % count_, before = (process_id_ + count_ - 1) % count_;
  for (size_t begin = 0; begin < bytes.size(); begin += kPiece) {
    const std::span piece = bytes.subspan(begin, std::min(kPiece, bytes.size() - begin));
    const auto with = [&](int64_t process) {
      return std::vector<TesseraGlooPart>{{static_cast<int32_t>(process), piece.data(), piece.size()}};
    };
    const uint64_t slot = next_slot(channel);
    if (process_id_ != from) connections_->transfer({}, with(before), slot);
    if (next != from) connections_->transfer(with(next), {}, slot);
  }
}

}  // namespace tessera::group
