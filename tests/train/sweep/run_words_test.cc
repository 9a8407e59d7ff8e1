#include "train/sweep/run_words.h"

#include <gtest/gtest.h>

namespace tessera::sweep {
namespace {

TEST(RunWords, WhyARunFailedIsWhatItTells) {
  RunWords words;
  words.add("step [1/2]");
  EXPECT_EQ(words.text(), "step [1/2]");
  words.add("warning: the checkpoint of step 1 could not be saved");
  words.add("warning: the checkpoint of step 2 could not be saved");
  words.add("help: free some space there");
  words.add("report      runs/a/report/index.html");
  EXPECT_EQ(words.text(), "the checkpoint of step 2 could not be saved");
  words.add("error: the run diverged");
  words.add("error: another");
  words.add("warning: too late");
  EXPECT_EQ(words.text(), "the run diverged");
}

}  // namespace
}  // namespace tessera::sweep
