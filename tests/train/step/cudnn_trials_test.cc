// Trials of cuDNN's attention. Where it works is a GPU's business: here ops play its part, or nobody does.

#include "train/step/cudnn_trials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "ir/ops.h"
#include "ir/program/program.h"
#include "support/played_cudnn.h"
#include "support/run_graph.h"

namespace tessera::train {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// What a trial says of cuDNN as `play` gives its results for a call.
std::string problem(const ir::AttentionSizes& sizes, const std::function<ir::Values(const ir::Values&)>& play) {
  std::vector<float> results;
  for (const auto& result :
       testing::run_graph(*testing::with_calls_played(*ir::finish(*trial_graph(sizes), {}, nullptr), play)))
    results.push_back(result.floats().at(0));
  return trial_problem(results);
}

TEST(CudnnTrials, AcceptAttentionThatIsRoundedToBf16) {
  for (const ir::AttentionSizes& sizes : {ir::AttentionSizes{50, 50, 2, 64}, {5, 7, 1, 8}, {1, 65, 2, 32}})
    EXPECT_EQ(problem(sizes, testing::play_cudnn), "");
}

TEST(CudnnTrials, RefuseAnotherMeaning) {
  const auto refused = [](const std::function<void(ir::Values&)>& change, bool of_operands) {
    EXPECT_THAT(problem({6, 6, 2, 16},
                        [&](ir::Values operands) {
                          if (of_operands) change(operands);
                          ir::Values results = testing::play_cudnn(operands);
                          if (!of_operands) change(results);
                          return results;
                        }),
                StartsWith("its results are off by"));
  };
  refused([](ir::Values& operands) { operands[0] = operands[0] * 8.0; }, true);  // other scores
  refused([](ir::Values& operands) { std::swap(operands[1], operands[2]); }, true);
  refused([](ir::Values& results) { results[0] = results[0] * 1.1; }, false);
  refused(
      [](ir::Values& results) {
        if (results.size() == 4) std::swap(results[1], results[2]);  // the cotangents of keys and values
      },
      false);
  refused([](ir::Values& results) { results[0] = ir::log(results[0] * 0.0 - 1.0); }, false);  // no numbers
}

// What a program with one call can do and another can't: XLA has lost the second of two equal ones.
TEST(CudnnTrials, RefuseWhatWorksOnce) {
  int calls = 0;
  EXPECT_THAT(problem({6, 6, 2, 16},
                      [&](const ir::Values& operands) {
                        ir::Values results = testing::play_cudnn(operands);
                        if (operands.size() > 3 && ++calls == 2) results[0] = ir::zeros_like(results[0]);
                        return results;
                      }),
              StartsWith("its results are off by"));
  EXPECT_EQ(calls, 2);
}

TEST(CudnnTrials, TakeTheWordOfAPluginThatKnowsNoSuchCall) {
  const CudnnTrials trials(*testing::cpu_client(), pjrt::ExecutableCache(""));
  const ir::AttentionSizes sizes{4, 4, 1, 8};
  EXPECT_FALSE(trials(sizes));
  EXPECT_THAT(trials.failure(sizes), HasSubstr("__cudnn$fmhaSoftmax")) << "the program is read, and only the call is unknown";
  EXPECT_EQ(&trials.failure(sizes), &CudnnTrials(trials).failure(sizes)) << "tried once";
}

}  // namespace
}  // namespace tessera::train
