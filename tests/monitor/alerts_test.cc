#include "monitor/alerts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <map>
#include <numbers>
#include <random>
#include <utility>

namespace tessera::monitor {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Draws that are the same with every standard library.
class Noise {
 public:
  explicit Noise(uint64_t seed) : engine_(seed) {}
  double uniform() { return (static_cast<double>(engine_() >> 11) + 0.5) * 0x1p-53; }
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform()); }

 private:
  std::mt19937_64 engine_;
};

constexpr double kGiB = 1 << 30;

// A line every 10 steps, 20 lines an epoch.
MetricRow line_of(int64_t i) {
  const int64_t step = 10 * (i + 1);
  return {step, {{"epoch", static_cast<double>(i + 1) / 20}}};
}

std::vector<std::string> kinds(const std::vector<Alert>& alerts) {
  std::vector<std::string> out;
  for (const Alert& alert : alerts) out.push_back(alert.kind);
  return out;
}

// ---- loss ----

std::vector<MetricRow> losses(int64_t lines, const std::function<double(int64_t)>& loss, double noise = 0.03) {
  Noise draws(7);
  std::vector<MetricRow> rows;
  for (int64_t i = 0; i < lines; ++i) {
    rows.push_back(line_of(i));
    rows.back().values["training_loss"] = loss(i) * std::exp(noise * draws.normal());
  }
  return rows;
}
double falling(int64_t i) { return 0.5 + 1.8 * std::exp(-static_cast<double>(i) / 40); }

TEST(Alerts, TellALossThatJumpsOnce) {
  // A spike of ten lines, calm, and another one.
  const auto rows =
      losses(300, [](int64_t i) { return falling(i) * ((i >= 100 && i < 110) || (i >= 200 && i < 204) ? 2.5 : 1); });
  const std::vector<Alert> alerts = alerts_of(rows);
  ASSERT_THAT(kinds(alerts), ElementsAre("loss_spike", "loss_spike"));
  EXPECT_THAT(alerts[0].step, AllOf(::testing::Ge(1010), ::testing::Le(1020))) << "the first or the second line of it";
  EXPECT_THAT(alerts[0].text, AllOf(HasSubstr("the training loss jumped to 1.6"), HasSubstr("from about 0.69")));
  EXPECT_THAT(alerts[0].advice, HasSubstr("optimizer.clip"));
  EXPECT_GE(alerts[1].step, 2010);
}

TEST(Alerts, TellALossThatNeverComesBackOnce) {
  EXPECT_THAT(kinds(alerts_of(losses(400, [](int64_t i) { return i < 100 ? falling(i) : 2.3; }))), ElementsAre("loss_spike"));
}

TEST(Alerts, OneLineMustJumpFar) {
  const auto jump = [](double times) {
    return alerts_of(losses(200, [=](int64_t i) { return falling(i) * (i == 150 ? times : 1); }));
  };
  EXPECT_THAT(jump(1.8), IsEmpty()) << "a batch may be hard";
  EXPECT_THAT(kinds(jump(4)), ElementsAre("loss_spike"));
}

TEST(Alerts, LossesThatAreNoNumbersArePassedOver) {
  auto rows = losses(100, falling);
  rows[50].values["training_loss"] = std::nan("");
  rows[51].values["training_loss"] = INFINITY;
  rows[52].values.erase("training_loss");
  EXPECT_THAT(alerts_of(rows), IsEmpty());
}

// ---- input ----

std::vector<MetricRow> waits(const std::vector<double>& shares, const char* slow = "decode") {
  std::vector<MetricRow> rows;
  for (size_t i = 0; i < shares.size(); ++i) {
    rows.push_back(line_of(static_cast<int64_t>(i)));
    rows.back().values.insert({{"input_wait", shares[i]},
                               {"img/sec", 100},
                               {"input/read", 0.1},
                               {"input/resize", 0.1},
                               {std::string("input/") + slow, 0.8}});
  }
  return rows;
}

