// A disk or a decoder that never comes back: the loader can be stopped and left, names what hangs, and frees nothing that is in
// use.

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "data/loader/loader.h"
#include "image/image_testing.h"

namespace tessera::data {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// Held until the gate opens.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void await_somebody() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_ > 0; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  bool open_ = false;
};

// One of whose files never arrives, until the gate opens.
class StuckDisk final : public Source {
 public:
  StuckDisk(std::shared_ptr<const Source> files, int64_t stuck, std::shared_ptr<Gate> gate, bool prefetch = false)
      : files_(std::move(files)), stuck_(stuck), gate_(std::move(gate)), prefetch_(prefetch) {}
  ~StuckDisk() override { files_.reset(); }
  int64_t size() const override { return files_->size(); }
  const std::vector<std::string>& class_names() const override { return files_->class_names(); }
  std::string id(int64_t index) const override { return files_->id(index); }
  const std::string& name() const override { return files_->name(); }
  void prefetch(int64_t index) const override {
    if (prefetch_ && index == stuck_) gate_->pass();
  }
  std::optional<std::string> read(int64_t index, Sample& sample) const override {
    if (!prefetch_ && index == stuck_) gate_->pass();
    if (prefetch_ && index == 0) gate_->await_somebody();  // else the reading could be ahead of the reading ahead
    return files_->read(index, sample);
  }

 private:
  std::shared_ptr<const Source> files_;
  int64_t stuck_;
  std::shared_ptr<Gate> gate_;
  bool prefetch_;
};

class Hang : public ::testing::Test {
 protected:
  static constexpr int64_t kStuck = 5;
  Hang() {
    for (int i = 0; i < 12; ++i) {
      image::testing::write_file(dir_ / fmt::format("a/{:02}.png", i),
                                 image::testing::png_bytes(image::testing::photo(20, 18, static_cast<uint32_t>(i))));
    }
  }
  ~Hang() override { gate_->open(); }

  DataSet set(PpUse use, bool prefetch = false) {
    const auto disk = std::make_shared<StuckDisk>(open_folder(dir_.path()), kStuck, gate_, prefetch);
    disk_ = disk;
    return {disk, std::make_shared<const Pp>("decode | resize(12)", use), {}};
  }
  // What is at work lives on, and is gone when the gate has opened.
  void expect_left_alive() {
    EXPECT_FALSE(disk_.expired());
    gate_->open();
    while (!disk_.expired()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  image::testing::TempDir dir_;
  std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
  std::weak_ptr<const Source> disk_;
};

TEST_F(Hang, AStopEndsTheWaitForATrainingBatch) {
  {
    TrainLoader loader({set(PpUse::kTrain)}, {.batch = 12, .threads = 2});
    gate_->await_somebody();
    int asked = 0;
    EXPECT_FALSE(loader.wait([&] { return ++asked == 3; }));
    EXPECT_EQ(asked, 3);
  }
  expect_left_alive();
}

TEST_F(Hang, AStopEndsTheWaitForAnEvaluationsBatch) {
  {
    EvalLoader loader({set(PpUse::kEval)}, {.batch = 4, .threads = 2});
    ASSERT_TRUE(loader.wait([] { return false; }));
    ASSERT_TRUE(loader.next());
    EXPECT_FALSE(loader.wait([] { return true; }));
  }
  expect_left_alive();
}

// A disk that hangs while files are fetched ahead keeps nobody: neither the batch, which can be read, nor the end.
TEST_F(Hang, ReadingAheadKeepsNobody) {
  {
    EvalLoader loader({set(PpUse::kEval, /*prefetch=*/true)}, {.batch = 2, .threads = 1, .prefetch = 1});
    for (int i = 0; i < 6; ++i) ASSERT_TRUE(loader.next());
    EXPECT_FALSE(loader.next());
  }
  expect_left_alive();
}

TEST_F(Hang, ABatchThatComesLateIsTheSame) {
  EvalLoader loader({set(PpUse::kEval)}, {.batch = 12, .threads = 2});
  gate_->await_somebody();
  EXPECT_FALSE(loader.wait([] { return true; }));
  gate_->open();
  const std::optional<Batch> late = loader.next();
  EvalLoader whole({open_folder(dir_.path()), std::make_shared<const Pp>("decode | resize(12)", PpUse::kEval), {}},
                   {.batch = 12, .threads = 2});
  const std::optional<Batch> want = whole.next();
  EXPECT_EQ(0, std::memcmp(late->images(), want->images(), want->image_bytes()));
}

TEST_F(Hang, WhatHangsIsNamed) {
  const std::string path = dir_ / "log";
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND, 0600), before = log_descriptor();
  set_log_descriptor(file);
  const auto said = [&] {
    const std::vector<uint8_t> bytes = image::testing::read_file(path);
    return std::string(bytes.begin(), bytes.end());
  };
  const auto times = [&] {
    size_t count = 0;
    const std::string text = said();
    for (size_t at = text.find("no batch for"); at != std::string::npos; at = text.find("no batch for", at + 1)) ++count;
    return count;
  };
  TrainLoader loader({set(PpUse::kTrain)}, {.batch = 12, .threads = 1, .patience_seconds = 0.05});
  EXPECT_FALSE(loader.wait([&] { return times() >= 2; }));  // it is said again
  set_log_descriptor(before);
  ::close(file);
  EXPECT_THAT(said(),
              ContainsRegex("warning: no batch for [0-9]+ s: reading of `.*/a/05.png` has taken [0-9]+ s so far; 1 of 1 "
                            "threads are busy\nhelp: "));
  EXPECT_THAT(said(), HasSubstr("a stop signal does not wait for it"));
}

}  // namespace
}  // namespace tessera::data
