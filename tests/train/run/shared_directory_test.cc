#include "train/run/shared_directory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "cluster/group/local_etcd.h"
#include "store/temp_dir.h"

namespace tessera::train {
namespace {

// Four processes, which are threads here, and the directories that each of them has.
std::vector<std::vector<int64_t>> found(const std::vector<std::string>& directories) {
  const group::LocalEtcd etcd;
  std::vector<std::vector<int64_t>> firsts(directories.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < directories.size(); ++i) {
    threads.emplace_back([&, i] {
      Processes processes({static_cast<int64_t>(i), static_cast<int64_t>(directories.size()), etcd.address(), "directories"});
      firsts[i] = directory_of_each(processes, directories[i]);
      processes.leave();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return firsts;
}

TEST(SharedDirectory, IsToldByWhatProcessesLeaveThere) {
  const testing::TempDir a, b;
  std::filesystem::create_directory_symlink(a.path(), b / "other way to a");
  using Firsts = std::vector<int64_t>;
  for (const Firsts& firsts : found({a.path(), a.path(), a.path(), b / "other way to a"}))
    EXPECT_EQ(firsts, (Firsts{0, 0, 0, 0}));
  for (const Firsts& firsts : found({a.path(), b.path(), a.path(), b.path()})) EXPECT_EQ(firsts, (Firsts{0, 1, 0, 1}));
  EXPECT_TRUE(std::filesystem::is_empty(a.path())) << "what they left is gone";
}

}  // namespace
}  // namespace tessera::train
