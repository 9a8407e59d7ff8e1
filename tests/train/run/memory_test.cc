// When a run gives memory back to the system. Tests are not linked with jemalloc: what it is asked for is counted here.

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>

#include "base/system/large_blocks.h"
#include "train/small_run.h"

namespace {

std::mutex mutex;
std::map<std::string, int> asked;  // name -> times

int times(const std::string& name) {
  const std::scoped_lock lock(mutex);
  return asked[name];
}

}  // namespace

// Large blocks are those of arena 7, and there is always one that is free.
extern "C" int mallctl(const char* name, void* old, size_t*, void*, size_t) {
  const std::string what = name;
  if (what == "arenas.lookup") *static_cast<unsigned*>(old) = 7;
  if (what == "arenas.page" || what == "stats.arenas.7.pdirty") *static_cast<size_t*>(old) = size_t{1} << 20;
  const std::scoped_lock lock(mutex);
  ++asked[what];
  return 0;
}

namespace tessera::train {
namespace {

using testing::small_run;

TEST(Memory, GoesBackAfterACompilationAndBeforeTheLastSave) {
  keep_large_blocks();
  const int compilations = times("arena.4096.purge"), saves = times("arena.7.purge");
  ASSERT_EQ(small_run().train("memory", {"total=4 steps", "checkpoint.every=2 steps"}).exit, Exit::kDone);
  EXPECT_GE(times("arena.4096.purge") - compilations, 2) << "of the state's first values and of the training step";
  EXPECT_EQ(times("arena.7.purge") - saves, 1) << "not where steps follow the save";
}

}  // namespace
}  // namespace tessera::train
