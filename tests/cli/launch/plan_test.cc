// tessera plan for virtual CPU devices; other hardware is in tests/plan.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_program.h"
#include "support/paths.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;

const std::string kRecipe = testing::source_path("recipes/vit_10b_toy.toml");

TEST(PlanCommand, OneObjectForPrograms) {
  const Outcome outcome = run_program({"plan", kRecipe, "--topology", "cpu:4", "--json"});
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  ASSERT_EQ(outcome.json().size(), 1u);
  const Json plan = outcome.json()[0];
  EXPECT_EQ(plan["devices"], 4);
  EXPECT_EQ(plan["mesh"], "fsdp=4");
  EXPECT_GT(plan["per_device"]["collectives"]["all-gather"]["bytes"], 0);
  EXPECT_TRUE(plan["fits"]);
}

TEST(PlanCommand, SweepsMeshesInOneTable) {
  const Outcome outcome = run_program({"plan", kRecipe, "--topology", "cpu:4", "--sweep", "fsdp=4; replica=2, fsdp=2"});
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("replica=2, fsdp=2"));
  EXPECT_THAT(outcome.out, HasSubstr("of HBM"));
}

TEST(PlanCommand, MistakesAreExplained) {
  const Outcome none = run_program({"plan", kRecipe});
  EXPECT_EQ(none.exit, 2);
  EXPECT_THAT(none.err, HasSubstr("--topology"));
  const Outcome uneven = run_program({"plan", kRecipe, "--topology", "cpu:3"});
  EXPECT_EQ(uneven.exit, 2);
  EXPECT_THAT(uneven.err, HasSubstr("take 15 or 18"));
  const Outcome unknown = run_program({"plan", kRecipe, "--topology", "v3:7"});
  EXPECT_EQ(unknown.exit, 2);
  EXPECT_THAT(unknown.err, HasSubstr("v3:8x8"));
}

}  // namespace
}  // namespace tessera::cli
