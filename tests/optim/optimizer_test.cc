// What needs no device: options, slots, frozen parameters. The values of updates are tested in tests/train on the CPU plugin.

#include "optim/optimizer.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera::optim {
namespace {

const RunLength kRun{.total_steps = 100, .batch = 10, .examples_per_epoch = 100};

Optimizer make(const std::string& options) {
  const config::Section recipe = config::parse_recipe("optimizer = {" + options + "}");
  return Optimizer(config::Section(recipe).section("optimizer"), kRun);
}

std::string failure(const std::string& options) {
  try {
    make(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

Params two() { return {{"body/kernel", {DType::kF32, {2, 3, 4}}, true}, {"head/kernel", {DType::kF32, {4, 2}}}}; }

std::vector<std::string> slot_names(const std::string& options) {
  Optimizer optimizer = make(options);
  optimizer.bind(two());
  std::vector<std::string> names;
  for (const Param& slot : optimizer.slots()) names.push_back(slot.name);
  return names;
}

TEST(Optimizer, SlotsOfEachOptimizer) {
  const std::vector<std::string> moments = {"mu/body/kernel", "mu/head/kernel", "nu/body/kernel", "nu/head/kernel"};
  EXPECT_EQ(slot_names("lr = 1e-3"), moments);
  EXPECT_EQ(slot_names("name = \"adam\", lr = 1e-3"), moments);
  EXPECT_EQ(slot_names("name = \"sgd\", lr = 1e-3"), (std::vector<std::string>{"trace/body/kernel", "trace/head/kernel"}));
  EXPECT_TRUE(slot_names("name = \"sgd\", lr = 1e-3, momentum = 0").empty());
}

TEST(Optimizer, FrozenParametersHaveNoSlots) {
  EXPECT_EQ(slot_names("lr = 1e-3, freeze = [\"body/.*\"]"), (std::vector<std::string>{"mu/head/kernel", "nu/head/kernel"}));
}

TEST(Optimizer, SlotsKeepShapeAndStacking) {
  Optimizer optimizer = make("lr = \"cosine(1e-3)\"");
  optimizer.bind(two());
  EXPECT_EQ(optimizer.slots()[2].type.dims, (Dims{2, 3, 4}));
  EXPECT_TRUE(optimizer.slots()[2].stacked);
  EXPECT_FALSE(optimizer.slots()[3].stacked);
}

TEST(Optimizer, OnlyTheFirstMomentIsEverCoarse) {
  Optimizer optimizer = make("lr = 1e-3, moments = \"bf16\"");
  optimizer.bind(two());
  EXPECT_EQ(optimizer.slots()[0].type.dtype, DType::kBF16);
  EXPECT_EQ(optimizer.slots()[2].type.dtype, DType::kF32);
  EXPECT_NE(failure("lr = 1, moments = \"f16\"").find("f32 or bf16"), std::string::npos);
}

TEST(Optimizer, MistakesTeach) {
  EXPECT_NE(failure("name = \"adamw2\", lr = 1").find("did you mean `adamw`"), std::string::npos)
      << failure("name = \"adamw2\", lr = 1");
  EXPECT_NE(failure("weight_decay = 0.1").find("optimizer.lr"), std::string::npos) << failure("weight_decay = 0.1");
  EXPECT_NE(failure("lr = 1, momentum = 0.9").find("momentum"), std::string::npos);
  EXPECT_NE(failure("lr = 1, b1 = 1").find("[0, 1)"), std::string::npos);
  EXPECT_NE(failure("lr = 1, weight_decay = -1").find("negative"), std::string::npos);
  EXPECT_NE(failure("lr = 1, clip = \"norms(1)\"").find("did you mean `norm`"), std::string::npos);
  EXPECT_NE(failure("lr = 1, clip = \"norm(0)\"").find("above 0"), std::string::npos);
  EXPECT_NE(failure("lr = 1, decoupled = \"both\"").find("decoupled"), std::string::npos);
}

}  // namespace
}  // namespace tessera::optim
