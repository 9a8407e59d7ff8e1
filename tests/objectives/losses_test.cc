// Losses of classifiers against timm's and big_vision's own code (tools/references/training/losses.py, big_vision_losses.py):
// the value and the gradient of the logits. And what their sections can get wrong.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/grad.h"
#include "ir/ops.h"
#include "models/weights.h"
#include "objectives/binary.h"
#include "objectives/distillation.h"
#include "objectives/jsd.h"
#include "objectives/softmax.h"
#include "store/temp_dir.h"
#include "support/formula.h"
#include "support/paths.h"
#include "support/run_graph.h"
#include "support/safetensors_reader.h"

namespace tessera::objectives {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 6, kClasses = 5;
constexpr double kScale = 3;

std::shared_ptr<const Objective> make(const std::string& objective, DataInputs data = {kClasses, {}}) {
  config::Section recipe = config::parse_recipe("objective = " + objective);
  return make_objective(recipe.section("objective"), data);
}

// Data whose images have several labels; and with counts of each class.
DataInputs several_labels() { return {.classes = kClasses, .multi_label = true}; }
DataInputs counted(bool multi_label = false) {
  return {.classes = kClasses,
          .multi_label = multi_label,
          .examples = 20,
          .class_names = {"a", "b", "c", "d", "e"},
          .class_sizes = [] {
            return std::vector<int64_t>{1, 2, 4, 8, 5};
          }};
}

class Losses : public ::testing::Test {
 protected:
  Losses() : scope_(graph_) {
    logits_ = add(testing::f32_array({kRows, kClasses}, testing::formula_array("losses/logits", kRows * kClasses, kScale)));
    plain_.labels = add(testing::i32_array({kRows}, {3, 0, 4, 4, 1, 2}));
    mixed_ = plain_;
    mixed_.partner_labels = add(testing::i32_array({kRows}, {2, 1, 4, 4, 0, 3}));
    std::vector<float> shares;
    for (int64_t i = 0; i < kRows; ++i) shares.push_back(static_cast<float>(i + 1) / static_cast<float>(kRows + 1));
    mixed_.own_share = add(testing::f32_array({kRows}, shares));
    teacher_ = add(testing::f32_array({kRows, kClasses}, testing::formula_array("losses/teacher", kRows * kClasses, kScale)));
  }

  void measure(const std::string& key, ir::Value loss_of_rows) {
    const ir::Value loss = ir::mean(loss_of_rows, {0});
    keys_.push_back(key);
    graph_.results.push_back(loss);
    graph_.results.push_back(ir::gradient(loss, {logits_})[0]);
  }
  void measure(const std::string& key, const std::string& objective, const Batch& batch,
               const DataInputs& data = {kClasses, {}}) {
    const auto made = make(objective, data);
    const ir::Value loss = made->loss({logits_}, batch), scale = loss_scale(*made, batch);
    measure(key, scale ? loss * scale : loss);
  }

  // The rows of MULTI_HOT, and mixed with those in reverse order.
  Batch multi_hot(bool mixed) {
    const std::vector<std::vector<uint8_t>> rows = {{1, 0, 0, 1, 0}, {0, 0, 0, 0, 0}, {1, 1, 1, 1, 1},
                                                    {0, 0, 1, 0, 0}, {0, 1, 0, 0, 1}, {1, 0, 0, 0, 0}};
    std::vector<uint8_t> all, reversed;
    for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
    for (const auto& row : rows) reversed.insert(reversed.begin(), row.begin(), row.end());
    Batch batch;
    batch.labels = add(testing::host_array(DType::kU8, {kRows, kClasses}, all));
    if (mixed) batch.partner_labels = add(testing::host_array(DType::kU8, {kRows, kClasses}, reversed));
    if (mixed) batch.own_share = mixed_.own_share;
    return batch;
  }

  // To 1e-5 of the largest value.
  void expect(const std::string& file) {
    const auto references = testing::read_references(testing::source_path("tests/references/") + file);
    const auto got = testing::run_graph(graph_, arguments_, testing::quick_compile());
    for (size_t i = 0; i < keys_.size(); ++i) {
      for (const bool grad : {false, true}) {
        const testing::ReferenceTensor& tensor = references.tensors.at(grad ? "grad/" + keys_[i] : keys_[i]);
        const auto want = models::to_floats({{DType::kF32, tensor.shape}, std::as_bytes(std::span(tensor.bytes))});
        const std::vector<float> x = got[2 * i + (grad ? 1 : 0)].floats();
        ASSERT_EQ(x.size(), want.size());
        float largest = 0;
        for (const float w : want) largest = std::max(largest, std::abs(w));
        for (size_t e = 0; e < x.size(); ++e) EXPECT_NEAR(x[e], want[e], 1e-5f * largest) << keys_[i] << ", element " << e;
      }
    }
  }

  ir::Value add(testing::HostArray array) {
    const ir::Value value = graph_.add_parameter(array.type);
    arguments_.push_back(std::move(array));
    return value;
  }

