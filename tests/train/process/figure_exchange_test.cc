#include "train/process/figure_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/error.h"

namespace tessera::train {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::chrono::hours kNever{1};

// What all processes share.
struct Coordinator {
  std::mutex mutex;
  std::map<std::string, std::string> values;
  bool away = false;
  int64_t puts = 0;
};

class FakeMembers final : public group::Members {
 public:
  FakeMembers(std::shared_ptr<Coordinator> coordinator, int64_t process, int64_t count)
      : Members({process, count, "nowhere:1", "run"}), coordinator_(std::move(coordinator)) {}

  void put(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(coordinator_->mutex);
    expect_there();
    ++coordinator_->puts;
    coordinator_->values[key] = value;
  }
  std::string get(const std::string& key, std::chrono::milliseconds) override { return find(key).value(); }
  std::optional<std::string> find(const std::string& key) override {
    const std::lock_guard lock(coordinator_->mutex);
    expect_there();
    const auto found = coordinator_->values.find(key);
    return found == coordinator_->values.end() ? std::nullopt : std::optional(found->second);
  }
  std::map<std::string, std::string> find_all(const std::string&) override { return {}; }
  void barrier(const std::string&, std::chrono::milliseconds) override {}
  void leave() override {}
  void fail(Exit) noexcept override {}

