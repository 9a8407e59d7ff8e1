#include "cluster/group/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "base/error.h"
#include "cluster/group/local_etcd.h"
#include "cluster/group/pairwise_sum.h"
#include "cluster/group/wait_time.h"

namespace tessera::group {
namespace {

using ::testing::HasSubstr;

// `body` in each of so many processes, which are threads here.
void in_each(int64_t count, const std::function<void(GlooExchange&)>& body, const ExchangeOptions& options = {}) {
  const LocalEtcd etcd;
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      const auto members =
          join_by_etcd({i, count, etcd.address(), "run"}, [](const std::string& who, Exit) { ADD_FAILURE() << who; });
      GlooExchange exchange(*members, etcd.address(), options);
      body(exchange);
      members->barrier("end", std::chrono::minutes(5));
      members->leave();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Of sizes so different that the order of a sum shows in its bits.
std::vector<float> numbers(int64_t process, size_t count) {
  std::mt19937 random(static_cast<uint32_t>(100 * process) + static_cast<uint32_t>(count));
  std::uniform_real_distribution<float> mantissa(-1, 1);
  std::vector<float> out(count);
  for (float& x : out) x = std::ldexp(mantissa(random), static_cast<int>(random() % 20));
  return out;
}

// Each with its neighbour, until one is left.
std::vector<float> sum_in_pairs(std::vector<std::vector<float>> arrays) {
  while (arrays.size() > 1) {
    std::vector<std::vector<float>> sums;
    for (size_t a = 0; a < arrays.size(); a += 2) {
      sums.push_back(arrays[a]);
      if (a + 1 == arrays.size()) break;
      for (size_t i = 0; i < sums.back().size(); ++i) sums.back()[i] += arrays[a + 1][i];
    }
    arrays = std::move(sums);
  }
  return arrays.at(0);
}

std::vector<float> sum_of_all(int64_t processes, size_t count) {
  std::vector<std::vector<float>> arrays;
  for (int64_t p = 0; p < processes; ++p) arrays.push_back(numbers(p, count));
  return sum_in_pairs(std::move(arrays));
}

TEST(PairwiseSum, IsTheSameWhereRunsOfItAreAddedUpFirst) {
  constexpr size_t kCount = 2500;
  for (const int64_t all : {1, 2, 3, 4, 5, 6, 7, 8, 11, 16}) {
    std::vector<std::vector<float>> arrays;
    for (int64_t a = 0; a < all; ++a) arrays.push_back(numbers(a, kCount));
    const std::vector<float> want = sum_in_pairs(arrays);
    for (const size_t run : {1, 2, 4, 8}) {
      std::vector<std::vector<float>> sums;
      for (size_t first = 0; first < arrays.size(); first += run) {
        std::vector<const float*> parts;
        for (size_t a = first; a < std::min(arrays.size(), first + run); ++a) parts.push_back(arrays[a].data());
        pairwise_sum(parts, sums.emplace_back(kCount));
      }
      EXPECT_EQ(sum_in_pairs(sums), want) << all << " in runs of " << run;
    }
  }
}

class Arrays : public ::testing::TestWithParam<int> {};

TEST_P(Arrays, AreAddedUpInPairs) {
  in_each(GetParam(), [&](GlooExchange& exchange) {
    for (const size_t count :
         {size_t{0}, size_t{1}, size_t{7}, size_t{16384}, size_t{16385}, size_t{300'001}, size_t{1'060'001}}) {
      const std::vector<float> in = numbers(exchange.process_id(), count), want = sum_of_all(exchange.count(), count);
      std::vector<float> out(count), in_place = in;
      exchange.sum(in, out, 0);
      EXPECT_EQ(std::memcmp(out.data(), want.data(), 4 * count), 0) << count;
      exchange.sum(in_place, in_place, 0);
      EXPECT_EQ(in_place, want) << count;
    }
  });
}
INSTANTIATE_TEST_SUITE_P(Processes, Arrays, ::testing::Values(2, 3, 4, 7));

TEST(Exchange, GathersInTheOrderOfTheProcesses) {
  in_each(3, [](GlooExchange& exchange) {
    const std::vector<std::byte> in(5, static_cast<std::byte>(exchange.process_id()));
    std::vector<std::byte> out(15);
    exchange.gather(in, out, 4);
    for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(static_cast<size_t>(out[i]), i / 5);
  });
}

TEST_P(Arrays, AreBroadcastFromAnyOfThem) {
  in_each(GetParam(), [](GlooExchange& exchange) {
    int64_t from = 0;
    for (const size_t bytes : {size_t{0}, size_t{1}, (size_t{4} << 20) + 3, size_t{12} << 20, size_t{7}}) {
      std::vector<std::byte> all(bytes, std::byte{1});
      if (exchange.process_id() == from) {
        for (size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::byte>(i % 251);
      }
      exchange.broadcast(all, from, 1);
      from = (from + 1) % exchange.count();
      size_t same = 0;
      for (size_t i = 0; i < bytes; ++i) same += all[i] == static_cast<std::byte>(i % 251);
      EXPECT_EQ(same, bytes);
    }
  });
}

TEST(WaitTime, CountsOnceWhatSeveralThreadsWait) {
  const auto at = [](int seconds) { return WaitTime::Clock::time_point(std::chrono::seconds(seconds)); };
  WaitTime time;
  EXPECT_EQ(time.seconds(at(5)), 0);
  time.begin(at(10));
  EXPECT_EQ(time.seconds(at(12)), 2) << "under way";
  time.begin(at(13));
  time.end(at(14));
  EXPECT_EQ(time.seconds(at(15)), 5) << "the other thread waits still";
  time.end(at(16));
  EXPECT_EQ(time.seconds(at(20)), 6);
  time.begin(at(21));
  time.end(at(22));
  EXPECT_EQ(time.seconds(at(30)), 7);
}

// Process 1 comes to each call only after process 0 has waited for it, so that process 0 has waited more in the end, however
// slow the machine is.
TEST(Exchange, TellsHowLongOthersAreWaitedFor) {
  constexpr double kEachTime = 0.05;  // seconds
  std::atomic<const GlooExchange*> early = nullptr, late = nullptr;
  in_each(2, [&](GlooExchange& exchange) {
    const bool is_early = exchange.process_id() == 0;
    EXPECT_EQ(exchange.waited_for_others(), 0);
    (is_early ? early : late) = &exchange;
    while (!early || !late) std::this_thread::yield();
    const std::vector<std::byte> own(3);
    std::vector<std::byte> all(6);
    std::vector<float> goes_on{1};
    int calls = 0;
    const auto come = [&] {
      ++calls;
      while (!is_early && early.load()->waited_for_others() < kEachTime * calls)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    while (goes_on[0] > 0) {
      come();
      exchange.gather(own, all, 1);
      goes_on[0] = is_early && exchange.waited_for_others() < 2 * late.load()->waited_for_others() ? 1 : 0;
      come();
      exchange.sum(goes_on, goes_on, 0);
    }
    EXPECT_EQ(exchange.waited_for_others(), exchange.waited_for_others()) << "nobody waits any more";
    if (is_early) {
      EXPECT_GE(exchange.waited_for_others(), kEachTime);
    }
  });
}

// As calls of a program that don't depend on each other: each process begins them in another order.
TEST(Exchange, LanesDoNotWaitForEachOther) {
  constexpr uint32_t kChannels = 6, kRepeats = 20;
  in_each(3, [](GlooExchange& exchange) {
    std::vector<std::thread> calls;
    for (uint32_t i = 0; i < kChannels; ++i) {
      const uint32_t channel = (i + static_cast<uint32_t>(exchange.process_id())) % kChannels;
      calls.emplace_back([&exchange, channel] {
        const std::vector<float> in(20'000, static_cast<float>(channel + 1));
        std::vector<float> out(in.size());
        for (uint32_t repeat = 0; repeat < kRepeats; ++repeat) exchange.sum(in, out, channel);
        EXPECT_EQ(out, std::vector<float>(in.size(), 3 * static_cast<float>(channel + 1)));
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    for (std::thread& call : calls) call.join();
  });
}

// A wait for bytes takes no core from what computes or sends (modules/gloo).
TEST(Exchange, ItsThreadsWaitForARunningOne) {
  std::atomic<int> patient = 0;
  in_each(2, [&](GlooExchange&) {
    EXPECT_EQ(::sched_getscheduler(0), SCHED_OTHER);
    int here = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
      here += ::sched_getscheduler(std::stoi(task.path().filename())) == SCHED_BATCH;
    patient = std::max(patient.load(), here);
  });
  EXPECT_EQ(patient, 2);  // one for each process's connections
}

TEST(Exchange, GivesUpWithAMessage) {
  in_each(2,
          [](GlooExchange& exchange) {
            if (exchange.process_id() == 1) return;  // never sums
            std::vector<float> x(4);
            try {
              exchange.sum(x, x, 0);
              ADD_FAILURE() << "there is no other";
            } catch (const Error& error) {
              EXPECT_EQ(error.code(), Exit::kPreempted);
              EXPECT_THAT(error.message(), HasSubstr("an array does not reach the other processes: "));
            }
            EXPECT_TRUE(exchange.broken());
          },
          {.patience = std::chrono::seconds(2)});
}

}  // namespace
}  // namespace tessera::group
