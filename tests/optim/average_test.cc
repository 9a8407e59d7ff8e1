// Averages of weights follow timm's ModelEmaV3 (tools/references/training/schedules.py).

#include "optim/average.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "ir/ops.h"
#include "support/formula.h"
#include "support/paths.h"
#include "support/run_graph.h"
#include "support/safetensors_reader.h"

namespace tessera::optim {
namespace {

Average make(const std::string& options, int64_t total = 200) {
  const config::Section recipe = config::parse_recipe("average = {" + options + "}");
  return Average(config::Section(recipe).section("average"), {total, 1, 1});
}

std::vector<float> values_of(const testing::ReferenceTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

TEST(Average, FollowsTimm) {
  const auto file = testing::read_references(testing::source_path("tests/references/schedules.safetensors"));
  const int64_t total = file.config["total"];
  const std::vector<float> walk = testing::formula_array("schedules/walk", total);
  for (const auto& [key, options] : file.config["averages"].items()) {
    const Average average = make(options, total);
    // The whole walk in one graph: a scan over the weights, the step its carry.
    const auto outputs = testing::run(
        {testing::f32_array({total}, walk), testing::i32_array({}, {0}), testing::f32_array({}, {7})},
        [&](const ir::Values& in) {
          return ir::scan(total, {in[1], in[2]}, {in[0]},
                          [&](const ir::Values& carry, const ir::Values& x) {
                            const ir::Value decay = average.decay(carry[0]);
                            const ir::Value next = Average::update(carry[1], x[0], decay);
                            return ir::ScanResult{{ir::add(carry[0], ir::constant(1, DType::kI32)), next}, {decay, next}};
                          })
              .ys;
        });
    const std::vector<float> decays = values_of(file.tensors.at(key + "/decays")), got = outputs[0].floats();
    const std::vector<float> averages = values_of(file.tensors.at(key + "/values")), got_averages = outputs[1].floats();
    for (int64_t step = 0; step < total; ++step) {
      const auto i = static_cast<size_t>(step);
      ASSERT_NEAR(got[i], decays[i], 1e-6) << key << " after " << step;
      ASSERT_NEAR(got_averages[i], averages[i], 2e-6) << key << " after " << step;
    }
  }
}

TEST(Average, MistakesTeach) {
  const auto failure = [](const std::string& options) {
    try {
      make(options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(failure("decay = 1").find("average.decay"), std::string::npos) << failure("decay = 1");
  EXPECT_NE(failure("min_decay = 1").find("average.min_decay"), std::string::npos);
  EXPECT_NE(failure("warmup_gamma = 0").find("average.warmup_gamma"), std::string::npos);
  EXPECT_NE(failure("warmup_power = 0").find("average.warmup_power"), std::string::npos);
  EXPECT_NE(failure("start = 5").find("average.start"), std::string::npos) << failure("start = 5");
  EXPECT_NE(failure("deca = 0.9").find("decay"), std::string::npos);
}

}  // namespace
}  // namespace tessera::optim
