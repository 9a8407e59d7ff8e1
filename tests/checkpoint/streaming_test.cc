// Saving group by group: in bounded memory, and with anything failing in the middle.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <future>
#include <thread>

#include "base/error.h"
#include "checkpoint/commit.h"
#include "checkpoint/manager.h"
#include "checkpoint/snapshots.h"
#include "store/faulty_files.h"
#include "store/memory_files.h"
#include "store/temp_dir.h"

namespace tessera::checkpoint {
namespace {

using testing::expect_snapshot;
using testing::FaultyFiles;
using ::testing::HasSubstr;
using testing::make_sliced_snapshot;
using testing::make_tensor;
using testing::MemoryFiles;
using testing::PowerCut;
using testing::TempDir;

// A disk that does something before each file is made and each write: waits, most often.
class HookedFiles : public MemoryFiles {
 public:
  explicit HookedFiles(std::function<void()> before) : before_(std::move(before)) {}
  std::unique_ptr<store::WritableFile> create(const std::string& path) override {
    before_();
    return std::make_unique<File>(before_, MemoryFiles::create(path));
  }

 private:
  struct File : store::WritableFile {
    File(const std::function<void()>& hook, std::unique_ptr<store::WritableFile> file) : before(hook), inner(std::move(file)) {}
    void write(std::span<const std::byte> bytes) override {
      before();
      inner->write(bytes);
    }
    void flush() override { inner->flush(); }
    void sync() override { inner->sync(); }
    void close() override { inner->close(); }
    store::FileInfo info() const override { return inner->info(); }
    const std::function<void()>& before;
    std::unique_ptr<store::WritableFile> inner;
  };
  std::function<void()> before_;
};

// What a snapshot's `read` functions did: how many bytes they hold at once, and in which order they were called.
struct Meter {
  std::atomic<int64_t> alive{0};
  std::atomic<int64_t> most{0};
  std::vector<size_t> order;

