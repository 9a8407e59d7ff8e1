#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <future>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "monitor/sinks/sink_thread.h"

namespace tessera::monitor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// What a sink saw; lives longer than the sink.
struct Seen {
  std::mutex mutex;
  std::vector<int64_t> begun, written;
  std::function<void()> on_begin = [] {};
  std::function<void(int64_t step)> on_write = [](int64_t) {};

  std::vector<int64_t> steps() {
    const std::lock_guard lock(mutex);
    return written;
  }
};

class Probe : public Sink {
 public:
  explicit Probe(std::shared_ptr<Seen> seen) : seen_(std::move(seen)) {}
  void begin(const RunStart& start) override {
    seen_->on_begin();
    const std::lock_guard lock(seen_->mutex);
    seen_->begun.push_back(start.kept_step);
  }
  void write(const Record& record) override {
    seen_->on_write(record.step);
    const std::lock_guard lock(seen_->mutex);
    seen_->written.push_back(record.step);
  }

 private:
  std::shared_ptr<Seen> seen_;
};

std::shared_ptr<const Record> record_of(int64_t step, const std::string& text = "x") {
  return std::make_shared<const Record>(Record{step, 0, Text{"name", text}});
}

TEST(SinkThread, WritesInOrderAndAllOfItBeforeTheEnd) {
  const auto seen = std::make_shared<Seen>();
  {
    SinkThread thread("probe", std::make_unique<Probe>(seen), {.workdir = "", .kept_step = 7});
    for (int64_t step = 0; step < 100; ++step) thread.put(record_of(step));
  }
  EXPECT_THAT(seen->begun, ElementsAre(7));
  std::vector<int64_t> all(100);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(seen->steps(), all);
}

// Threads that train come first at processors.
TEST(SinkThread, GivesWay) {
  const auto seen = std::make_shared<Seen>();
  int nice = -1;
  seen->on_write = [&](int64_t) { nice = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); };
  const int own = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
  {
    SinkThread thread("probe", std::make_unique<Probe>(seen), {});
    thread.put(record_of(1));
  }
  EXPECT_EQ(nice, 19);
  EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())), own);
}

// While the sink is held, put() comes back at once, and what the queue has no room for is counted and told once.
TEST(SinkThread, ASlowSinkHoldsNobodyUp) {
  const auto seen = std::make_shared<Seen>();
  std::promise<void> held, release;
  seen->on_write = [&, free = release.get_future().share()](int64_t step) {
    if (step == 0) held.set_value();
    free.wait();
  };
  SinkThread thread("probe", std::make_unique<Probe>(seen), {}, {.records = 3, .bytes = 1 << 20});
  ::testing::internal::CaptureStderr();
  thread.put(record_of(0));
  held.get_future().wait();
  for (int64_t step = 1; step < 10; ++step) thread.put(record_of(step));
  EXPECT_EQ(thread.lost(), 7) << "one is being written and two wait";
  release.set_value();
  thread.finish();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(seen->steps(), ElementsAre(0, 1, 2));
  EXPECT_THAT(said, HasSubstr("probe: it writes more slowly than there is to write"));
  EXPECT_EQ(said.find("more slowly"), said.rfind("more slowly")) << said;
  EXPECT_THAT(said, HasSubstr("probe: 7 of 10 records are not written"));
}

TEST(SinkThread, TheQueueIsBoundedInBytesToo) {
  const auto seen = std::make_shared<Seen>();
  std::promise<void> release;
  seen->on_begin = [free = release.get_future().share()] { free.wait(); };
  SinkThread thread("probe", std::make_unique<Probe>(seen), {}, {.records = 100, .bytes = 4000});
  ::testing::internal::CaptureStderr();
  thread.put(record_of(1, std::string(2000, 'x')));
  thread.put(record_of(2, std::string(2000, 'x')));
  thread.put(record_of(3));
  release.set_value();
  thread.finish();
  ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(seen->steps(), ElementsAre(1, 3));
}

TEST(SinkThread, AFailingSinkWarnsOnceAndGoesOn) {
  const auto seen = std::make_shared<Seen>();
  seen->on_write = [](int64_t step) {
    if (step == 2) throw store::IoError(ENOSPC, "write", "tb/events");
    if (step == 3) throw std::runtime_error("what a library throws");
  };
  SinkThread thread("probe", std::make_unique<Probe>(seen), {});
  ::testing::internal::CaptureStderr();
  for (int64_t step = 1; step <= 4; ++step) thread.put(record_of(step));
  thread.finish();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(seen->steps(), ElementsAre(1, 4));
  EXPECT_THAT(said, HasSubstr("warning: probe: cannot write `tb/events`: No space left on device; the run goes on"));
  EXPECT_THAT(said, Not(HasSubstr("what a library throws")));
  EXPECT_THAT(said, HasSubstr("probe: 2 of 4 records are not written"));
}

TEST(SinkThread, BeginsAgainUntilItCan) {
  const auto seen = std::make_shared<Seen>();
  int tries = 0;
  seen->on_begin = [&tries] {
    if (++tries <= 2) throw store::IoError(ENOSPC, "create", "tb");
  };
  SinkThread thread("probe", std::make_unique<Probe>(seen), {});
  ::testing::internal::CaptureStderr();
  for (int64_t step = 1; step <= 3; ++step) thread.put(record_of(step));
  thread.finish();
  ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(seen->steps(), ElementsAre(2, 3));
}

// The sink's thread is left behind, with what it works on.
TEST(SinkThread, TheEndWaitsForADiskOnlySoLong) {
  const auto seen = std::make_shared<Seen>();
  auto release = std::make_shared<std::promise<void>>();
  auto gone = std::make_shared<std::promise<void>>();
  seen->on_write = [free = release->get_future().share(), gone](int64_t) {
    free.wait();
    gone->set_value();
  };
  SinkThread thread("probe", std::make_unique<Probe>(seen), {});
  thread.put(record_of(1));
  ::testing::internal::CaptureStderr();
  thread.finish(std::chrono::milliseconds(20));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("probe: 1 of 1 records are not written"));
  release->set_value();
  gone->get_future().wait();
}

TEST(SinkThread, TheEndWaitsAsLongAsSomethingIsWritten) {
  const auto seen = std::make_shared<Seen>();
  seen->on_write = [](int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(300)); };
  SinkThread thread("probe", std::make_unique<Probe>(seen), {});
  for (int64_t step = 1; step <= 5; ++step) thread.put(record_of(step));
  thread.finish(std::chrono::seconds(1));
  EXPECT_THAT(seen->steps(), ElementsAre(1, 2, 3, 4, 5));
}

TEST(Sinks, AreListed) {
  for (const std::string& name : sink_names()) {
    ASSERT_TRUE(find_sink(name));
    EXPECT_EQ(find_sink(name)->name, name);
  }
  EXPECT_FALSE(find_sink("nowhere"));
}

}  // namespace
}  // namespace tessera::monitor