 private:
  void expect_there() const {
    if (coordinator_->away) throw group::transient_error("the coordinator is away");
  }
  const std::shared_ptr<Coordinator> coordinator_;
};

monitor::ProcessFigures figures(int64_t step, double wait) {
  monitor::ProcessFigures out;
  out.step = step;
  out.input_wait = wait;
  return out;
}

// What a leader was given last.
class Kept {
 public:
  FigureExchange::Keep taker() {
    return [this](const monitor::HostFigures& all) {
      const std::lock_guard lock(mutex_);
      last_ = all;
      changed_.notify_all();
    };
  }
  monitor::HostFigures last() {
    const std::lock_guard lock(mutex_);
    return last_;
  }
  template <class Done>
  void wait_until(Done&& done) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done(last_); });
  }
  // Waits until process 1 is known to be at a step from `step` on.
  void wait_for(int64_t step) {
    wait_until([&](const monitor::HostFigures& all) { return all.processes.size() == 2 && all.processes[1].step >= step; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  monitor::HostFigures last_;
};

std::vector<int64_t> steps_of(const monitor::HostFigures& all) {
  std::vector<int64_t> steps;
  for (const auto& one : all.processes) steps.push_back(one.step);
  return steps;
}

TEST(FigureExchange, TheLeaderHasTheLastOfAll) {
  const auto coordinator = std::make_shared<Coordinator>();
  Kept kept;
  const auto nobody = [](const monitor::HostFigures&) { ADD_FAILURE() << "only the leader keeps them"; };
  FigureExchange leader(
      std::make_shared<FakeMembers>(coordinator, 0, 3), [] { return figures(7, 0.02); }, kept.taker(), kNever);
  FigureExchange one(
      std::make_shared<FakeMembers>(coordinator, 1, 3), [] { return figures(7, 0.04); }, nobody, kNever);
  FigureExchange two(
      std::make_shared<FakeMembers>(coordinator, 2, 3), [] { return figures(7, 0.41); }, nobody, kNever);
  for (FigureExchange* each : {&leader, &one, &two}) each->tell_last();
  leader.news();
  two.collect_last();
  leader.collect_last();
  const monitor::HostFigures all = kept.last();
  EXPECT_THAT(steps_of(all), ElementsAre(7, 7, 7));
  EXPECT_EQ(all.every, 3600);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(all.processes[i].process, static_cast<int64_t>(i));
    EXPECT_FALSE(all.processes[i].host.empty());
    EXPECT_GT(all.processes[i].seen, 0);
  }
  const auto slowest = leader.news();
  ASSERT_TRUE(slowest);
  EXPECT_EQ(slowest->process, 2);
  EXPECT_EQ(slowest->its, 0.41);
  EXPECT_EQ(slowest->others, 0.04);
  EXPECT_FALSE(leader.news()) << "it was told";
  leader.collect_last();
  EXPECT_FALSE(leader.news()) << "nothing new came";
}

TEST(FigureExchange, GoesOnBesideTheRun) {
  const auto coordinator = std::make_shared<Coordinator>();
  Kept kept;
  std::atomic<int64_t> step = 0;
  const std::chrono::milliseconds often{1};
  FigureExchange leader(
      std::make_shared<FakeMembers>(coordinator, 0, 2), [] { return figures(1, 0); }, kept.taker(), often);
  const FigureExchange other(
      std::make_shared<FakeMembers>(coordinator, 1, 2), [&] { return figures(++step, 0); }, {}, often);
  kept.wait_for(1);
  kept.wait_for(kept.last().processes[1].step + 3);
}

// With an interval that this test does not outlive.
TEST(FigureExchange, KeepsWhatHoldsAProcessUpAtOnce) {
  const auto coordinator = std::make_shared<Coordinator>();
  Kept kept;
  FigureExchange leader(
      std::make_shared<FakeMembers>(coordinator, 0, 2), [] { return figures(7, 0); }, kept.taker(), kNever);
  FigureExchange other(
      std::make_shared<FakeMembers>(coordinator, 1, 2), [] { return figures(7, 0); }, {}, kNever);
  for (const std::string what : {"no batch for 12 s", ""}) {
    other.tell_last();
    leader.set_hang(1, what);
    kept.wait_until(
        [&](const monitor::HostFigures& all) { return all.processes.size() == 2 && all.processes[1].hangs == what; });
  }
  leader.set_hang(1, "no batch for 12 s");
  leader.tell_last();
  other.tell_last();
  leader.collect_last();
  EXPECT_EQ(kept.last().processes[1].hangs, "") << "it came to the end";
}

TEST(FigureExchange, PassesOverACoordinatorThatIsAwayAndWhatItCannotRead) {
  const auto coordinator = std::make_shared<Coordinator>();
  coordinator->away = true;
  Kept kept;
  FigureExchange leader(
      std::make_shared<FakeMembers>(coordinator, 0, 3), [] { return figures(3, 0); }, kept.taker(), kNever);
  FigureExchange other(
      std::make_shared<FakeMembers>(coordinator, 1, 3), [] { return figures(4, 0); }, {}, kNever);
  leader.tell_last();
  other.tell_last();
  leader.collect_last();
  EXPECT_THAT(steps_of(kept.last()), ElementsAre(3)) << "its own";
  coordinator->away = false;
  for (const char* odd : {"", "1", "1 {}", "no JSON", R"(1 {"process":0,"host":"a","step":9})"}) {
    coordinator->values["figures/1"] = odd;
    leader.collect_last();
    EXPECT_THAT(steps_of(kept.last()), ElementsAre(3)) << odd;
  }
  other.tell_last();
  leader.collect_last();
  EXPECT_THAT(steps_of(kept.last()), ElementsAre(3, 4));
}

TEST(FigureExchange, FailuresOfItsOwnEndNothing) {
  const auto coordinator = std::make_shared<Coordinator>();
  const auto full = [](const monitor::HostFigures&) { throw data_error("no space left on device"); };
  FigureExchange leader(
      std::make_shared<FakeMembers>(coordinator, 0, 2), [] { return figures(3, 0); }, full, kNever);
  FigureExchange other(
      std::make_shared<FakeMembers>(coordinator, 1, 2),
      []() -> monitor::ProcessFigures { throw device_error("the plugin has no memory to tell of"); }, {}, kNever);
  other.tell_last();
  leader.tell_last();
  leader.collect_last();
  EXPECT_THAT(coordinator->values, IsEmpty());
}

// etcd keeps all that was ever put: at most one value in two seconds, whatever the number of processes.
TEST(FigureExchange, DoesNotFillTheCoordinator) {
  using std::chrono::seconds;
  EXPECT_EQ(figure_interval(2), seconds(5));
  EXPECT_EQ(figure_interval(8), seconds(16));
  EXPECT_EQ(figure_interval(64), seconds(128));
  const auto coordinator = std::make_shared<Coordinator>();
  FigureExchange leader(
      std::make_shared<FakeMembers>(coordinator, 0, 2), [] { return figures(3, 0); }, {}, kNever);
  leader.tell_last();
  EXPECT_EQ(coordinator->puts, 0) << "the leader has its own";
}

}  // namespace
}  // namespace tessera::train