TEST(Alerts, TellOfAnInputThatIsTooSlowAndWhichStage) {
  std::vector<double> shares(10, 0.01);
  shares.insert(shares.end(), 8, 0.5);
  const std::vector<Alert> alerts = alerts_of(waits(shares));
  ASSERT_THAT(kinds(alerts), ElementsAre("input"));
  EXPECT_EQ(alerts[0].step, 150) << "the fifth line of it";
  EXPECT_EQ(alerts[0].text,
            "the devices waited 50 % of the time for input, up to step 150; 80 % of the input's work is decode");
  EXPECT_THAT(alerts[0].advice, HasSubstr("try data.threads"));
  shares[13] = 0.1;
  EXPECT_THAT(alerts_of(waits(shares)), IsEmpty()) << "five lines in a row";
}

TEST(Alerts, TellOfTheInputAgainOnceItHasBeenQuick) {
  std::vector<double> shares;
  for (const auto& [count, share] : {std::pair{6, 0.5}, {2, 0.01}, {6, 0.5}, {5, 0.2}, {6, 0.5}, {3, 0.01}, {6, 0.5}})
    shares.insert(shares.end(), static_cast<size_t>(count), share);
  const std::vector<Alert> alerts = alerts_of(waits(shares));
  EXPECT_THAT(kinds(alerts), ElementsAre("input", "input"));
  EXPECT_EQ(alerts[1].step, 330);
}

// ---- process ----

// Of each line the process that waits most, and its share of the time; the others wait 2 %.
std::vector<MetricRow> waits_of(const std::vector<std::pair<int, double>>& lines) {
  std::vector<MetricRow> rows;
  for (size_t i = 0; i < lines.size(); ++i) {
    rows.push_back(line_of(static_cast<int64_t>(i)));
    rows.back().values.insert({{"y/processes/slowest", lines[i].first},
                               {"y/processes/input_wait_most", lines[i].second},
                               {"y/processes/input_wait_others", 0.02}});
  }
  return rows;
}

TEST(Alerts, TellOfAProcessThatHoldsTheOthersUp) {
  std::vector<std::pair<int, double>> lines(5, {1, 0.03});
  lines.insert(lines.end(), 8, {3, 0.41});
  std::vector<MetricRow> rows = waits_of(lines);
  const std::vector<Alert> alerts = alerts_of(rows);
  ASSERT_THAT(kinds(alerts), ElementsAre("process"));
  EXPECT_EQ(alerts[0].step, 100) << "the fifth line of it";
  EXPECT_EQ(alerts[0].text, "up to step 100: process 3 waits 41 % of the time for its input, the others 2 %, and wait for it");
  EXPECT_THAT(alerts[0].advice, HasSubstr("the disk, the network"));
  // Lines before which nothing was heard of the processes count neither way.
  for (size_t i : {6u, 8u, 9u}) std::erase_if(rows[i].values, [](const auto& one) { return one.first.starts_with("y/"); });
  EXPECT_EQ(alerts_of(rows).at(0).step, 130);
  for (MetricRow& row : rows) row.values["y/processes/input_wait_others"] = 0.3;
  EXPECT_THAT(alerts_of(rows), IsEmpty()) << "all wait: that is the input's";
}

// The process that waits least for the others, and the share of the time that they wait.
MetricRow peers_line(int64_t i, int process, double others) {
  MetricRow row = line_of(i);
  row.values.insert(
      {{"y/processes/slowest", process}, {"y/processes/peer_wait_least", 0.02}, {"y/processes/peer_wait_others", others}});
  return row;
}

TEST(Alerts, TellOfAProcessThatComputesSlowly) {
  std::vector<MetricRow> rows;
  for (int64_t i = 0; i < 13; ++i) rows.push_back(peers_line(i, i < 5 ? 1 : 3, i < 5 ? 0.06 : 0.41));
  const std::vector<Alert> alerts = alerts_of(rows);
  ASSERT_THAT(kinds(alerts), ElementsAre("process"));
  EXPECT_EQ(alerts[0].text,
            "up to step 100: process 3 waits 2 % of the time for other processes, the others 41 %, and wait for it");
  EXPECT_THAT(alerts[0].advice, HasSubstr("processors, their clock"));
  // A line that tells the same process by its input goes on with it.
  rows[9] = waits_of({{3, 0.5}})[0];
  rows[9].step = 100;
  EXPECT_EQ(alerts_of(rows).at(0).text,
            "up to step 100: process 3 waits 50 % of the time for its input, the others 2 %, and wait for it");
}

