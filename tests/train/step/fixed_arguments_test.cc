// Programs that use a model as it is, on this host's kernels: what they make of its parameters alone is made once.

#include "train/step/fixed_arguments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "models/model.h"
#include "support/run_graph.h"
#include "train/step/step.h"

namespace tessera::train {
namespace {

constexpr int64_t kImages = 2, kSide = 32, kClasses = 10;

// A model with parameters, and images.
class Model {
 public:
  explicit Model(const std::string& words)
      : model_(models::make_model(config::parse_recipe("model = { " + words + " }").section("model"),
                                  {kSide, kSide, 3, kClasses})),
        specs_(models::parameters(*model_)),
        layout_(state::param_layout(specs_)) {
    for (size_t i = 0; i < images_.size(); ++i) images_[i] = static_cast<uint8_t>(i * 7919 % 251);
  }

  Program program(DType compute, bool one_call = false) const {
    return predict_program(*model_, layout_,
                           {.batch = kImages,
                            .pixels = {{1 / 127.5F, 1 / 127.5F, 1 / 127.5F}, {-1, -1, -1}},
                            .compute = compute,
                            .hardware = hardware_of(*testing::cpu_client(), pjrt::ExecutableCache("")),
                            .one_call = one_call});
  }
  // Small numbers; scales and variances about one.
  state::DeviceArrays params() const {
    state::DeviceArrays out(1);
    for (size_t i = 0; i < layout_.params; ++i) {
      const state::StateEntry& entry = layout_.entries[i];
      const bool about_one = entry.name.ends_with("scale") || entry.name.ends_with("var");
      std::vector<float> numbers(static_cast<size_t>(element_count(entry.type.dims)));
      for (size_t n = 0; n < numbers.size(); ++n) {
        numbers[n] = (about_one ? 1.0F : 0.0F) + static_cast<float>(n * 2654435761 % 1009) / 10090 - 0.05F;
      }
      out[0].push_back(testing::cpu_client()->to_device(numbers.data(), entry.type));
    }
    return out;
  }
  size_t count() const { return layout_.params; }

  // Its answers, twice from the same arguments.
  std::vector<float> answers(const Program& program) {
    const Compiled compiled = compile(*testing::cpu_client(), program, pjrt::ExecutableCache(""), {});
    state::DeviceArrays given = params();
    const FixedArguments fixed(compiled, given, count());
    free_prepared({&compiled}, given);
    std::vector<float> first;
    for (int call = 0; call < 2; ++call) {
      state::DeviceArrays images(1);
      images[0].push_back(testing::cpu_client()->to_device(images_.data(), image_type()));
      std::vector<float> got = compiled.executable.execute(fixed.with(images))[0][0].to_host<float>();
      if (call == 1) {
        EXPECT_EQ(got, first);
      }
      first = std::move(got);
    }
    return first;
  }

 private:
  static TensorType image_type() { return {DType::kU8, {kImages, kSide, kSide, 3}}; }

  std::unique_ptr<models::Model> model_;
  std::vector<nn::ParamSpec> specs_;
  state::StateLayout layout_;
  std::vector<uint8_t> images_ = std::vector<uint8_t>(kImages * kSide * kSide * 3);
};

// To `tolerance` of the largest answer.
void expect_near(const std::vector<float>& got, const std::vector<float>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  double size = 0;
  for (const float x : want) size = std::max(size, std::abs(static_cast<double>(x)));
  ASSERT_GT(size, 0.01);
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], tolerance * size) << "answer " << i;
}

constexpr const char* kLarge[] = {R"(name = "resnet", variant = "resnet18")",
                                  R"(name = "vit", width = 384, depth = 2, heads = 6, patch = 8)",
                                  R"(name = "convnext", variant = "convnext_atto")"};

// In f32 both round alike, but for what the compiler joins; in bf16 that may move a number to the next one.
TEST(FixedArguments, AnswersAreThoseOfTheWholeProgram) {
  for (const char* words : kLarge) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      SCOPED_TRACE(::testing::Message() << words << ", " << dtype_name(dtype));
      Model model(words);
      const Program split = model.program(dtype), whole = model.program(dtype, /*one_call=*/true);
      EXPECT_NE(split.prepare, "");
      EXPECT_LT(split.kept.size(), model.count());
      EXPECT_EQ(whole.prepare, "") << "for one call there is nothing to prepare";
      expect_near(model.answers(split), model.answers(whole), dtype == DType::kF32 ? 1e-5 : 0.05);
    }
  }
}

TEST(FixedArguments, ASmallModelHasOneProgram) {
  Model model(R"(name = "vit", width = 32, depth = 2, heads = 2, patch = 8)");
  const Program program = model.program(DType::kF32);
  EXPECT_EQ(program.prepare, "");
  EXPECT_TRUE(program.kept.empty());
}

TEST(FixedArguments, WhatIsPreparedIsFreed) {
  Model model(kLarge[0]);
  const Compiled compiled = compile(*testing::cpu_client(), model.program(DType::kF32), pjrt::ExecutableCache(""), {});
  state::DeviceArrays params = model.params();
  const FixedArguments fixed(compiled, params, model.count());
  free_prepared({&compiled}, params);
  size_t left = 0;
  for (const pjrt::Buffer& param : params[0]) left += param.empty() ? 0 : 1;
  EXPECT_EQ(left, compiled.kept.size());
}

}  // namespace
}  // namespace tessera::train
