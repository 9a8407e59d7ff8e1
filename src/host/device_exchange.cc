#include "host/device_exchange.h"

#include <algorithm>
#include <barrier>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "cluster/group/pairwise_sum.h"
#include "cluster/group/parts.h"

namespace tessera::host {
namespace {

// Arrays below so many numbers are summed as one.
constexpr size_t kPacked = size_t{1} << 16;

// What a device brings to a call, and takes away.
struct Contribution {
  std::vector<SummedArray> arrays;
  std::span<const std::byte> in;
  std::span<std::byte> out;
};

// The devices of this process in one call.
class Rendezvous {
 public:
  explicit Rendezvous(int64_t devices) : contributions(static_cast<size_t>(devices)), all_(devices) {}

  // `work` of this device once all have brought theirs; returns when all are done.
  void work(const std::function<void()>& work) {
    all_.arrive_and_wait();
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
    }
    all_.arrive_and_wait();
    if (failure_) std::rethrow_exception(failure_);
  }

  std::vector<Contribution> contributions;  // of each device

 private:
  std::barrier<> all_;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

// The first device of a call makes its rendezvous, and the last one takes it off the list.
std::shared_ptr<Rendezvous> rendezvous_of(const DeviceCall& call) {
  struct Open {
    std::shared_ptr<Rendezvous> rendezvous;
    int64_t there = 0;
  };
  static std::mutex mutex;
  static std::map<std::pair<int64_t, int64_t>, Open> all_open;
  const std::lock_guard lock(mutex);
  const auto at = all_open.try_emplace({call.run, call.channel}).first;
  Open& open = at->second;
  if (!open.rendezvous) open.rendezvous = std::make_shared<Rendezvous>(call.devices);
  std::shared_ptr<Rendezvous> rendezvous = open.rendezvous;
  if (++open.there == call.devices) all_open.erase(at);
  return rendezvous;
}

// Of every array, this device adds up its part, for all.
void sum_parts(const DeviceCall& call, const std::vector<Contribution>& all, size_t array) {
  const SummedArray& own = all[static_cast<size_t>(call.device)].arrays[array];
  const group::Part part = group::part_of(own.in.size(), call.device, call.devices);
  std::vector<const float*> parts;
  for (const Contribution& device : all) parts.push_back(device.arrays[array].in.data() + part.begin);
  const std::span sum = own.out.subspan(part.begin, part.size());
  group::pairwise_sum(parts, sum);
  if (call.exchange) call.exchange->sum(sum, sum, call.exchange_channel);
  for (const Contribution& device : all) {
    float* to = device.arrays[array].out.data() + part.begin;
    if (to != sum.data()) std::ranges::copy(sum, to);
  }
}

}  // namespace

void sum_over_devices(const DeviceCall& call, const std::vector<SummedArray>& arrays) {
  const auto is_large = [](const SummedArray& array) { return array.in.size() >= kPacked; };
  std::vector<float> packed, packed_sum;
  for (const SummedArray& array : arrays) {
    if (!is_large(array)) packed.insert(packed.end(), array.in.begin(), array.in.end());
  }
  packed_sum.resize(packed.size());

  const std::shared_ptr<Rendezvous> rendezvous = rendezvous_of(call);
  std::vector<SummedArray>& own = rendezvous->contributions[static_cast<size_t>(call.device)].arrays;
  own.push_back({packed, packed_sum});
  std::ranges::copy_if(arrays, std::back_inserter(own), is_large);
  const size_t count = own.size();
  rendezvous->work([&] {
    for (size_t i = 0; i < count; ++i) sum_parts(call, rendezvous->contributions, i);
  });

  const float* next = packed_sum.data();
  for (const SummedArray& array : arrays) {
    if (is_large(array)) continue;
    std::copy_n(next, array.out.size(), array.out.data());
    next += array.out.size();
  }
}

void gather_over_devices(const DeviceCall& call, std::span<const std::byte> in, std::span<std::byte> out) {
  const std::shared_ptr<Rendezvous> rendezvous = rendezvous_of(call);
  rendezvous->contributions[static_cast<size_t>(call.device)] = {{}, in, out};
  rendezvous->work([&] {
    std::vector<std::byte> of_processes;
    std::span rows = in;
    if (call.exchange) {
      of_processes.resize(in.size() * static_cast<size_t>(call.exchange->count()));
      call.exchange->gather(in, of_processes, call.exchange_channel);
      rows = of_processes;
    }
    const auto devices = static_cast<size_t>(call.devices), device = static_cast<size_t>(call.device);
    for (size_t process = 0; process * in.size() < rows.size(); ++process) {
      for (const Contribution& to : rendezvous->contributions)
        std::memcpy(to.out.data() + (process * devices + device) * in.size(), rows.data() + process * in.size(), in.size());
    }
  });
}

}  // namespace tessera::host
