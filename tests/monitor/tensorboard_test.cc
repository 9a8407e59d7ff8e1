// Event files. tests/train/reporting/tensorboard_test.cc reads those of whole runs with TensorBoard's own reader.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>

#include "base/rng.h"
#include "base/text/text.h"
#include "monitor/sinks/sinks.h"
#include "monitor/tensorboard/event.h"
#include "monitor/tensorboard/event_files.h"
#include "store/encoding/tfrecord_frame.h"
#include "store/faulty_files.h"
#include "store/temp_dir.h"
#include "support/hex.h"

namespace tessera::monitor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::hex;
using testing::slurp;
using testing::spill;
using testing::TempDir;

std::string framed(const std::string& event) { return store::tfrecord_header(event) + event + store::tfrecord_footer(event); }

// Bytes that tensorboard.summary.writer.record_writer of TensorBoard 2.21.0 wrote for these events.
TEST(Event, HasTheBytesOfTensorBoardsOwnWriter) {
  EXPECT_EQ(hex(framed(version_event(1.5))),
            "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c");
  EXPECT_EQ(
      hex(framed(record_event({300, 2.5, Scalars{{{"training_loss", 0.25}, {"a/b", int64_t{-3}}}}}))),
      "300000000000000095f5d05f09000000000000044010ac022a220a140a0d747261696e696e675f6c6f7373150000803e0a0a0a03612f62150000"
      "40c0eced084a");
  EXPECT_EQ(hex(framed(start_event(2.5, 7))), "0f000000000000006d532b0909000000000000044010073a0208019aaf83ce");
}

TEST(Event, TextsAmongMetricsAreLeftOut) {
  EXPECT_EQ(record_event({1, 2.5, Scalars{{{"label", "text"}}}}), "");
  EXPECT_EQ(record_event({1, 2.5, Scalars{{{"label", "text"}, {"x", 1.0}}}}), record_event({1, 2.5, Scalars{{{"x", 1.0}}}}));
}

TEST(Event, IsReadBack) {
  const auto scalars = read_event(record_event({300, 2.5, Scalars{{{"x", 0.25}}}}));
  ASSERT_TRUE(scalars);
  EXPECT_EQ(scalars->step, 300);
  EXPECT_TRUE(scalars->scalars);
  EXPECT_FALSE(scalars->start);
  const auto text = read_event(record_event({3, 2.5, Text{"recipe", "seed = 0"}}));
  ASSERT_TRUE(text);
  EXPECT_EQ(text->step, 3);
  EXPECT_FALSE(text->scalars);
  EXPECT_TRUE(read_event(start_event(0, 7))->start);
  EXPECT_FALSE(read_event("\x0a"));
}

// A run's directory: starts that go on from a step and write some, as the sink and metrics.jsonl have them.
class TensorboardRun : public ::testing::Test {
 protected:
  struct Point {
    int64_t step;
    float value;
    bool operator==(const Point&) const = default;
  };

  // Writes steps kept + 1 … last to metrics.jsonl and, unless `off`, to the sink.
  void start(int64_t kept, int64_t last, bool off = false) { start(kept, last, off, files_); }
  void start(int64_t kept, int64_t last, bool off, store::FileSystem& files) {
    MetricWriter writer(dir_.path());
    writer.truncate_after(kept);
    Sinks sinks;
    if (!off) sinks.begin({"tensorboard"}, {dir_.path(), kept, 1000, 50}, files);
    for (int64_t step = std::max<int64_t>(kept, 0) + 1; step <= last; ++step) {
      std::vector<Metric> metrics = {{"loss", value(step)}, {"uptime", static_cast<double>(step)}};
      if (!long_name_.empty()) metrics.push_back({long_name_, 1.0});
      writer.write(step, metrics);
      sinks.put(step, Scalars{metrics});
      if (step % 4 == 0) sinks.put(step, Text{"note", fmt::format("at {}", step)});
    }
    sinks.finish();
  }
  static double value(int64_t step) { return 1 / static_cast<double>(step); }

  std::vector<std::string> files() {
    std::vector<std::string> names;
    for (const store::FileInfo& info : store::local_files().list(dir_ / "tb")) names.push_back(info.name);
    return names;
  }
  // Steps of all files one after the other.
  std::vector<int64_t> steps(bool scalars) {
    std::vector<int64_t> found;
    for (const std::string& name : files()) {
      const std::string bytes = slurp(dir_ / "tb/" + name);
      for (size_t at = 0; at < bytes.size();) {
        const auto length = store::tfrecord_length(std::string_view(bytes).substr(at, 12));
        EXPECT_TRUE(length) << name << " at " << at;
        if (!length) break;
        const auto facts = read_event(std::string_view(bytes).substr(at + 12, *length));
        EXPECT_TRUE(facts);
        if (facts->scalars == scalars && !facts->start && facts->step > 0) found.push_back(facts->step);
        at += 12 + *length + 4;
      }
    }
    return found;
  }
  static std::vector<int64_t> up_to(int64_t last, int64_t every = 1) {
    std::vector<int64_t> all;
    for (int64_t step = every; step <= last; step += every) all.push_back(step);
    return all;
  }
  static std::string name(int64_t number) { return fmt::format("events.out.tfevents.{:010}.tessera", number); }

  TempDir dir_;
  testing::FaultyFiles files_{store::local_files()};
  std::string long_name_;  // of one more metric, where a few lines are to make a large file
};

