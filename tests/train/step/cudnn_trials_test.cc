// Trials of cuDNN's attention, on a platform that has none. Where it works is a GPU's business; what goes into the calls and comes
// out of them: tests/ir, CudnnAttention.

#include "train/step/cudnn_trials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/run_graph.h"

namespace tessera::train {
namespace {

using ::testing::HasSubstr;

TEST(CudnnTrials, TakeTheWordOfAPluginThatKnowsNoSuchCall) {
  const CudnnTrials trials(*testing::cpu_client(), pjrt::ExecutableCache(""));
  const ir::AttentionSizes sizes{4, 4, 1, 8};
  EXPECT_FALSE(trials(sizes));
  EXPECT_THAT(trials.failure(sizes), HasSubstr("__cudnn$fmhaSoftmax")) << "the program is read, and only the call is unknown";
  EXPECT_EQ(&trials.failure(sizes), &CudnnTrials(trials).failure(sizes)) << "tried once";
}

}  // namespace
}  // namespace tessera::train
