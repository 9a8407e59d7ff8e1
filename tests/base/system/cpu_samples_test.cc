#include "base/system/cpu_samples.h"

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <string_view>
#include <thread>

namespace tessera {
namespace {

int64_t own_processor_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Computes for so long on this thread's clock.
void compute(int64_t nanoseconds) {
  volatile uint64_t sink = 0;
  for (const int64_t begin = own_processor_time(); own_processor_time() - begin < nanoseconds;) {
    for (int i = 0; i < 1000; ++i) sink = sink + 1;
  }
}

int64_t time_of(const CpuSamples& taken, std::string_view name) {
  int64_t sum = 0;
  for (const CpuSample& sample : taken.samples) {
    if (sample.work.name != nullptr && sample.work.name == name) sum += sample.time;
  }
  return sum;
}

constexpr int64_t kMs = 1'000'000;

// Of two threads that compute, 200 and 400 ms.
CpuSamples samples_of_two_threads() {
  std::atomic<bool> started{false}, computed{false}, stopped{false};
  std::thread other([&] {
    const WorkScope work({"other", "part"});
    while (!started) std::this_thread::yield();
    compute(200 * kMs);
    computed = true;
    computed.notify_all();
    stopped.wait(false);
  });
  EXPECT_TRUE(start_cpu_samples());
  EXPECT_FALSE(start_cpu_samples());
  started = true;
  {
    const WorkScope work({"long", nullptr});
    compute(400 * kMs);
  }
  computed.wait(false);
  CpuSamples taken = stop_cpu_samples();
  stopped = true;
  stopped.notify_all();
  other.join();
  return taken;
}

// On a busy machine the system's tick may miss a thread for so long that it has no sample.
TEST(CpuSamples, StandForTheTimeThatEachThreadComputes) {
  CpuSamples taken;
  for (int tries = 0; tries < 20 && (time_of(taken, "long") == 0 || time_of(taken, "other") == 0); ++tries)
    taken = samples_of_two_threads();
  EXPECT_NEAR(static_cast<double>(time_of(taken, "long")), 400.0 * kMs, 25.0 * kMs);
  EXPECT_NEAR(static_cast<double>(time_of(taken, "other")), 200.0 * kMs, 25.0 * kMs);
  EXPECT_TRUE(std::ranges::any_of(taken.samples, [](const CpuSample& sample) {
    return sample.work.where != nullptr && std::string_view(sample.work.where) == "part";
  }));
  EXPECT_TRUE(std::ranges::all_of(taken.samples, [](const CpuSample& sample) { return sample.address != 0; }));
  EXPECT_EQ(taken.lost, 0);
}

TEST(CpuSamples, EndWithTheirRecording) {
  EXPECT_TRUE(stop_cpu_samples().samples.empty());
  ASSERT_TRUE(start_cpu_samples());
  stop_cpu_samples();
  compute(20 * kMs);
  EXPECT_TRUE(stop_cpu_samples().samples.empty());
}

TEST(CpuSamples, AThreadIsAtItsInnermostSpanWhileThatIsRecorded) {
  {
    const Span span(SpanKind::kKernel, "nobody records");
    EXPECT_EQ(current_work.name, nullptr);
  }
  ASSERT_TRUE(start_recording());
  {
    const Span outer(SpanKind::kInput, "outer"), call(SpanKind::kRuntime, "call");
    {
      const Span inner(SpanKind::kKernel, "inner", kNoNumber, "blocks/attn");
      EXPECT_STREQ(current_work.name, "inner");
      EXPECT_STREQ(current_work.where, "blocks/attn");
    }
    EXPECT_STREQ(current_work.name, "outer");
    EXPECT_EQ(current_work.where, nullptr);
  }
  EXPECT_EQ(current_work.name, nullptr);
  stop_recording();
}

}  // namespace
}  // namespace tessera
