#include "checkpoint/remote/run_objects.h"

#include <gmock/gmock.h>

#include <string>

namespace tessera::remote {
namespace {

// It may be training: what it has is never copied to a machine and back over newer files.
TEST(RunObjects, AnotherRunBelowIsLeftOut) {
  const RunObjects found = sorted_objects({"recipe.toml", "metrics.jsonl", "finer/recipe.toml", "finer/metrics.jsonl",
                                           "finer/checkpoints/step_000000002/COMMIT", "deep/er/CLAIM", "deep/er/tb/events",
                                           "deep/notes.txt", "finer.txt", "CLAIM"});
  EXPECT_THAT(found.others, ::testing::ElementsAre("recipe.toml", "metrics.jsonl", "deep/notes.txt", "finer.txt"));
  EXPECT_TRUE(found.checkpoints.empty());
}

// What a bucket lists may be anyone's: no name leads out of the directory that it is copied to.
TEST(RunObjects, NamesThatLeadElsewhereAreLeftOut) {
  const RunObjects found = sorted_objects({"recipe.toml",
                                           "tb/events",
                                           "",
                                           "/",
                                           "/etc/passwd",
                                           "a//b",
                                           "../up",
                                           "tb/../../up",
                                           "./here",
                                           "tb/.",
                                           "folder/",
                                           std::string("cut\0off", 7),
                                           "CLAIM",
                                           "checkpoints/step_000000002/COMMIT",
                                           "checkpoints/step_000000002/state.json",
                                           "checkpoints/step_000000004/state.json",
                                           "checkpoints/mine/COMMIT",
                                           "checkpoints/step_000000006.tmp-1/COMMIT",
                                           "checkpoints/step_000000008.damaged/COMMIT",
                                           "checkpoints/step_000000010/deep/COMMIT",
                                           "checkpoints/../../COMMIT"});
  EXPECT_THAT(found.others, ::testing::ElementsAre("recipe.toml", "tb/events"));
  ASSERT_EQ(found.checkpoints.size(), 2u);
  EXPECT_EQ(found.newest(100), 2);
  EXPECT_EQ(found.newest(2), std::nullopt);
  EXPECT_TRUE(found.committed(2));
  EXPECT_FALSE(found.committed(4));
  EXPECT_FALSE(found.committed(5));
}

}  // namespace
}  // namespace tessera::remote
