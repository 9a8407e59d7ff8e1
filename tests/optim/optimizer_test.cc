// What needs no device: options, slots, frozen parameters. The values of updates are tested in tests/train on the CPU plugin.

#include "optim/optimizer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "base/text/text.h"

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

// A line for each key, "b1 = 0.9", in the order of the resolved recipe, which leaves out what has no value.
std::vector<std::string> lines_of(const std::vector<config::KeyDoc>& keys) {
  std::vector<std::string> lines;
  for (const config::KeyDoc& doc : keys) {
    if (!doc.default_value.empty()) lines.push_back(fmt::format("{} = {}", doc.key, doc.default_value));
  }
  return lines;
}

TEST(Optimizer, EachDeclaresTheKeysThatItReads) {
  for (const OptimizerKind* kind : optimizer_kinds()) {
    config::Section section = config::parse_recipe("optimizer = {}").section("optimizer");
    kind->make(section);
    std::vector<std::string> read = split(section.dump(), '\n');
    std::erase(read, "");
    EXPECT_EQ(lines_of(kind->keys("")), read) << kind->name;
    for (const config::KeyDoc& doc : kind->keys("optimizer")) {
      EXPECT_FALSE(doc.help.empty()) << kind->name << ": " << doc.key;
      EXPECT_FALSE(doc.may_change) << kind->name << ": " << doc.key << " changes a run's numbers";
    }
  }
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

// Block by block: what is kept for a stack of [3, 4] matrices is what would be kept for each.
TEST(Optimizer, SlotsOfOtherShapesThanTheirParameter) {
  const auto shapes = [](const std::string& options) {
    Optimizer optimizer = make(options);
    optimizer.bind({{"a/kernel", {DType::kF32, {2, 40, 50}}, true},
                    {"b/kernel", {DType::kF32, {3, 3, 20, 60}}},
                    {"c/bias", {DType::kF32, {60}}}});
    std::map<std::string, Dims> dims;
    for (const Param& slot : optimizer.slots()) dims[slot.name] = slot.type.dims;
    return dims;
  };
  using Shapes = std::map<std::string, Dims>;
  EXPECT_EQ(shapes("name = \"novograd\", lr = 1"), (Shapes{{"mu/a/kernel", {2, 40, 50}},
                                                           {"nu/a/kernel", {2, 1, 1}},
                                                           {"mu/b/kernel", {3, 3, 20, 60}},
                                                           {"nu/b/kernel", {1, 1, 1, 1}},
                                                           {"mu/c/bias", {60}},
                                                           {"nu/c/bias", {1}}}));
  // timm factors dimensions above 16, big_vision those of 32 and more.
  EXPECT_EQ(shapes("name = \"adafactor\", lr = 1"), (Shapes{{"nu_row/a/kernel", {2, 1, 50}},
                                                            {"nu_col/a/kernel", {2, 40, 1}},
                                                            {"nu_row/b/kernel", {3, 3, 1, 60}},
                                                            {"nu_col/b/kernel", {3, 3, 20, 1}},
                                                            {"nu/c/bias", {60}}}));
  EXPECT_EQ(shapes("name = \"adafactor_bv\", lr = 1, b1 = 0"), (Shapes{{"nu_row/a/kernel", {2, 40, 1}},
                                                                       {"nu_col/a/kernel", {2, 1, 50}},
                                                                       {"nu/b/kernel", {3, 3, 20, 60}},
                                                                       {"nu/c/bias", {60}}}));
  EXPECT_EQ(shapes("name = \"muon\", lr = 1, fallback = [\"a/.*\"]"), (Shapes{{"mu/a/kernel", {2, 40, 50}},
                                                                              {"nu/a/kernel", {2, 40, 50}},
                                                                              {"trace/b/kernel", {3, 3, 20, 60}},
                                                                              {"mu/c/bias", {60}},
                                                                              {"nu/c/bias", {60}}}));
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
  EXPECT_NE(failure("lr = 1, decoupled = \"shedule\"").find("did you mean `schedule`"), std::string::npos);
  EXPECT_NE(failure("lr = 1, schedules = [\"a = cosin(1)\"]").find("did you mean `cosine`"), std::string::npos);
  EXPECT_NE(failure("lr = 1, schedules = [\"a = plateau(1, metric=val/loss)\"]").find("can't hold a plateau"),
            std::string::npos);
  EXPECT_NE(failure("lr = 1, lookahead = -1").find("optimizer.lookahead"), std::string::npos);
  EXPECT_NE(failure("lr = 1, lookahead = 6, lookahead_alpha = 0").find("(0, 1]"), std::string::npos);
  EXPECT_NE(failure("name = \"nadam\", lr = 1, eps = 0").find("above 0"), std::string::npos);
  EXPECT_NE(failure("name = \"radam\", lr = 1, b2 = 0").find("optimizer.b2"), std::string::npos);
  EXPECT_NE(failure("name = \"adabelief\", lr = 1, b1 = 1").find("optimizer.b1"), std::string::npos);
  EXPECT_NE(failure("name = \"sgd\", lr = 1, momentum = 1").find("optimizer.momentum"), std::string::npos);
  EXPECT_NE(failure("name = \"lars\", lr = 1, trust = 0").find("optimizer.trust"), std::string::npos);
  EXPECT_NE(failure("name = \"lamb\", lr = 1, max_norm = -1").find("optimizer.max_norm"), std::string::npos);
  EXPECT_NE(failure("name = \"lion\", lr = 1, b2 = 1").find("optimizer.b2"), std::string::npos);
  EXPECT_NE(failure("name = \"adafactor\", lr = 1, decay_rate = 0.8").find("below 0"), std::string::npos);
  EXPECT_NE(failure("name = \"adafactor_bv\", lr = 1, beta2_cap = 1").find("optimizer.beta2_cap"), std::string::npos);
  EXPECT_NE(failure("name = \"rmsprop\", lr = 1, momentum = 1").find("optimizer.momentum"), std::string::npos);
  EXPECT_NE(failure("name = \"adamax\", lr = 1, eps = 0").find("optimizer.eps"), std::string::npos);
  EXPECT_NE(failure("name = \"adagrad\", lr = 1, initial = -1").find("optimizer.initial"), std::string::npos);
  EXPECT_NE(failure("name = \"adadelta\", lr = 1, rho = 1").find("optimizer.rho"), std::string::npos);
  EXPECT_NE(failure("name = \"rmsprop_tf\", lr = 1, alpha = 2").find("optimizer.alpha"), std::string::npos);
  EXPECT_NE(failure("name = \"novograd\", lr = 1, b2 = 1").find("optimizer.b2"), std::string::npos);
  EXPECT_NE(failure("name = \"madgrad\", lr = 1, momentum = 1").find("optimizer.momentum"), std::string::npos);
  EXPECT_NE(failure("name = \"muon\", lr = 1, steps = 0").find("optimizer.steps"), std::string::npos);
  EXPECT_NE(failure("name = \"muon\", lr = 1, scale = \"orginal\"").find("did you mean `original`"), std::string::npos);
  EXPECT_NE(failure("name = \"muon\", lr = 1, coefficients = \"quintc\"").find("did you mean `quintic`"), std::string::npos);
  EXPECT_NE(failure("name = \"muon\", lr = 1, iterate = \"f16\"").find("bf16 or f32"), std::string::npos);
  EXPECT_NE(failure("name = \"muon\", lr = 1, fallback = [\"(\"]").find("optimizer.fallback"), std::string::npos);
}

}  // namespace
}  // namespace tessera::optim