  ir::Graph graph_;
  ir::GraphScope scope_;
  std::vector<testing::HostArray> arguments_;
  std::vector<std::string> keys_;
  ir::Value logits_, teacher_;
  Batch plain_, mixed_;
};

TEST_F(Losses, AreTimms) {
  measure("smoothed", R"({ name = "softmax", label_smoothing = 0.1 })", plain_);
  measure("soft", R"({ name = "softmax", label_smoothing = 0.1 })", mixed_);
  measure("bce", R"({ name = "bce" })", plain_);
  measure("bce_threshold", R"({ name = "bce", target_threshold = 0.2 })", plain_);
  measure("bce_sum", R"({ name = "bce", sum_classes = true })", plain_);
  measure("bce_pos", R"({ name = "bce", pos_weight = 2.0 })", plain_);
  measure("bce_mixed", R"({ name = "bce" })", mixed_);
  measure("bce_mixed_threshold", R"({ name = "bce", target_threshold = 0.2 })", mixed_);
  measure("multi_hot", R"({ name = "bce" })", multi_hot(false), several_labels());
  measure("multi_hot_mixed", R"({ name = "bce" })", multi_hot(true), several_labels());
  measure("multi_hot_smoothed", R"({ name = "bce", label_smoothing = 0.1 })", multi_hot(true), several_labels());
  measure("bce_weight", R"({ name = "bce", class_weights = [0.5, 2, 1, 3, 0.25] })", plain_);
  measure("bce_pos_weights", R"({ name = "bce", pos_weight = [0.5, 2, 1, 3, 0.25] })", plain_);
  const std::string weights = "class_weights = [0.5, 2, 1, 3, 0.25]";
  measure("weight", R"({ name = "softmax", )" + weights + "}", plain_);
  measure("weight_smoothed", R"({ name = "softmax", label_smoothing = 0.1, )" + weights + "}", plain_);
  measure("weight_soft", R"({ name = "softmax", label_smoothing = 0.1, )" + weights + "}", mixed_);
  measure("soft_teacher", soft_distillation(logits_, teacher_, 3));
  measure("hard_teacher", hard_distillation(logits_, teacher_));
  const ir::Value clean = ir::slice_axis(plain_.labels, 0, 0, 2);
  measure("jsd", jsd_cross_entropy(logits_, clean, 3, 12, spread_over_all(0.1, kClasses)));
  expect("losses.safetensors");
}

TEST_F(Losses, AreBigVisions) {
  measure("smoothed", R"({ name = "softmax", label_smoothing = 0.1, style = "big_vision" })", plain_);
  measure("sigmoid", R"({ name = "sigmoid" })", plain_);
  measure("sigmoid_smoothed", R"({ name = "sigmoid", on = 0.9, off = 0.025 })", plain_);
  measure("kl", soft_distillation(logits_, teacher_, 3));
  measure("hard", hard_distillation(logits_, teacher_));
  expect("big_vision_losses.safetensors");
}

// The loss of a batch whose classes all weigh 0 is 0.
TEST(ClassWeights, MayBeZero) {
  const auto objective = make(R"({ name = "softmax", class_weights = [0, 1, 1, 1, 1] })");
  const auto results =
      testing::run({testing::f32_array({2, kClasses}, std::vector<float>(10, 1)), testing::i32_array({2}, {0, 0})},
                   [&](const ir::Values& x) {
                     Batch batch;
                     batch.labels = x[1];
                     return ir::Values{objective->loss({x[0]}, batch) * loss_scale(*objective, batch)};
                   });
  EXPECT_EQ(results[0].floats(), std::vector<float>({0, 0}));
}

// The mean loss of one row of each class, with logits that are all 0: log 5 times the weights' mean where they weigh.
std::vector<float> weights_of(const std::string& objective, const DataInputs& data) {
  const auto made = make(objective, data);
  const auto results = testing::run(
      {testing::f32_array({kClasses, kClasses}, std::vector<float>(25)), testing::i32_array({kClasses}, {0, 1, 2, 3, 4})},
      [&](const ir::Values& x) {
        Batch batch;
        batch.labels = x[1];
        return ir::Values{made->example_weights(batch)};
      });
  return results[0].floats();
}

TEST(ClassWeights, AreBalancedListedOrInAFile) {
  // sklearn.utils.class_weight.compute_class_weight("balanced") of 1, 2, 4, 8 and 5 labels: 20 / (5 * count).
  EXPECT_EQ(weights_of(R"({ name = "softmax", class_weights = "balanced" })", counted()),
            std::vector<float>({4, 2, 1, 0.5, 0.8f}));
  const testing::TempDir dir;
  const auto of_file = [&](const std::string& text) {
    testing::spill(dir / "w.json", text);
    return weights_of("{ name = \"softmax\", class_weights = \"" + (dir / "w.json") + "\" }", counted());
  };
  const std::vector<float> wanted = {1, 2.5, 3, 4, 0};
  EXPECT_EQ(of_file("[1, 2.5, 3, 4, 0]"), wanted);
  EXPECT_EQ(of_file(R"({"e": 0, "c": 3, "b": 2.5, "a": 1, "d": 4})"), wanted);
}

// Softplus neither overflows nor loses what is small.
TEST(BinaryCrossEntropy, OfLargeLogits) {
  const auto results = testing::run(
      {testing::f32_array({1, 4}, {200, -200, 200, -200}), testing::f32_array({1, 4}, {1, 0, 0, 1})}, [](const ir::Values& x) {
        const ir::Value loss = binary_cross_entropy(x[0], x[1]);
        return ir::Values{loss, ir::gradient(ir::sum_all(loss), {x[0]})[0]};
      });
  EXPECT_EQ(results[0].floats(), std::vector<float>({0, 0, 200, 200}));
  EXPECT_EQ(results[1].floats(), std::vector<float>({0, 0, 1, -1}));
}

std::string failure(const std::string& objective, const DataInputs& data = {kClasses, {}}, Exit exit = Exit::kUsage) {
  try {
    make(objective, data);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), exit) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(ObjectiveMistakes, NameTheirKey) {
  EXPECT_THAT(failure(R"({ name = "softmax", label_smoothing = 1.0 })"),
              HasSubstr("`objective.label_smoothing` must lie in [0, 1)"));
  EXPECT_THAT(failure(R"({ name = "softmax", style = "torch" })"), HasSubstr("`objective.style` is \"torch\""));
  EXPECT_THAT(failure(R"({ name = "bce", label_smoothing = -0.1 })"), HasSubstr("`objective.label_smoothing`"));
  EXPECT_THAT(failure(R"({ name = "bce", target_threshold = 2.0 })"), HasSubstr("`objective.target_threshold`"));
  EXPECT_THAT(failure(R"({ name = "bce", pos_weight = 0 })"), HasSubstr("`objective.pos_weight` must be above 0"));
  EXPECT_THAT(failure(R"({ name = "jsd" })"), HasSubstr("`objective.name` is jsd, which compares views"));
  EXPECT_THAT(failure(R"({ name = "sigmoid", on = 1.5 })"), HasSubstr("`objective.on` must lie in [0, 1]"));
  EXPECT_THAT(failure(R"({ name = "sigmoid", off = -1 })"), HasSubstr("`objective.off`"));
  EXPECT_THAT(failure(R"({ name = "sigmoid", of = 0 })"), HasSubstr("`objective.of`"));
}

TEST(ObjectiveMistakes, OfClassWeights) {
  const auto mistake = [](const std::string& value, const DataInputs& data = counted()) {
    return failure("{ name = \"softmax\", class_weights = " + value + " }", data);
  };
  EXPECT_THAT(mistake("[1, 2]"), HasSubstr("`objective.class_weights` has 2 numbers, and the data has 5 classes"));
  EXPECT_THAT(mistake("[1, 2, -1, 1, 1]"), HasSubstr("must be at least 0, and is -1"));
  EXPECT_THAT(mistake("2"), HasSubstr("is one number"));
  EXPECT_THAT(mistake("true"), HasSubstr("must be a number, a list of numbers or text"));
  EXPECT_THAT(mistake("\"nowhere.json\""), HasSubstr("is \"nowhere.json\", which is neither balanced nor a file"));
  EXPECT_THAT(mistake("\"balanced\"", {kClasses, {}}), HasSubstr("how many training images each class has is not known"));
  const testing::TempDir dir;
  const auto of_file = [&](const std::string& text) {
    testing::spill(dir / "w.json", text);
    return mistake("\"" + (dir / "w.json") + "\"");
  };
  EXPECT_THAT(of_file("{"), HasSubstr("which is no JSON"));
  EXPECT_THAT(of_file("[1, 2]"), HasSubstr("has no number for class `c`"));
  EXPECT_THAT(of_file("[1, 2, 3, 4, 5, 6]"), HasSubstr("has 6 numbers, and the data has 5 classes"));
  EXPECT_THAT(of_file(R"({"a": 1, "b": 1, "c": 1, "d": "x", "e": 1})"), HasSubstr("has no number for class `d`"));
  DataInputs lacking = counted();
  lacking.class_sizes = [] { return std::vector<int64_t>{1, 0, 4, 8, 5}; };
  EXPECT_THAT(failure(R"({ name = "softmax", class_weights = "balanced" })", lacking, Exit::kData),
              HasSubstr("the class `b` has no training images"));
  EXPECT_THAT(failure(R"({ name = "bce", pos_weight = [1, 0, 1, 1, 1] })"), HasSubstr("must be above 0, and is 0"));
}

TEST(ObjectiveMistakes, OneLabelWhereThereAreSeveral) {
  for (const char* name : {"softmax", "jsd"}) {
    DataInputs data = several_labels();
    data.views = name == std::string("jsd") ? 3 : 1;
    EXPECT_THAT(failure(std::string("\"") + name + "\"", data),
                HasSubstr(std::string("`objective.name` is ") + name + ", which takes one label an image"));
  }
  EXPECT_EQ(make("\"bce\"", several_labels())->inputs().multi_hot, kClasses);
  EXPECT_EQ(make("\"sigmoid\"", several_labels())->inputs().multi_hot, kClasses);
}

}  // namespace
}  // namespace tessera::objectives
