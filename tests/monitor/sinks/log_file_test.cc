#include "monitor/sinks/log_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <thread>

#include "base/line_listener.h"
#include "base/log.h"
#include "monitor/sinks/sink_thread.h"
#include "store/faulty_files.h"
#include "store/temp_dir.h"

namespace tessera::monitor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

constexpr const char* kTime = "20[0-9][0-9]-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]\\.[0-9][0-9][0-9]Z ";

class LogFileTest : public ::testing::Test {
 protected:
  void SetUp() override { ::testing::internal::CaptureStderr(); }
  void TearDown() override {
    if (!released_) said();
  }
  // What went to stderr until now.
  std::string said() {
    released_ = true;
    return ::testing::internal::GetCapturedStderr();
  }
  std::string text() const { return store::read_text(store::local_files(), path_); }

  testing::TempDir dir_;
  const std::string path_ = dir_ / "log.txt";
  bool released_ = false;
};

TEST_F(LogFileTest, HasEveryLineWithTheTimeInUtc) {
  {
    LogFile log("start    one");
    log_line("before there is a file");
    log.open(path_);
    log_warning("of two lines\n  this is the second");
    log.open(dir_ / "other.txt");
    log.add("error: the end");
  }
  log_line("after it");
  const std::string time = kTime;
  EXPECT_THAT(text(), MatchesRegex(time + "start    one\n" + time + "before there is a file\n" + time +
                                   "warning: of two lines\n" + time + "  this is the second\n" + time + "error: the end\n"));
  EXPECT_FALSE(store::local_files().info(dir_ / "other.txt")) << "the first file that is opened is the log's";
}

// As a process that ends from another thread does.
TEST_F(LogFileTest, IsWrittenByWhoeverEndsTheProcess) {
  LogFile log("start    one");
  log.open(path_);
  for (int i = 0; i < 100; ++i) log_line("many");
  log_line("the last");
  finish_lines(std::chrono::minutes(1));
  EXPECT_THAT(text(), ::testing::EndsWith(" the last\n"));
}

TEST_F(LogFileTest, StartsAppend) {
  for (const char* start : {"start    one", "start    two"}) {
    LogFile log(start);
    log.open(path_);
  }
  const std::string time = kTime;
  EXPECT_THAT(text(), MatchesRegex(time + "start    one\n" + time + "start    two\n"));
}

// A start that was killed while it wrote leaves a part of a line.
TEST_F(LogFileTest, AppendsToWholeLines) {
  store::write_atomic(store::local_files(), path_, std::string_view("a line\nhalf a l"));
  {
    LogFile log("start    two");
    log.open(path_);
  }
  EXPECT_THAT(text(), MatchesRegex("a line\n" + std::string(kTime) + "start    two\n"));
}

TEST_F(LogFileTest, ADiskThatRefusesItIsOneWarning) {
  testing::FaultyFiles files(store::local_files());
  files.fail_at(0, ENOSPC, /*sticky=*/true);
  {
    LogFile log("start    one", files);
    log.open(path_);
    for (int i = 0; i < 5; ++i) log_line("a line");
  }
  const std::string told = said();
  EXPECT_THAT(told, HasSubstr("log.txt"));
  EXPECT_THAT(told, HasSubstr("No space left on device"));
  EXPECT_EQ(told.find("No space"), told.rfind("No space")) << told;
  EXPECT_FALSE(store::local_files().info(path_));
}

TEST_F(LogFileTest, LinesThatADiskRefusedForAWhileComeLater) {
  testing::FaultyFiles files(store::local_files());
  {
    LogFile log("start    one", files);
    log.open(path_);
    log.finish();
  }
  files.fail_at(0, ENOSPC);
  {
    LogFile log("start    two", files);
    log.open(path_);
    log_line("a line");
  }
  EXPECT_THAT(text(), AllOf(HasSubstr("start    two\n"), HasSubstr("a line\n")));
}

// A file system whose files hang when they are opened for appending.
class HangingFiles : public testing::FaultyFiles {
 public:
  explicit HangingFiles(std::shared_future<void> free) : FaultyFiles(store::local_files()), free_(std::move(free)) {}
  std::unique_ptr<store::WritableFile> create(const std::string& path) override {
    free_.wait();
    return FaultyFiles::create(path);
  }

 private:
  std::shared_future<void> free_;
};

TEST_F(LogFileTest, AHangingDiskHoldsNobody) {
  std::promise<void> release;
  static HangingFiles files(release.get_future().share());  // the thread that is left behind works on it
  {
    LogFile log("start    one", files);
    log.open(path_);
    for (int i = 0; i < 5000; ++i) log_line("a line");
    log.finish(std::chrono::milliseconds(20));
  }
  const std::string told = said();
  EXPECT_THAT(told, HasSubstr("log.txt: it writes more slowly than there is to write"));
  EXPECT_THAT(told, HasSubstr("the run goes on, and the terminal has its lines"));
  EXPECT_THAT(told, Not(HasSubstr("metrics.jsonl")));
  release.set_value();
  const auto queued = static_cast<std::ptrdiff_t>(SinkLimits().records);
  const auto written = [this] {
    const std::string lines = store::local_files().info(path_) ? text() : "";
    return std::count(lines.begin(), lines.end(), '\n');
  };
  while (written() < queued) std::this_thread::yield();
}

}  // namespace
}  // namespace tessera::monitor