TEST(Alerts, AProcessThatWaitsNowAndThenHoldsNobodyUp) {
  EXPECT_THAT(alerts_of(waits_of({{3, 0.4}, {3, 0.4}, {3, 0.4}, {3, 0.4}, {3, 0.05}, {3, 0.4}, {3, 0.4}, {3, 0.4}})),
              IsEmpty());
  EXPECT_THAT(alerts_of(waits_of({{3, 0.4}, {3, 0.4}, {3, 0.4}, {1, 0.4}, {1, 0.4}, {3, 0.4}, {3, 0.4}})), IsEmpty())
      << "another one each time";
  EXPECT_THAT(alerts_of(waits_of(std::vector<std::pair<int, double>>(9, {-1, 0.4}))), IsEmpty()) << "there is no such process";
}

// ---- throughput ----

// `init`: of a run's starts, in seconds until the line.
MetricRow speed_line(int64_t i, double rate, double init) {
  MetricRow row = line_of(i);
  const double hours = 0.01 * static_cast<double>(i + 1), total = 1 + 36 * static_cast<double>(i + 1) + init;
  row.values.insert({{"img/sec", rate},
                     {"core_hours", hours},
                     {"goodput", hours * 3600 / total},
                     {"badput/input", 0.0},
                     {"badput/init", init / total}});
  return row;
}

std::vector<MetricRow> speeds(const std::vector<std::pair<int, double>>& parts, double noise = 0.05) {
  Noise draws(3);
  std::vector<MetricRow> rows;
  for (const auto& [count, rate] : parts) {
    for (int i = 0; i < count; ++i) {
      rows.push_back(speed_line(static_cast<int64_t>(rows.size()), rate * (1 + noise * draws.normal()), 0.5));
    }
  }
  return rows;
}

TEST(Alerts, TellOfTrainingThatSlowsDown) {
  const std::vector<Alert> alerts = alerts_of(speeds({{40, 1000}, {10, 500}, {10, 1000}, {10, 600}}));
  ASSERT_THAT(kinds(alerts), ElementsAre("throughput", "throughput"));
  EXPECT_EQ(alerts[0].step, 450);
  EXPECT_THAT(alerts[0].text, HasSubstr("training slowed down to 5"));
  EXPECT_THAT(alerts[0].advice, AllOf(HasSubstr("other work"), Not(HasSubstr("disk")))) << "nothing waited for it";
  auto waiting = speeds({{40, 1000}, {10, 500}});
  for (MetricRow& row : waiting) row.values["input_wait"] = row.step > 400 ? 0.2 : 0;
  EXPECT_THAT(alerts_of(waiting).at(0).advice, HasSubstr("a disk that is slow to read"));
  for (MetricRow& row : waiting) row.values["input_wait"] = row.step > 400 ? 0 : 0.2;
  EXPECT_THAT(alerts_of(waiting).at(0).advice, Not(HasSubstr("disk"))) << "it waits no more";
  EXPECT_THAT(alerts_of(speeds({{40, 1000}, {4, 500}, {40, 1000}})), IsEmpty());
  EXPECT_THAT(alerts_of(speeds({{40, 1000}, {40, 780}})), IsEmpty());
}

// Another machine may be slower: a start is compared with itself.
TEST(Alerts, AStartHasASpeedOfItsOwn) {
  std::vector<MetricRow> rows;
  for (int64_t i = 0; i < 60; ++i) rows.push_back(speed_line(i, i < 30 ? 1000 : 400, i < 30 ? 0.5 : 0.75));
  EXPECT_THAT(alerts_of(rows), IsEmpty());
  for (MetricRow& row : rows) row.values.erase("badput/init");
  EXPECT_THAT(kinds(alerts_of(rows)), ElementsAre("throughput")) << "without a new start it is slower";
}

// ---- memory ----

std::vector<MetricRow> memory(int64_t lines, const std::function<double(double)>& gibibytes) {
  Noise draws(5);
  std::vector<MetricRow> rows;
  for (int64_t i = 0; i < lines; ++i) {
    rows.push_back(line_of(i));
    rows.back().values["y/hostmem/resident"] = kGiB * gibibytes(static_cast<double>(i) / 20) + 1e6 * draws.normal();
  }
  return rows;
}

