// The recipe of the README's first command learns.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_program.h"

namespace tessera::cli {
namespace {

// Three of its 36 epochs: 59, 71 and 66 % of the held-out digits are right then (seeds 0, 1 and 2).
TEST(Digits, AreLearntInThreeEpochs) {
  const fs::path source = testing::source_path("");
  if (!fs::exists(source / "data/digits/train")) GTEST_SKIP() << "./dev demo makes data/digits";
  const TempFolder folder;
  const std::string workdir = (folder / "run").string();
  const Outcome run =
      run_program({"train", "recipes/digits.toml", "total=3 epochs", "checkpoint.every=3 epochs", "eval.val.every=3 epochs",
                   "optimizer.lr=cosine(1.5e-3, warmup=20 steps)", "--no-report", "--workdir", workdir},
                  source);
  ASSERT_EQ(run.exit, 0) << run.err;
  std::istringstream lines(read_file(folder / "run/metrics.jsonl"));
  Json last;
  for (std::string line; std::getline(lines, line);) last = Json::parse(line);
  EXPECT_EQ(last.at("step"), 135);
  EXPECT_GT(last.at("val/prec@1"), 0.5);
  EXPECT_GT(last.at("val/prec@5"), 0.9);
}

}  // namespace
}  // namespace tessera::cli
