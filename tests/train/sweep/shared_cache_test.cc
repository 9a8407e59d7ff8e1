// Decoded pictures that the runs of a sweep share.

#include "train/sweep/shared_cache.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/system/temporary_directory.h"

namespace tessera::sweep {
namespace {

namespace fs = std::filesystem;

TEST(SharedCache, IsForCachesInMemory) {
  const auto bytes = [](const std::string& recipe) { return memory_caches(config::parse_recipe(recipe, "x.toml", {})); };
  EXPECT_EQ(bytes("data = { source = \"folder(a)\" }"), 0);
  EXPECT_EQ(bytes("data = { source = \"folder(a)\", cache = \"disk(b, 1 GiB, decoded=true)\" }"), 0);
  EXPECT_EQ(bytes("data = { cache = \"ram(1 MiB)\" }\n[eval.val]\ndata = { cache = \"ram(2 MiB)\" }\n[eval.old]\ndata = {}\n"),
            3 << 20);
}

TEST(SharedCache, IsForRunsThatReadTheSame) {
  EXPECT_TRUE(read_the_same({{"lr", "1e-3"}, {"seed", "0"}, {"data.batch", "32"}, {"model.depth", "2"}}));
  EXPECT_FALSE(read_the_same({{"seed", "0"}, {"data.fold", "0/5"}}));
  EXPECT_FALSE(read_the_same({{"eval.val.data.source", "folder(a)"}}));
}

TEST(SharedCache, IsTheSweepsAloneAndGoneAtTheEnd) {
  std::string memory = (fs::temp_directory_path() / "tessera_memory_XXXXXX").string();
  ASSERT_TRUE(::mkdtemp(memory.data()));
  std::string path;
  {
    const SharedCache one("runs/a", memory), other("runs/b", memory);
    path = one.path();
    EXPECT_EQ(fs::path(path).parent_path().string(), memory);
    EXPECT_NE(path, other.path());
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
    EXPECT_EQ(one.variable().value, path);
    fs::create_directories(fs::path(path) / "data.cache/0");
    std::ofstream(fs::path(path) / "data.cache/0/1") << "picture";
  }
  EXPECT_TRUE(fs::is_empty(memory));
  // A sweep that was killed takes up what it left.
  fs::create_directory(path);
  fs::permissions(path, fs::perms::owner_all);
  EXPECT_EQ(SharedCache("./runs/a", memory).path(), path);
  EXPECT_TRUE(fs::is_empty(memory));
  fs::remove(memory);
}

// Which another user may have put there.
TEST(SharedCache, FollowsNoLink) {
  const TemporaryDirectory memory("tessera-memory"), victim("tessera-victim");
  const std::string path = SharedCache("runs", memory.path()).path();
  std::filesystem::create_directory_symlink(victim.path(), path);
  EXPECT_THROW(SharedCache("runs", memory.path()), Error);
}

}  // namespace
}  // namespace tessera::sweep