TEST(Alerts, TellOfMemoryThatGrowsOnAndOn) {
  const std::vector<Alert> alerts = alerts_of(memory(600, [](double epoch) { return 1 + 0.05 * epoch; }));
  ASSERT_THAT(kinds(alerts), ElementsAre("memory"));
  EXPECT_EQ(alerts[0].step, 1700) << "an epoch, and 150 lines";
  EXPECT_THAT(alerts[0].text,
              AllOf(HasSubstr("the memory of the process grows: 1.4"), HasSubstr("more than 150 lines before")));
}

// The allocator gives some of it back now and then.
TEST(Alerts, TellOfMemoryThatGrowsWithPauses) {
  const auto leak = [](double given_back) {
    return alerts_of(
        memory(600, [=](double epoch) { return 1 + 0.05 * epoch - given_back * 0.05 * (epoch - std::fmod(epoch, 7)); }));
  };
  EXPECT_THAT(kinds(leak(0.15)), ElementsAre("memory"));
  EXPECT_THAT(leak(0.7), IsEmpty()) << "most of it";
}

TEST(Alerts, CachesMayFill) {
  EXPECT_THAT(alerts_of(memory(600, [](double epoch) { return 1 + 8 * std::min(epoch, 1.0); })), IsEmpty());
  EXPECT_THAT(alerts_of(memory(600, [](double epoch) { return 1 + 1.0 * (1 - std::exp(-epoch)); })), IsEmpty());
  EXPECT_THAT(alerts_of(memory(600, [](double) { return 1; })), IsEmpty());
}

// ---- chance ----

std::vector<MetricRow> scores(const std::vector<double>& top1) {
  std::vector<MetricRow> rows;
  for (size_t i = 0; i < top1.size(); ++i) {
    rows.push_back(line_of(20 * static_cast<int64_t>(i + 1)));
    rows.back().values.insert({{"val/prec@1", top1[i]}, {"val/count", 1000}});
  }
  return rows;
}

TEST(Alerts, TellOfAClassifierThatGuesses) {
  const std::vector<Alert> alerts = alerts_of(scores({0.1, 0.11, 0.09, 0.1, 0.12, 0.1}), {{"val", 10}});
  ASSERT_THAT(kinds(alerts), ElementsAre("chance"));
  EXPECT_EQ(alerts[0].step, 810) << "of the evaluations after 300 steps the third";
  EXPECT_EQ(alerts[0].text, "`val` is at the level of chance, 1 of 10 classes, after 810 steps: top1 10.00");
  EXPECT_THAT(alerts_of(scores({0.1, 0.11, 0.09, 0.1, 0.12, 0.1})), IsEmpty()) << "no classes are known";
}

TEST(Alerts, ChanceHasItsBinomialBound) {
  // Three standard errors of 1,000 images are 2.85 points.
  EXPECT_THAT(kinds(alerts_of(scores({0.128, 0.128, 0.128, 0.128}), {{"val", 10}})), ElementsAre("chance"));
  EXPECT_THAT(alerts_of(scores({0.129, 0.129, 0.129, 0.129}), {{"val", 10}}), IsEmpty());
  // The alert comes again when its cause was left behind and comes back.
  const std::vector<double> lost = {0.1, 0.1, 0.1, 0.1, 0.5, 0.1, 0.1, 0.1};
  EXPECT_THAT(kinds(alerts_of(scores(lost), {{"val", 10}})), ElementsAre("chance", "chance"));
}

// ---- images ----

TEST(Alerts, TellOfBatchesOfOneImage) {
  std::vector<MetricRow> rows = losses(40, falling);
  for (const size_t line : {3, 10, 11, 12, 13, 20, 21}) rows[line].values["images_alike"] = 1;
  const std::vector<Alert> alerts = alerts_of(rows);
  ASSERT_THAT(kinds(alerts), ElementsAre("images", "images")) << "not where it is one line, and once until it has passed";
  EXPECT_EQ(alerts[0].text, "all images of a batch are the same, at step 120 and the line before");
  EXPECT_THAT(alerts[0].advice, HasSubstr("tessera data show"));
  // An evaluation of its own, without a step, is between two lines and not one of them.
  rows[11].values.erase("training_loss");
  EXPECT_EQ(alerts_of(rows).at(0).step, 130);
}

// ---- all of them ----

