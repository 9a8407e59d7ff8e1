#include "monitor/process_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace tessera::monitor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ProcessFigures figures(int64_t process, std::optional<double> wait, const std::string& host = "host-a") {
  ProcessFigures out;
  out.process = process;
  out.host = host;
  out.step = 120;
  out.input_wait = wait;
  return out;
}

TEST(ProcessFigures, AreAShortLine) {
  ProcessFigures one = figures(3, 0.412345678);
  one.peer_wait = 0.0123456789;
  one.step_seconds = 0.1 + 0.2;
  one.cpu_used = 0.987654321, one.cpu_process = 0.123456789;
  one.read = 123456789.123, one.written = 98765.4321;
  one.memory_used = 98'765'432'109.0, one.memory_total = 135'123'456'789.0, one.resident = 9'876'543'210.0;
  one.device_in_use = 45'678'901'234.0, one.device_peak = std::numeric_limits<double>::infinity();
  const std::string text = to_json(one);
  EXPECT_LE(text.size(), 300u) << "each is kept by the coordinator: " << text;
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const ProcessFigures read = parse_process_figures(text, "here");
  EXPECT_EQ(read.process, 3);
  EXPECT_EQ(read.host, "host-a");
  EXPECT_EQ(read.step, 120);
  EXPECT_EQ(read.input_wait, 0.4123);
  EXPECT_EQ(read.peer_wait, 0.01235);
  EXPECT_EQ(read.step_seconds, 0.3);
  EXPECT_EQ(read.resident, 9.877e9);
  EXPECT_FALSE(read.device_peak) << "JSON has no infinity";
  EXPECT_FALSE(parse_process_figures(to_json(figures(0, {})), "here").input_wait);
}

TEST(ProcessFigures, OfAllProcessesAreRead) {
  HostFigures all{1000.5, 5, {figures(0, 0.02), figures(1, 0.5, "host-b")}};
  all.processes[1].seen = 998.25;
  all.processes[1].hangs = "no batch for 12 s: reading of `a/05.png` has taken 12 s so far";
  const HostFigures read = parse_host_figures(to_json(all), "hosts.json");
  EXPECT_EQ(read.at, 1000.5);
  EXPECT_EQ(read.every, 5);
  ASSERT_EQ(read.processes.size(), 2u);
  EXPECT_EQ(read.processes[1].host, "host-b");
  EXPECT_EQ(read.processes[1].seen, 998.25);
  EXPECT_THAT(hanging_processes(read),
              ElementsAre("process 1 on host-b hangs: no batch for 12 s: reading of `a/05.png` has taken 12 s so far"));
}

TEST(ProcessFigures, DamagedOnesAreErrorsThatNameTheirPlace) {
  for (const char* text :
       {"", "[]", "{}", "{\"at\":1}", R"({"at":1,"every":5,"processes":[1]})", R"({"at":"x","every":5,"processes":[]})",
        R"({"at":1,"every":5,"processes":[{"process":-1,"host":"a","step":1}]})",
        R"({"at":1,"every":5,"processes":[{"process":1,"host":"a","step":1.5}]})",
        R"({"at":1,"every":5,"processes":[{"process":1,"host":"a","step":1,"hangs":1}]})",
        R"({"at":1,"every":5,"processes":[{"process":1,"host":"a","step":1,"resident":"much"}]})"}) {
    try {
      parse_host_figures(text, "runs/a/hosts.json");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kData) << text;
      EXPECT_THAT(error.where() + error.message(), HasSubstr("runs/a/hosts.json")) << text;
    }
  }
}

// Another process may send any number: the leader writes what it can, and does not end.
TEST(ProcessFigures, NumbersAtTheEndsOfTheirTypeAreNoFailure) {
  ProcessFigures one = figures(1, 1e-310);
  one.read = std::numeric_limits<double>::max();  // rounded, more than there is
  one.written = std::numeric_limits<double>::quiet_NaN();
  const ProcessFigures again = parse_process_figures(to_json(one), "figures/1");
  EXPECT_EQ(again.input_wait, 1e-310);
  EXPECT_FALSE(again.read);
  EXPECT_FALSE(again.written);
}