  store::Bytes take(int64_t bytes) {
    alive += bytes;
    most = std::max<int64_t>(most, alive);
    auto* memory = new std::vector<std::byte>(static_cast<size_t>(bytes), std::byte{7});
    std::shared_ptr<const void> owner(memory, [this, bytes, memory](const void*) {
      delete memory;
      alive -= bytes;
    });
    return {std::move(owner), *memory};
  }
};

// Groups of these sizes, each of two arrays where it is not empty.
Snapshot metered(Meter& meter, const std::vector<int64_t>& sizes, int64_t step) {
  Snapshot snapshot;
  snapshot.step = step;
  const std::thread::id caller = std::this_thread::get_id();
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t size = sizes[i];
    snapshot.groups.push_back({size, [&meter, i, size, caller] {
                                 EXPECT_EQ(std::this_thread::get_id(), caller);
                                 meter.order.push_back(i);
                                 std::vector<HostTensor> tensors;
                                 for (const int64_t part : {size / 3, size - size / 3}) {
                                   const TensorType type{DType::kU8, {part}};
                                   tensors.push_back({fmt::format("group{}/{}", i, tensors.size()), type, meter.take(part)});
                                 }
                                 return tensors;
                               }});
  }
  return snapshot;
}

TEST(Streaming, MemoryStaysUnderTheCeiling) {
  struct Case {
    std::vector<int64_t> sizes;
    int64_t max, ceiling;
  };
  const Case cases[] = {
      {{100, 100, 100, 100, 100, 100, 100, 100}, 250, 200},
      {{100, 100, 100, 100, 100, 100}, 0, 100},
      {{10, 300, 10, 20, 300, 5, 5, 5, 5}, 40, 300},
      {{10, 0, 30, 20, 0, 7, 40, 5, 13, 28, 0}, 50, 50},
      {{100, 100, 100}, 1000, 300},
  };
  for (const Case& c : cases) {
    HookedFiles files([] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
    Meter meter;
    {
      CheckpointManager manager("run", {1, 0}, files, c.max);
      for (const int64_t step : {1, 2}) manager.save_async(metered(meter, c.sizes, step));
      manager.wait();
      EXPECT_FALSE(manager.poll_failure());
      EXPECT_EQ(manager.last_committed(), 2);
    }
    EXPECT_LE(meter.most, c.ceiling);
    EXPECT_EQ(meter.alive, 0);
    std::vector<size_t> in_order;
    for (size_t i = 0; i < 2 * c.sizes.size(); ++i) in_order.push_back(i % c.sizes.size());
    EXPECT_EQ(meter.order, in_order);
    const LoadedCheckpoint loaded = *find_latest("run", files).checkpoint;
    EXPECT_EQ(loaded.arrays.size(), 2 * c.sizes.size());
    EXPECT_EQ(loaded.files.size(), c.sizes.size());
  }
}

TEST(Streaming, WhatFitsIsReadAtOnceAndWrittenInTheBackground) {
  std::promise<void> open;
  const std::shared_future<void> gate = open.get_future().share();
  HookedFiles files([gate] { gate.wait(); });
  Meter meter;
  CheckpointManager manager("run", {1, 0}, files, 300);
  manager.save_async(metered(meter, {100, 100, 100}, 1));  // returns although nothing can be written
  EXPECT_EQ(meter.alive, 300);
  EXPECT_EQ(meter.order.size(), 3u);
  EXPECT_FALSE(manager.last_committed());
  open.set_value();
  manager.wait();
  EXPECT_EQ(meter.alive, 0);
  EXPECT_EQ(manager.last_committed(), 1);
}

TEST(Streaming, WhatIsTooMuchWaitsForTheDisk) {
  std::promise<void> open;
  const std::shared_future<void> gate = open.get_future().share();
  HookedFiles files([gate] { gate.wait(); });
  Meter meter;
  CheckpointManager manager("run", {1, 0}, files, 299);
  auto opener = std::async(std::launch::async, [&] {
    while (meter.alive < 200) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    const bool waited = meter.alive == 200;  // two groups are read, the third has no room
    open.set_value();
    return waited;
  });
  manager.save_async(metered(meter, {100, 100, 100}, 1));
  EXPECT_TRUE(opener.get());
  manager.wait();
  EXPECT_EQ(manager.last_committed(), 1);
}

TEST(Streaming, AFailureEndsTheReading) {
  for (const int64_t max : {0, 100, 250}) {
    MemoryFiles files;
    FaultyFiles faulty(files);
    Meter meter;
    {
      CheckpointManager manager("run", {1, 0}, faulty, max);
      manager.save_async(make_sliced_snapshot(10));
      manager.wait();
      faulty.fail_at(0, ENOSPC, /*sticky=*/true);
      manager.save_async(metered(meter, std::vector<int64_t>(50, 100), 20));
      manager.wait();
      faulty.disarm();
      const auto failure = manager.poll_failure();
      ASSERT_TRUE(failure);
      EXPECT_EQ(failure->step, 20);
      EXPECT_THAT(failure->message, HasSubstr("the checkpoint of step 20 could not be saved"));
      EXPECT_LE(meter.order.size(), 3u);
      EXPECT_EQ(meter.alive, 0);
      expect_snapshot(*find_latest("run", files).checkpoint, make_sliced_snapshot(10));
      manager.save_async(make_sliced_snapshot(30));
    }
    EXPECT_EQ(find_latest("run", files).checkpoint->step, 30);
  }
}

TEST(Streaming, EveryFailingOperationLeavesThePreviousCheckpoint) {
  for (const bool sticky : {false, true}) {
    int64_t k = 0;
    for (bool fired = true; fired; ++k) {
      ASSERT_LT(k, 300);
      MemoryFiles files;
      FaultyFiles faulty(files);
      CheckpointManager manager("run", {1, 0}, faulty, /*max_bytes_in_flight=*/0);
      manager.save_async(make_sliced_snapshot(10));
      manager.wait();
      faulty.fail_at(k, ENOSPC, sticky);
      manager.save_async(make_sliced_snapshot(20));
      manager.wait();
      fired = faulty.fired();
      faulty.disarm();
      const auto failure = manager.poll_failure();
      const LatestCheckpoint latest = find_latest("run", files);
      ASSERT_TRUE(latest.checkpoint);
      expect_snapshot(*latest.checkpoint, make_sliced_snapshot(latest.checkpoint->step));
      EXPECT_TRUE(failure || latest.checkpoint->step == 20) << "operation " << k << " failed silently";
      manager.save_async(make_sliced_snapshot(30));
      manager.wait();
      EXPECT_FALSE(manager.poll_failure()) << "operation " << k;
      EXPECT_EQ(find_latest("run", files).checkpoint->step, 30);
    }
    EXPECT_GT(k, 20);
  }
}

TEST(Streaming, WhatAReadThrowsLeavesSaveAsync) {
  for (const size_t failing : {0, 1, 4}) {
    const TempDir directory;
    CheckpointManager manager(directory.path(), {1, 0}, store::local_files(), /*max_bytes_in_flight=*/200);
    manager.save_async(make_sliced_snapshot(10));
    Meter meter;
    Snapshot snapshot = metered(meter, {100, 100, 100, 100, 100}, 20);
    snapshot.groups[failing].read = []() -> std::vector<HostTensor> { throw device_error("the device is gone"); };
    bool committing = false;
    snapshot.before_commit = [&] { committing = true; };
    try {
      manager.save_async(std::move(snapshot));
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kDevice);
    }
    EXPECT_FALSE(committing);
    EXPECT_EQ(meter.alive, 0);
    EXPECT_EQ(meter.order.size(), failing);
    EXPECT_EQ(store::local_files().list(directory.path()).size(), 1u);
    EXPECT_FALSE(manager.poll_failure());
    manager.save_async(make_sliced_snapshot(30));
    manager.wait();
    EXPECT_FALSE(manager.poll_failure());
    expect_snapshot(*find_latest(directory.path()).checkpoint, make_sliced_snapshot(30));
  }
}

TEST(Streaming, AGroupOfOtherBytesThanPromisedIsABug) {
  const TempDir directory;
  CheckpointManager manager(directory.path(), {1, 0});
  Snapshot snapshot;
  snapshot.add({make_tensor("a", {DType::kF32, {2}}, 1)});
  snapshot.groups[0].bytes = 4;
  EXPECT_THROW(write_checkpoint(store::local_files(), directory.path(), snapshot), InternalError);
  EXPECT_THROW(manager.save_async(std::move(snapshot)), InternalError);
  EXPECT_TRUE(store::local_files().list(directory.path()).empty());
}

TEST(Streaming, AnArrayThatIsNotWholeIsABugOfOurs) {
  const TempDir directory;
  CheckpointManager manager(directory.path(), {1, 0});
  Snapshot snapshot;
  snapshot.add({testing::slice_of(make_tensor("a", {DType::kF32, {2, 2}}, 1), {{1, 2}, {1, 0}})});
  EXPECT_THAT(([&] {
                manager.save_async(std::move(snapshot));
                manager.wait();
              }),
              ::testing::ThrowsMessage<std::exception>(HasSubstr("array `a`: its pieces hold 2 of the 4 elements")));
}

TEST(Streaming, NoArraysAtAllAreOneEmptyFile) {
  const TempDir directory;
  {
    CheckpointManager manager(directory.path(), {2, 0});
    Snapshot empty;
    empty.step = 2;
    manager.save_async(std::move(empty));
  }
  write_checkpoint(store::local_files(), directory.path(), {1});
  for (const char* name : {"step_000000001", "step_000000002"}) EXPECT_TRUE(load(directory / name).arrays.empty());
}

// Each file is whole and durable before COMMIT is there, and COMMIT before the name.
TEST(Streaming, TheStepsAreInOrder) {
  MemoryFiles files;
  FaultyFiles recorder(files);
  Meter meter;
  files.make_directories("c");
  write_checkpoint(recorder, "c", metered(meter, {3, 3}, 1));
  const std::string path = "c/step_000000001", temporary = fmt::format("{}.tmp-{}", path, getpid());
  std::vector<std::string> wanted{"create c", "create " + temporary};
  for (const char* name : {"state-00001-of-00002.safetensors", "state-00002-of-00002.safetensors", "state.json", "COMMIT"}) {
    wanted.push_back(fmt::format("sync {}/{}", temporary, name));
    wanted.push_back(fmt::format("close {}/{}", temporary, name));
  }
  for (const std::string& last : {"sync " + temporary, "rename " + path, std::string("sync c")}) wanted.push_back(last);
  EXPECT_EQ(recorder.operations(), wanted);
}

TEST(Streaming, APowerCutAtAnyMomentKeepsAnEndedSave) {
  using Loss = MemoryFiles::Loss;
  for (const Loss loss : {Loss::kAllLost, Loss::kNamesKept, Loss::kContentsTorn}) {
    bool cut = true;
    int64_t k = 0;
    for (; cut; ++k) {
      ASSERT_LT(k, 300);
      MemoryFiles files;
      write_checkpoint(files, "run/checkpoints", make_sliced_snapshot(10));
      int64_t ended = 10;
      files.cut_after(k);
      try {
        write_checkpoint(files, "run/checkpoints", make_sliced_snapshot(20));
        ended = 20;
        apply_keep_rules(files, "run/checkpoints", {1, 0}, 20);
      } catch (const PowerCut&) {
      }
      cut = files.power_is_off();
      files.restart(loss);
      const LatestCheckpoint latest = find_latest("run/checkpoints", files);
      ASSERT_TRUE(latest.checkpoint) << "operation " << k;
      EXPECT_GE(latest.checkpoint->step, ended) << "operation " << k;
      expect_snapshot(*latest.checkpoint, make_sliced_snapshot(latest.checkpoint->step));
    }
    EXPECT_GT(k, 40);
  }
}

}  // namespace
}  // namespace tessera::checkpoint
