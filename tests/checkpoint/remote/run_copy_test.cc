#ifdef TESSERA_HAS_BUCKETS

#include "checkpoint/remote/run_copy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/manager.h"
#include "checkpoint/snapshots.h"
#include "store/buckets.h"
#include "store/cache_directory.h"
#include "store/file.h"
#include "store/temp_dir.h"
#include "support/bucket_servers.h"

namespace tessera::remote {
namespace {

using std::chrono::milliseconds;

// One that is saved while the files before it are being copied waits until its own metrics are there.
TEST(RunCopy, ACheckpointNeverComesBeforeItsMetrics) {
  const testing::TempDir directory;
  std::filesystem::create_directories(directory / "bucket");
  testing::BucketServers servers(directory / "bucket");
  const std::string before = store::cache_directory();
  store::set_cache_directory(directory / "cache");
  const std::string url = "s3://data/run";
  store::FileSystem& files = store::local_files();
  {
    RunCopy copy(url, [](const auto&, const auto&) { return KeptCheckpoints{}; },
                 {milliseconds(100), milliseconds(1500), milliseconds(300), "host"});
    const std::string checkpoints = store::join_path(copy.local(), "checkpoints"),
                      metrics = store::join_path(copy.local(), "metrics.jsonl");
    files.make_directories(checkpoints);
    for (int i = 0; i < 12; ++i)
      store::write_atomic(files, store::join_path(copy.local(), fmt::format("{}.txt", i)), std::string_view("text"));
    store::write_atomic(files, metrics, std::string_view("1\n"));
    servers.fail({"late"});  // copying takes a while
    checkpoint::write_checkpoint(files, checkpoints, testing::make_snapshot(1));
    while (!store::read_object(store::join_path(url, "metrics.jsonl"))) ::usleep(10'000);
    store::write_atomic(files, metrics, std::string_view("1\n2\n"));
    checkpoint::write_checkpoint(files, checkpoints, testing::make_snapshot(2));
    while (!store::read_object(url + "/checkpoints/step_000000002/COMMIT")) ::usleep(10'000);
    EXPECT_EQ(store::read_object(store::join_path(url, "metrics.jsonl")), "1\n2\n");
    servers.fail({});
  }
  store::set_cache_directory(before);
}

}  // namespace
}  // namespace tessera::remote

#endif