// A run that goes on from a line finds what one that never stopped finds: alerts of earlier lines are known.
TEST(Alerts, AreTheSameLineByLine) {
  const auto rows = losses(300, [](int64_t i) { return falling(i) * (i % 70 > 66 ? 3 : 1); });
  const std::vector<Alert> whole = alerts_of(rows);
  ASSERT_GE(whole.size(), 2u);
  for (size_t cut = 0; cut < rows.size(); cut += 7) {
    Alerts earlier, again;
    std::vector<Alert> told;
    for (size_t i = 0; i < cut; ++i) {
      for (Alert& alert : earlier.add(rows[i])) told.push_back(std::move(alert));
      again.add(rows[i]);
    }
    for (size_t i = cut; i < rows.size(); ++i) {
      for (Alert& alert : again.add(rows[i])) told.push_back(std::move(alert));
    }
    ASSERT_EQ(kinds(told), kinds(whole)) << cut;
    for (size_t i = 0; i < told.size(); ++i) EXPECT_EQ(told[i].text, whole[i].text);
  }
}

// Runs in which nothing is wrong: the loss falls, in steps of the schedule too, with noise that is log-normal, of one run in
// three with heavy tails; speed has noise that stays for some lines, and single slow lines; the input is late now and then;
// memory fills in the first epochs and wanders a little; scores leave chance within three evaluations.
std::vector<MetricRow> healthy(uint64_t seed, int64_t lines) {
  Noise draws(seed);
  const double first = 0.5 + 7 * draws.uniform(), last = first * 0.3 * draws.uniform(), length = 5 + 200 * draws.uniform();
  const double sigma = 0.02 + 0.28 * draws.uniform(), wander = 0.02 + 0.08 * draws.uniform();
  const double filled = 2 * draws.uniform(), filling = 0.2 + 2 * draws.uniform(), learning = 3 * draws.uniform();
  const bool tails = draws.uniform() < 1.0 / 3;
  const auto drop = static_cast<int64_t>(static_cast<double>(lines) * draws.uniform());
  double slow = 0, held = 0;
  std::vector<MetricRow> rows;
  for (int64_t i = 0; i < lines; ++i) {
    MetricRow row = line_of(i);
    const double epoch = row.values["epoch"];
    double noise = draws.normal();
    // Student's t with five degrees of freedom.
    if (tails) {
      double chi = 0;
      for (int k = 0; k < 5; ++k) chi += std::pow(draws.normal(), 2);
      noise /= std::sqrt(chi / 5);
    }
    const double trend = (last + (first - last) * std::exp(-static_cast<double>(i) / length)) * (i > drop ? 0.7 : 1);
    row.values["training_loss"] = trend * std::exp(sigma * noise);
    slow = 0.9 * slow + wander * std::sqrt(1 - 0.81) * draws.normal();
    const double rate = 1000 * std::exp(slow + 0.05 * draws.normal()) * (draws.uniform() < 0.02 ? 0.4 : 1);
    row.values["img/sec"] = rate;
    row.values["input_wait"] = std::min(1.0, draws.uniform() < 0.05 ? 0.5 : 0.04 * std::abs(draws.normal()));
    row.values["input/decode"] = 1;
    held = 0.95 * held + 0.01 * draws.normal();
    row.values["y/hostmem/resident"] = kGiB * (1 + filled * (1 - std::exp(-epoch / filling)) + held);
    if ((i + 1) % 20 == 0) {
      const double score = 0.1 + 0.8 * (1 - std::exp(-std::max(0.0, epoch - learning) / 5));
      row.values["val/prec@1"] = score + std::sqrt(score * (1 - score) / 1000) * draws.normal();
      row.values["val/count"] = 1000;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

TEST(Alerts, AreSilentInHealthyRuns) {
  constexpr int kRuns = 200;
  std::map<std::string, int> false_alarms;
  for (int run = 0; run < kRuns; ++run) {
    for (const Alert& alert : alerts_of(healthy(static_cast<uint64_t>(run), 400), {{"val", 10}})) ++false_alarms[alert.kind];
  }
  int all = 0;
  for (const auto& [kind, count] : false_alarms) {
    RecordProperty(kind, count);
    std::cout << kind << ": " << count << " in " << kRuns << " runs of 400 lines\n";
    all += count;
  }
  EXPECT_LE(all, kRuns / 100);
}

}  // namespace
}  // namespace tessera::monitor
