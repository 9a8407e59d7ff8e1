// Devices of a process in a call, which are threads here.

#include "host/device_exchange.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "base/error.h"
#include "cluster/group/pairwise_sum.h"

namespace tessera::host {
namespace {

// Of sizes so different that the order of a sum shows in its bits.
std::vector<float> numbers(size_t device, size_t count) {
  std::mt19937 random(static_cast<uint32_t>(1000 * device + count));
  std::uniform_real_distribution<float> mantissa(-1, 1);
  std::vector<float> out(count);
  for (float& x : out) x = std::ldexp(mantissa(random), static_cast<int>(random() % 20));
  return out;
}

// The other process has what this one has.
class Twin : public group::Exchange {
 public:
  int64_t count() const override { return 2; }
  void sum(std::span<const float> in, std::span<float> out, uint32_t) override {
    for (size_t i = 0; i < in.size(); ++i) out[i] = 2 * in[i];
  }
  void gather(std::span<const std::byte> in, std::span<std::byte> out, uint32_t) override {
    std::memcpy(out.data(), in.data(), in.size());
    std::memcpy(out.data() + in.size(), in.data(), in.size());
  }
  void broadcast(std::span<std::byte>, int64_t, uint32_t) override {}
};

void on_each(int64_t devices, group::Exchange* exchange, const std::function<void(const DeviceCall&)>& body) {
  std::vector<std::thread> threads;
  for (int64_t d = 0; d < devices; ++d) {
    threads.emplace_back([&, d] {
      for (int64_t channel = 0; channel < 3; ++channel) {
        body({.run = 7,
              .channel = channel,
              .device = d,
              .devices = devices,
              .exchange_channel = static_cast<uint32_t>(d),
              .exchange = exchange});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Small arrays travel together, large ones alone.
TEST(DeviceExchange, AddsUpInPairsWhateverTheSizes) {
  const std::vector<size_t> sizes = {1, 70'001, 0, 300, 65'536};
  Twin twin;
  for (const int64_t devices : {1, 2, 3, 4, 8}) {
    for (group::Exchange* exchange : {static_cast<group::Exchange*>(nullptr), static_cast<group::Exchange*>(&twin)}) {
      std::vector<std::vector<float>> want;
      for (const size_t size : sizes) {
        std::vector<std::vector<float>> all;
        std::vector<const float*> parts;
        for (int64_t d = 0; d < devices; ++d) all.push_back(numbers(static_cast<size_t>(d), size));
        for (const std::vector<float>& one : all) parts.push_back(one.data());
        group::pairwise_sum(parts, want.emplace_back(size));
        if (exchange) exchange->sum(want.back(), want.back(), 0);
      }
      on_each(devices, exchange, [&](const DeviceCall& call) {
        std::vector<std::vector<float>> in, out;
        std::vector<SummedArray> arrays;
        for (const size_t size : sizes) in.push_back(numbers(static_cast<size_t>(call.device), size)), out.emplace_back(size);
        for (size_t i = 0; i < sizes.size(); ++i) arrays.push_back({in[i], out[i]});
        sum_over_devices(call, arrays);
        EXPECT_EQ(out, want) << devices << " devices";
      });
    }
  }
}

TEST(DeviceExchange, GathersProcessByProcess) {
  Twin twin;
  on_each(3, &twin, [](const DeviceCall& call) {
    const std::vector<std::byte> in(2, static_cast<std::byte>(call.device));
    std::vector<std::byte> out(12);
    gather_over_devices(call, in, out);
    for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(static_cast<size_t>(out[i]), i / 2 % 3);
  });
  on_each(2, nullptr, [](const DeviceCall& call) {
    const std::vector<std::byte> in(3, static_cast<std::byte>(call.device));
    std::vector<std::byte> out(6);
    gather_over_devices(call, in, out);
    for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(static_cast<size_t>(out[i]), i / 3);
  });
}

TEST(DeviceExchange, AFailureIsThatOfAllDevices) {
  struct Broken final : Twin {
    void sum(std::span<const float>, std::span<float>, uint32_t lane) override {
      if (lane == 1) throw device_error("process 1 does not answer");
    }
  } broken;
  on_each(3, &broken, [](const DeviceCall& call) {
    std::vector<float> in(9), out(9);
    EXPECT_THROW(sum_over_devices(call, {{in, out}}), Error);
  });
}

}  // namespace
}  // namespace tessera::host