TEST(SlowestProcess, WaitsMostForItsInput) {
  const auto slowest = slowest_process({figures(0, 0.01), figures(1, 0.03), figures(2, 0.02), figures(3, 0.41, "host-b")});
  ASSERT_TRUE(slowest);
  EXPECT_EQ(slowest->process, 3);
  EXPECT_EQ(slowest->others, 0.02);
  EXPECT_TRUE(slowest->holds_up());
  EXPECT_EQ(in_words(*slowest), "process 3 on host-b waits 41 % of the time for its input, the others 2 %");
  const auto first = slowest_process({figures(0, 0.5), figures(1, {}), figures(2, 0.1)});
  ASSERT_TRUE(first);
  EXPECT_EQ(first->process, 0);
  EXPECT_EQ(first->others, 0.1);
}

TEST(SlowestProcess, HoldsNobodyUpWhereAllWaitAlike) {
  const auto slowest = slowest_process({figures(0, 0.4), figures(1, 0.5), figures(2, 0.45)});
  ASSERT_TRUE(slowest);
  EXPECT_FALSE(slowest->holds_up());
  EXPECT_FALSE(slowest_process({}));
  EXPECT_FALSE(slowest_process({figures(0, 0.4)}));
  EXPECT_FALSE(slowest_process({figures(0, 0.4), figures(1, {})})) << "there is nobody to compare it with";
}

// What each process waits for others, and for its input.
std::vector<ProcessFigures> with_peers(const std::vector<std::pair<double, double>>& waits) {
  std::vector<ProcessFigures> all;
  for (const auto& [peers, input] : waits) {
    all.push_back(figures(static_cast<int64_t>(all.size()), input, "host-b"));
    all.back().peer_wait = peers;
  }
  return all;
}

TEST(SlowestProcess, WaitsLeastForOthersWhereItComputesSlowly) {
  const auto slowest = slowest_process(with_peers({{0.41, 0.01}, {0.02, 0.02}, {0.45, 0.01}, {0.4, 0.01}}));
  ASSERT_TRUE(slowest);
  EXPECT_EQ(slowest->process, 1);
  EXPECT_EQ(slowest->others, 0.41);
  EXPECT_DOUBLE_EQ(slowest->held_up(), 0.39);
  EXPECT_TRUE(slowest->holds_up());
  EXPECT_EQ(in_words(*slowest), "process 1 on host-b waits 2 % of the time for other processes, the others 41 %");
  EXPECT_FALSE(slowest_process(with_peers({{0.3, 0}, {0.2, 0}}))->holds_up()) << "each is the last one now and then";
  auto all = with_peers({{0, 0}, {0.4, 0}, {0.41, 0}});
  all[0].peer_wait = std::nullopt;
  EXPECT_EQ(slowest_process(all)->process, 1) << "nothing is known of the first one";
}

TEST(SlowestProcess, IsToldByItsInputWhereThatIsWhy) {
  const auto slowest = slowest_process(with_peers({{0.41, 0.01}, {0.02, 0.4}, {0.41, 0.01}}));
  ASSERT_TRUE(slowest);
  EXPECT_EQ(slowest->process, 1);
  EXPECT_EQ(slowest->wait, Wait::kInput);
  EXPECT_EQ(slowest_process(with_peers({{0.41, 0.01}, {0.02, 0.1}}))->wait, Wait::kPeers);
}

TEST(SilentProcesses, AreThoseThatMissThreeTimes) {
  HostFigures all{1000, 5, {figures(0, 0.1), figures(1, 0.1, "host-b"), figures(2, 0.1)}};
  all.processes[0].seen = 1000, all.processes[1].seen = 905, all.processes[2].seen = 986;
  EXPECT_THAT(silent_processes(all, 1000), ElementsAre("process 1 on host-b was last heard of 95 s ago"));
  EXPECT_THAT(silent_processes({}, 1000), IsEmpty());
}

}  // namespace
}  // namespace tessera::monitor
