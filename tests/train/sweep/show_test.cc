// What is said of a sweep's programs.

#include <gmock/gmock.h>

#include "train/sweep/score_text.h"
#include "train/sweep/sweep.h"

namespace tessera::sweep {
namespace {

Trial trial(const std::string& depth, const std::string& seed) {
  Trial one;
  one.variant = {{"model.depth", depth}, {"seed", seed}};
  return one;
}

TEST(Compilations, SayWhatLoadingSavedAndWhichRunsCompiled) {
  SweepResult result;
  for (const char* depth : {"1", "2"}) {
    for (const char* seed : {"0", "1", "2"}) result.trials.push_back(trial(depth, seed));
  }
  for (const size_t i : {size_t{0}, size_t{3}}) result.trials[i].compiled = 1, result.trials[i].compile_seconds = 8;
  for (const size_t i : {size_t{1}, size_t{2}, size_t{4}, size_t{5}})
    result.trials[i].loaded = 1, result.trials[i].load_seconds = 0.5;
  EXPECT_EQ(compilations(result),
            "training steps: 2 compiled in 16.0 s, 4 loaded, which took 30.0 s less than to compile them\n"
            "compiled for: model.depth=1 seed=0; model.depth=2 seed=0");
  // One program serves all.
  result.trials.resize(3);
  EXPECT_EQ(compilations(result), "training steps: 1 compiled in 8.0 s, 2 loaded, which took 15.0 s less than to compile them");
  // Runs that waited for the compilation saved nothing.
  for (Trial& one : result.trials) one.load_seconds = one.loaded > 0 ? 8 : 0;
  EXPECT_EQ(compilations(result), "training steps: 1 compiled in 8.0 s, 2 loaded");
  result.trials.erase(result.trials.begin());
  EXPECT_EQ(compilations(result), "training steps: 0 compiled, 2 loaded");
}

TEST(ScoreText, IsInPerCentOfShares) {
  EXPECT_EQ(score_text({"val/prec@1", true}, 0.75), "75.00 %");
  EXPECT_EQ(score_text({"val/cohen_kappa", true}, 0.75), "0.75");
  EXPECT_EQ(score_text({"val/loss", false}, 0.75), "0.75");
}

}  // namespace
}  // namespace tessera::sweep
