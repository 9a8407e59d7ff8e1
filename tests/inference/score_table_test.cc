// A table of scores: its order, what it keeps, and files that are none.

#include "inference/score_table.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "store/temp_dir.h"

namespace tessera::inference {
namespace {

TEST(ScoreTable, IsSortedAndKeepsWhatItHas) {
  testing::TempDir folder;
  const std::string path = folder / "deep/scores.csv";
  {
    ScoreTable table(path);
    table.add({"runs/b", 1000, "raw", "r.toml"}, {{"val/prec@1", 0.5}, {"val/count", 10}});
    table.add({"runs/a", 1000, "raw", "r.toml"}, {{"val/prec@1", 0.25}, {"val/count", 10}});
    table.add({"runs/a", 200, "raw", "r.toml x='a,b'"}, {{"val/loss", 1.5}, {"val/prec@1", 0.125}});
    table.add({"timm, \"small\"", {}, "raw", "r.toml"}, {{"val/loss", 2}});
  }
  const std::string text =
      "run,step,weights,recipe,val/prec@1,val/count,val/loss\n"
      "runs/a,200,raw,\"r.toml x='a,b'\",0.125,,1.5\n"
      "runs/a,1000,raw,r.toml,0.25,10,\n"
      "runs/b,1000,raw,r.toml,0.5,10,\n"
      "\"timm, \"\"small\"\"\",,raw,r.toml,,,2\n";
  EXPECT_EQ(testing::slurp(path), text);
  ScoreTable again(path);
  EXPECT_EQ(again.text(), text) << "it reads what it wrote";
  EXPECT_TRUE(again.has({"runs/a", 200, "raw", "r.toml x='a,b'"}));
  EXPECT_TRUE(again.has({"timm, \"small\"", {}, "raw", "r.toml"}));
  EXPECT_FALSE(again.has({"runs/a", 200, "raw", "r.toml"}));
  EXPECT_FALSE(again.has({"runs/a", 200, "average", "r.toml x='a,b'"}));
}

TEST(ScoreTable, RefusesOtherFiles) {
  testing::TempDir folder;
  for (const char* text : {"epoch,train_loss\n1,2\n", "run,step,weights,recipe\n",
                           "run,step,weights,recipe,val/loss\nr,x,raw,r,1\n", "run,step,weights,recipe,val/loss\nr,1,raw\n",
                           "run,step,weights,recipe,val/loss\nr\n", "run,step,weights,recipe,val/loss\nr,1,raw,\"r,1\n"}) {
    testing::spill(folder / "x.csv", text);
    EXPECT_THROW(ScoreTable(folder / "x.csv"), Error) << text;
  }
}

}  // namespace
}  // namespace tessera::inference
