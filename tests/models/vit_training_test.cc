// What randomness, dtype and remat do to a ViT: nothing where they must not, and the same again for the same key.

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "ir/functions.h"
#include "ir/grad.h"
#include "models/vit/vit.h"
#include "support/formula.h"
#include "support/run_graph.h"

namespace tessera::models {
namespace {

constexpr int64_t kBatch = 4;

ViTOptions small() {
  ViTOptions o;
  o.width = 16, o.depth = 3, o.heads = 2, o.patch = 4, o.pool = "gap";
  return o;
}

struct Outcome {
  std::vector<float> logits;
  std::vector<std::vector<float>> grads;
};

// A traced model: logits, and with `gradients` those of the sum of their squares.
class Program {
 public:
  explicit Program(const ViTOptions& options, nn::Context context = {}, bool gradients = false) : store_(graph_) {
    const ViT model(resolve(options, {8, 8, 3, 5}));
    const ir::GraphScope graph_scope(graph_);
    const ir::Value images = graph_.add_parameter({DType::kF32, {kBatch, 8, 8, 3}});
    context.key = graph_.add_parameter({DType::kU32, {2}});
    graph_.results = {model.logits(nn::Scope(store_, context), images)};
    if (!gradients) return;
    const ir::Value loss = ir::sum_all(ir::square(graph_.results[0]));
    for (const ir::Value grad : ir::gradient(loss, store_.values())) graph_.results.push_back(grad);
  }

  std::string text() const { return ir::program_text(graph_); }

  Outcome run(uint32_t seed = 1) {
    if (!compiled_) compiled_.emplace(graph_, testing::quick_compile());
    std::vector<testing::HostArray> arguments = {
        testing::f32_array({kBatch, 8, 8, 3}, testing::formula_array("x", kBatch * 8 * 8 * 3)),
        testing::host_array<uint32_t>(DType::kU32, {2}, {seed, 0})};
    for (const nn::ParamSpec& spec : store_.specs()) {
      arguments.push_back(
          testing::f32_array(spec.type.dims, testing::formula_array(spec.name, element_count(spec.type.dims), 0.3)));
    }
    Outcome outcome;
    for (const testing::HostArray& array : compiled_->run(arguments)) {
      outcome.logits.empty() ? outcome.logits = array.floats() : outcome.grads.emplace_back(array.floats());
    }
    return outcome;
  }

 private:
  ir::Graph graph_;
  nn::ParamStore store_;
  std::optional<testing::CompiledGraph> compiled_;
};

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(sum / size);
}

TEST(ViTTraining, DropoutAndDropPathActInTrainingOnly) {
  const nn::Context training{.training = true};
  Program plain(small());
  const std::vector<float> without = plain.run().logits;
  for (double ViTOptions::*rate : {&ViTOptions::dropout, &ViTOptions::embed_dropout, &ViTOptions::attn_dropout,
                                   &ViTOptions::head_dropout, &ViTOptions::drop_path}) {
    ViTOptions options = small();
    options.*rate = 0.4;
    EXPECT_EQ(Program(options).text(), plain.text()) << "at evaluation";
    Program program(options, training);
    const std::vector<float> dropped = program.run().logits;
    EXPECT_GT(distance(dropped, without), 1e-3);
    EXPECT_EQ(program.run().logits, dropped) << "the same key";
    EXPECT_NE(program.run(2).logits, dropped) << "another key";
  }
}

TEST(ViTTraining, DropPathOfTheFirstBlockIsZero) {
  ViTOptions options = small();
  options.depth = 1;
  options.drop_path = 0.9;
  EXPECT_EQ(Program(options, {.training = true}).run().logits, Program(options).run().logits);
}

TEST(ViTTraining, GradientsSeeTheMasksOfTheForwardPass) {
  // The backward pass recomputes the blocks: the gradient is right only if masks come out the same. Without remat they are
  // kept.
  ViTOptions options = small();
  options.dropout = options.attn_dropout = 0.2;
  options.drop_path = 0.3;
  const nn::Context training{.training = true};
  const Outcome kept = [&] {
    ViTOptions none = options;
    none.remat = "none";
    return Program(none, training, true).run();
  }();
  for (const char* remat : {"full", "dots"}) {
    options.remat = remat;
    const Outcome outcome = Program(options, training, true).run();
    EXPECT_LT(distance(outcome.logits, kept.logits), 1e-6) << remat;
    ASSERT_EQ(outcome.grads.size(), kept.grads.size());
    for (size_t i = 0; i < kept.grads.size(); ++i)
      EXPECT_LT(distance(outcome.grads[i], kept.grads[i]), 1e-5) << remat << " " << i;
  }
}

TEST(ViTTraining, Bf16ComputeIsNearF32AndGivesF32) {
  const Outcome exact = Program(small(), {}, true).run(), low = Program(small(), {.compute = DType::kBF16}, true).run();
  EXPECT_LT(distance(low.logits, exact.logits), 0.05);
  EXPECT_GT(distance(low.logits, exact.logits), 1e-5);
  for (size_t i = 0; i < exact.grads.size(); ++i) EXPECT_LT(distance(low.grads[i], exact.grads[i]), 0.1) << i;
}

}  // namespace
}  // namespace tessera::models