TEST_F(TensorboardRun, AStartHasAFileOfItsOwnAndCutsTheOthers) {
  start(-1, 12);
  EXPECT_THAT(files(), ElementsAre(name(1)));
  start(6, 9);
  EXPECT_THAT(files(), ElementsAre(name(1), name(2)));
  EXPECT_EQ(steps(true), up_to(9));
  EXPECT_THAT(steps(false), ElementsAre(4, 8));
  start(9, 12);
  EXPECT_EQ(steps(true), up_to(12));
  EXPECT_THAT(files(), ElementsAre(name(1), name(2), name(3)));
  // From before the third start, and the second: their files go.
  start(6, 7);
  EXPECT_THAT(files(), ElementsAre(name(1), name(4)));
  EXPECT_EQ(steps(true), up_to(7));
  start(-1, 2);
  EXPECT_THAT(files(), ElementsAre(name(5)));
  EXPECT_EQ(steps(true), up_to(2));
}

TEST_F(TensorboardRun, WhatMetricsHaveAndEventsLackIsWrittenAgain) {
  start(-1, 8, /*off=*/true);
  start(8, 10);
  EXPECT_EQ(steps(true), up_to(10)) << "the sink was off at first";
  // Cut anywhere by a kill, or damaged.
  const std::string whole = slurp(dir_ / "tb/" + name(1));
  for (size_t size = 0; size < whole.size(); size += 29) {
    for (const bool damaged : {false, true}) {
      std::string bytes = whole.substr(0, damaged ? whole.size() : size);
      if (damaged) bytes[size] = static_cast<char>(bytes[size] ^ 0x10);
      for (const std::string& file : files()) store::local_files().remove_file(dir_ / "tb/" + file);
      spill(dir_ / "tb/" + name(1), bytes);
      start(10, 12);
      EXPECT_EQ(steps(true), up_to(12)) << size;
    }
  }
}

TEST_F(TensorboardRun, WhatTheDiskCannotReadIsSaidAndWrittenAgain) {
  long_name_ = std::string(500, 'x');
  start(-1, 300, /*off=*/true);
  start(299, 300);
  ASSERT_GT(slurp(dir_ / "tb/" + name(1)).size(), size_t{130'000}) << "small files are read, not mapped";
  testing::CutWhenMapped cut(store::local_files());
  ::testing::internal::CaptureStderr();
  start(300, 302, /*off=*/false, cut);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr(name(1) + "` can't be read to its end"));
  EXPECT_EQ(steps(true), up_to(302));
}

TEST_F(TensorboardRun, OtherFilesAreLeftAlone) {
  std::filesystem::create_directories(dir_ / "tb");
  const std::vector<std::string> others = {"events.out.tfevents.1700000000.host", "events.out.tfevents.00000000a1.tessera",
                                           "notes"};
  for (const std::string& other : others) spill(dir_ / "tb/" + other, "mine");
  start(-1, 3);
  start(-1, 3);
  for (const std::string& other : others) EXPECT_EQ(slurp(dir_ / "tb/" + other), "mine");
  EXPECT_EQ(files().size(), 4u);
}

// Whatever operation fails, once: the file is whole records, and the next start has what is missing.
TEST_F(TensorboardRun, NoFaultBreaksAFile) {
  for (int64_t k = 0;; ++k) {
    std::filesystem::remove_all(dir_ / "tb");
    start(-1, 4);
    files_.fail_at(k, ENOSPC);
    ::testing::internal::CaptureStderr();
    start(3, 8);
    const std::string said = ::testing::internal::GetCapturedStderr();
    const bool fired = files_.fired();
    files_.disarm();
    EXPECT_EQ(said.find("No space left on device") != std::string::npos, fired) << k << said;
    steps(true);
    start(8, 9);
    EXPECT_EQ(steps(true), up_to(9)) << k;
    if (!fired) break;
    ASSERT_LT(k, 100);
  }
}

TEST_F(TensorboardRun, NothingIsMadeInPlaceOfADirectoryThatWent) {
  Sinks sinks;
  sinks.begin({"tensorboard"}, {dir_.path(), -1, 1000, 50}, files_);
  sinks.put(1, Scalars{{{"x", 1.0}}});
  while (!std::filesystem::exists(dir_ / "tb/" + name(1)) || steps(true).empty()) std::this_thread::yield();
  std::filesystem::rename(dir_ / "tb", dir_ / "gone");
  std::filesystem::create_directories(dir_ / "tb");
  files_.fail_at(0, ENOSPC);
  ::testing::internal::CaptureStderr();
  for (int64_t step = 2; step < 5; ++step) sinks.put(step, Scalars{{{"x", 1.0}}});
  sinks.finish();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("3 of 4 records are not written"));
  EXPECT_TRUE(files().empty());
}

TEST_F(TensorboardRun, LinesWrittenAgainHaveTheTimeOfTheirUptime) {
  start(-1, 2, /*off=*/true);
  start(2, 2);
  const std::string bytes = slurp(dir_ / "tb/" + name(1));
  // It is 1000 when the run has taken 50 seconds.
  EXPECT_NE(bytes.find(framed(record_event({1, 951, Scalars{{{"loss", 1.0}, {"uptime", 1.0}}}}))), std::string::npos);
}

}  // namespace
}  // namespace tessera::monitor
