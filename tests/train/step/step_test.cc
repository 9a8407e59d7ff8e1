// The programs of a run: what a training step computes, and that evaluation is exact.

#include "train/step/step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "evaluators/classification.h"
#include "ir/functions.h"
#include "ir/ops.h"
#include "ir/program/cudnn_attention.h"
#include "objectives/softmax.h"
#include "optim/update_rule.h"
#include "support/run_graph.h"
#include "train/small_run.h"
#include "train/step/compile.h"

namespace tessera::train {
namespace {

using objectives::softmax_cross_entropy;
using objectives::top_k_correct;

// A ViT of 2,000 weights over images of 8 x 8, its optimizer and its state.
struct SmallModel {
  explicit SmallModel(
      const std::string& model_options = "", const std::string& optimizer_options = "",
      const std::string& vit = "name = \"vit\", width = 8, depth = 2, heads = 2, patch = 4, pool = \"gap\"",
      const std::string& optimizer_name = "name = \"adamw\", lr = 0.003, weight_decay = 0.1, clip = \"norm(1)\"") {
    config::Section recipe = config::parse_recipe(
        fmt::format("model = {{ {}{} }}\noptimizer = {{ {}{} }}", vit, model_options, optimizer_name, optimizer_options));
    model = models::make_model(recipe.section("model"), {8, 8, 3, 5});
    specs = models::parameters(*model);
    optimizer = std::make_unique<optim::Optimizer>(recipe.section("optimizer"), optim::RunLength{100, 16, 160});
    optim::Params params;
    for (const nn::ParamSpec& spec : specs) params.push_back({spec.name, spec.type, spec.stacked, spec.trained});
    optimizer->bind(std::move(params));
    layout = state::state_layout(specs, *optimizer);
    options.batch = 16;
    options.pixels = {{1 / 127.5f, 1 / 127.5f, 1 / 127.5f}, {-1, -1, -1}};
    options.objective = objectives::make_objective(
        config::parse_recipe("objective = { name = \"softmax\", label_smoothing = 0.1 }").section("objective"), {5, {}});
  }
  std::unique_ptr<models::Model> model;
  std::vector<nn::ParamSpec> specs;
  std::unique_ptr<optim::Optimizer> optimizer;
  state::StateLayout layout;
  ProgramOptions options;
};

// Compiled once for all tests of the program.
std::shared_ptr<const pjrt::Executable> compile(const Program& program) {
  static std::map<std::string, std::shared_ptr<const pjrt::Executable>> known;
  std::shared_ptr<const pjrt::Executable>& entry = known[program.text];
  if (!entry) {
    pjrt::CompileOptions options = testing::quick_compile();
    options.donated = program.donated;
    entry = std::make_shared<const pjrt::Executable>(testing::compile_cached(program.text, options));
  }
  return entry;
}

std::vector<pjrt::Buffer> run(const pjrt::Executable& program, std::vector<pjrt::Buffer>& first,
                              std::vector<pjrt::Buffer> rest) {
  std::vector<pjrt::Buffer*> arguments;
  for (pjrt::Buffer& buffer : first) arguments.push_back(&buffer);
  for (pjrt::Buffer& buffer : rest) arguments.push_back(&buffer);
  return program.run(arguments);
}

// A step on `batch`.
std::vector<pjrt::Buffer> train_step(const SmallModel& setup, std::vector<pjrt::Buffer>& state,
                                     std::vector<pjrt::Buffer> batch) {
  const Program program = train_program(*setup.model, setup.layout, *setup.optimizer, setup.options);
  state::DeviceArrays numbers = place_numbers(program.numbers, *testing::cpu_client(), {});
  for (pjrt::Buffer& number : numbers[0]) batch.push_back(std::move(number));
  return run(*compile(program), state, std::move(batch));
}

std::vector<pjrt::Buffer> initial_state(const SmallModel& setup, uint64_t seed) {
  state::DeviceArrays key = state::replicate(*testing::cpu_client(), {}, seed_key(seed).data(), {DType::kU32, {2}});
  state::DeviceArrays drawn = compile(init_program(setup.specs, setup.layout))->execute(state::argument_lists(key, 1));
  std::vector<pjrt::Buffer> state = std::move(drawn[0]);
  state.pop_back();  // what was drawn, summed up
  return state;
}

state::HostArrays host_copies(const state::StateLayout& layout, std::vector<pjrt::Buffer> state) {
  state::DeviceArrays arrays;
  arrays.push_back(std::move(state));
  state::HostArrays host;
  for (size_t entry = 0; entry < arrays[0].size(); ++entry) host.push_back(state::to_host(layout, arrays, entry));
  return host;
}

// Rows first, first + every, … of the salt's.
std::vector<pjrt::Buffer> batch_of(int64_t rows, uint64_t salt, int64_t first = 0, int64_t every = 1) {
  std::vector<uint8_t> images(static_cast<size_t>(rows * 8 * 8 * 3));
  std::vector<int32_t> labels;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t row = first + r * every;
    Rng rng(salt, static_cast<uint64_t>(row));
    labels.push_back(static_cast<int32_t>(row % 5));
    for (size_t p = 0; p < 192; ++p) {
      images[static_cast<size_t>(r) * 192 + p] =
          static_cast<uint8_t>(rng.below(120) + (p / 3 % 5 == static_cast<size_t>(row % 5) ? 130 : 0));
    }
  }
  std::vector<pjrt::Buffer> batch;
  batch.push_back(testing::cpu_client()->to_device(images.data(), {DType::kU8, {rows, 8, 8, 3}}));
  batch.push_back(testing::cpu_client()->to_device(labels.data(), {DType::kI32, {rows}}));
  return batch;
}

struct Steps {
  std::vector<std::vector<float>> metrics;
  state::HostArrays state;
};

Steps train(const SmallModel& setup, int steps, uint64_t seed = 0) {
  std::vector<pjrt::Buffer> state = initial_state(setup, seed);
  Steps out;
  for (int s = 0; s < steps; ++s) {
    std::vector<pjrt::Buffer> results = train_step(setup, state, batch_of(setup.options.batch, 1));
    out.metrics.push_back(results.back().to_host<float>());
    results.pop_back();
    for (const pjrt::Buffer& old : state) EXPECT_TRUE(old.donated());
    state = std::move(results);
  }
  out.state = host_copies(setup.layout, std::move(state));
  return out;
}

bool same_bytes(const state::HostArrays& a, const state::HostArrays& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::equal(a[i].data.begin(), a[i].data.end(), b[i].data.begin(), b[i].data.end())) return false;
  }
  return a.size() == b.size();
}

float largest_difference(const SmallModel& setup, const state::HostArrays& a, const state::HostArrays& b) {
  float largest = 0;
  for (size_t i = 0; i < setup.layout.params; ++i) {
    for (size_t e = 0; e < a[i].size(); e += sizeof(float)) {
      float x, y;
      std::memcpy(&x, a[i].data.data() + e, sizeof x);
      std::memcpy(&y, b[i].data.data() + e, sizeof y);
      largest = std::max(largest, std::abs(x - y));
    }
  }
  return largest;
}

TEST(Step, LearnsAndCounts) {
  const SmallModel setup;
  const Steps steps = train(setup, 40);
  EXPECT_NEAR(steps.metrics.front()[0], std::log(5.0), 0.3);
  EXPECT_LT(steps.metrics.back()[0], 0.7f * steps.metrics.front()[0]);
  EXPECT_GT(steps.metrics.back()[5], 0.9f);           // training_prec@1
  EXPECT_FLOAT_EQ(steps.metrics.front()[4], 0.003f);  // lr
  EXPECT_GT(steps.metrics.front()[3], 0);             // l2_updates
  int32_t count = 0;
  std::memcpy(&count, steps.state[setup.layout.step_index()].data.data(), sizeof count);
  EXPECT_EQ(count, 40);
}

// A buffer after one step on the batch.
std::vector<float> buffer_after(const SmallModel& setup, const std::string& name, std::vector<pjrt::Buffer> batch) {
  std::vector<pjrt::Buffer> state = initial_state(setup, 0);
  std::vector<pjrt::Buffer> results = train_step(setup, state, std::move(batch));
  for (size_t i = 0; i < setup.layout.params; ++i) {
    if (setup.layout.entries[i].name != name) continue;
    EXPECT_FALSE(setup.layout.entries[i].trained);
    return results[i].to_host<float>();
  }
  ADD_FAILURE() << name;
  return {};
}

TEST(Step, EachMicroBatchMovesTheRunningStatistics) {
  const std::string resnet = "name = \"resnet\", block = \"basic\", dims = [8, 8, 8, 8], depths = [1, 1, 1, 1]";
  SmallModel whole("", "", resnet), half("", "", resnet);
  whole.options.accumulate = 2;
  half.options.batch = 8;
  for (const char* name : {"params/bn1/running_mean", "params/bn1/num_batches_tracked"}) {
    const std::vector<float> both = buffer_after(whole, name, batch_of(16, 1));
    const std::vector<float> even = buffer_after(half, name, batch_of(8, 1, 0, 2)),
                             odd = buffer_after(half, name, batch_of(8, 1, 1, 2));
    const float kept = std::string(name).ends_with("mean") ? 0.9f : 1.0f;
    for (size_t i = 0; i < both.size(); ++i) EXPECT_NEAR(both[i], kept * even[i] + odd[i], 1e-6) << name;
  }
  EXPECT_LT(whole.optimizer->slots().size(), 2 * whole.layout.params) << "buffers have no slots";
}

TEST(Step, SameSeedSameBytesOtherSeedOther) {
  const SmallModel setup;
  const Steps a = train(setup, 3), b = train(setup, 3), c = train(setup, 3, 1);
  EXPECT_TRUE(same_bytes(a.state, b.state));
  EXPECT_EQ(a.metrics, b.metrics);
  EXPECT_FALSE(same_bytes(a.state, c.state));
}

TEST(Step, RandomLayersDependOnSeedAndStep) {
  const SmallModel setup(", dropout = 0.2, drop_path = 0.2", ", freeze = [\".*kernel\", \".*embed.*\"]");
  const Steps a = train(setup, 2), b = train(setup, 2);
  EXPECT_TRUE(same_bytes(a.state, b.state));
  EXPECT_NE(a.metrics[0][1], a.metrics[1][1]);
}

// The loss on the batch of the first weights, in a run that has made `step` steps.
float first_loss(const SmallModel& setup, int32_t step, std::vector<pjrt::Buffer> batch) {
  std::vector<pjrt::Buffer> state = initial_state(setup, 0);
  state[setup.layout.step_index()] = testing::cpu_client()->to_device(&step, {DType::kI32, {}});
  return train_step(setup, state, std::move(batch)).back().to_host<float>()[0];
}

constexpr const char* kRandom = ", dropout = 0.2, drop_path = 0.2";

TEST(Step, RandomLayersDrawAnewInEveryStep) {
  const SmallModel plain, random(kRandom);
  EXPECT_EQ(first_loss(plain, 0, batch_of(16, 1)), first_loss(plain, 1, batch_of(16, 1)));
  EXPECT_EQ(first_loss(random, 1, batch_of(16, 1)), first_loss(random, 1, batch_of(16, 1)));
  EXPECT_NE(first_loss(random, 0, batch_of(16, 1)), first_loss(random, 1, batch_of(16, 1)));
}

// Two examples in micro-batches of one: with draws of its own for each, it matters which is the first.
TEST(Step, RandomLayersDrawAnewForEveryMicroBatch) {
  const auto difference = [](SmallModel setup) {
    setup.options.batch = setup.options.accumulate = 2;
    return std::abs(first_loss(setup, 0, batch_of(2, 1, 0, 1)) - first_loss(setup, 0, batch_of(2, 1, 1, -1)));
  };
  EXPECT_LT(difference(SmallModel()), 1e-6f);
  EXPECT_GT(difference(SmallModel(kRandom)), 5e-5f);
}

TEST(Step, MeasuresTheWeightsAndTheirChange) {
  const SmallModel setup;
  const state::HostArrays before = host_copies(setup.layout, initial_state(setup, 0));
  const Steps after = train(setup, 1);
  double weights = 0, change = 0;
  for (size_t i = 0; i < setup.layout.params; ++i) {
    for (size_t e = 0; e < before[i].size(); e += sizeof(float)) {
      float x, y;
      std::memcpy(&x, before[i].data.data() + e, sizeof x);
      std::memcpy(&y, after.state[i].data.data() + e, sizeof y);
      weights += static_cast<double>(y) * y, change += static_cast<double>(y - x) * (y - x);
    }
  }
  EXPECT_NEAR(after.metrics[0][2], std::sqrt(weights), 1e-4 * std::sqrt(weights));  // l2_params
  EXPECT_NEAR(after.metrics[0][3], std::sqrt(change), 1e-3 * std::sqrt(change));    // l2_updates
}

// A search for a learning rate or a weight decay compiles once.
TEST(Step, TheOptimizersNumbersAreArguments) {
  const auto program = [](const std::string& name, const std::string& lr, double decay) {
    const SmallModel setup("", "", "name = \"vit\", width = 8, depth = 1, heads = 2, patch = 4, pool = \"gap\"",
                           fmt::format("name = \"{}\", lr = \"{}\", weight_decay = {}", name, lr, decay));
    return train_program(*setup.model, setup.layout, *setup.optimizer, setup.options);
  };
  for (const optim::OptimizerKind* kind : optim::optimizer_kinds()) {
    const Program one = program(kind->name, "cosine(0.003, warmup=7 steps)", 0.0123),
                  other = program(kind->name, "cosine(0.0007, warmup=11 steps)", 0.0345);
    EXPECT_EQ(one.text, other.text) << kind->name;
    EXPECT_NE(one.numbers, other.numbers) << kind->name;
  }
}

TEST(Step, MicroBatchesAddUpToTheBatch) {
  SmallModel setup;
  const Steps whole = train(setup, 3);
  for (const int64_t parts : {4, 16}) {
    setup.options.accumulate = parts;
    const Steps split = train(setup, 3);
    for (size_t s = 0; s < 3; ++s) {
      const std::vector<std::string> names = metric_names(*setup.options.objective);
      ASSERT_EQ(split.metrics[s].size(), names.size());
      for (size_t m = 0; m < names.size(); ++m) {
        EXPECT_NEAR(split.metrics[s][m], whole.metrics[s][m], 1e-5f) << parts << names[m];
      }
    }
    EXPECT_LT(largest_difference(setup, split.state, whole.state), 1e-5f) << parts;
  }
}

TEST(Step, FrozenParametersKeepTheirBytes) {
  const SmallModel setup("", ", freeze = [\"blocks/.*\"]");
  const state::HostArrays before = host_copies(setup.layout, initial_state(setup, 0));
  const Steps after = train(setup, 2);
  for (size_t i = 0; i < setup.layout.params; ++i) {
    const bool same = std::equal(before[i].data.begin(), before[i].data.end(), after.state[i].data.begin());
    EXPECT_EQ(same, setup.layout.entries[i].name.starts_with("params/blocks/")) << setup.layout.entries[i].name;
  }
}

TEST(Step, Bfloat16ComputeStaysNear) {
  SmallModel setup;
  const Steps exact = train(setup, 1);
  setup.options.compute = DType::kBF16;
  const Steps half = train(setup, 1);
  EXPECT_NEAR(half.metrics[0][0], exact.metrics[0][0], 0.02f);
  EXPECT_NE(half.metrics[0][0], exact.metrics[0][0]);
}

// ---- objective ----

TEST(Objective, SmoothedCrossEntropy) {
  const std::vector<float> logits = {2, -1, 0.5f, 0, 0, 0, -3, 4, 1};
  const std::vector<int32_t> labels = {0, 2, 2};
  const auto results =
      testing::run({testing::f32_array({3, 3}, logits), testing::i32_array({3}, labels)}, [](const ir::Values& x) {
        return ir::Values{softmax_cross_entropy(x[0], x[1]),
                          softmax_cross_entropy(x[0], x[1], objectives::spread_over_all(0.3, 3))};
      });
  for (size_t r = 0; r < 3; ++r) {
    double total = 0, mean = 0;
    for (size_t c = 0; c < 3; ++c) total += std::exp(static_cast<double>(logits[r * 3 + c]));
    for (size_t c = 0; c < 3; ++c) mean += (std::log(total) - static_cast<double>(logits[r * 3 + c])) / 3;
    const double loss = std::log(total) - static_cast<double>(logits[r * 3 + static_cast<size_t>(labels[r])]);
    EXPECT_NEAR(results[0].floats()[r], loss, 1e-6);
    EXPECT_NEAR(results[1].floats()[r], 0.7 * loss + 0.3 * mean, 1e-6);
  }
}

TEST(Objective, TopKWithTies) {
  const float nan = std::nanf("");
  const auto results = testing::run(
      {testing::f32_array({5, 4}, {1, 2, 3, 4, 4, 3, 2, 1, 2, 2, 2, 2, 0, 5, 5, 0, nan, 1, 2, 3}),
       testing::i32_array({5}, {2, 0, 1, 2, 3})},
      [](const ir::Values& x) {
        return ir::Values{top_k_correct(x[0], x[1], 1), top_k_correct(x[0], x[1], 2), top_k_correct(x[0], x[1], 5)};
      });
  EXPECT_EQ(results[0].floats(), (std::vector<float>{0, 1, 0, 0, 0}));
  EXPECT_EQ(results[1].floats(), (std::vector<float>{1, 1, 1, 1, 0}));
  EXPECT_EQ(results[2].floats(), (std::vector<float>{1, 1, 1, 1, 0}));
}

// ---- evaluation ----

state::DeviceArrays initial_params(const recipe::Recipe& recipe) {
  state::DeviceArrays key = state::replicate(*testing::cpu_client(), {}, seed_key(0).data(), {DType::kU32, {2}});
  return compile(init_program(recipe.specs, state::param_layout(recipe.specs)))->execute(state::argument_lists(key, 1));
}

Processes& alone() {
  static Processes processes{{}};
  return processes;
}

EvaluationRunner runner_of(const recipe::Recipe& recipe, const state::StateLayout& layout, const recipe::EvalPlan& plan) {
  ProgramOptions options;
  options.batch = plan.sets[0].batch;
  options.pixels = plan.sets[0].data.pp().pixel_scale();
  const Program program = eval_program(*recipe.model, *plan.evaluator, 0, layout, options);
  Compiled compiled{testing::compile_cached(program.text, testing::quick_compile()), {}};
  return {testing::cpu_client(), {std::make_shared<const Compiled>(std::move(compiled))}, layout, plan, alone()};
}

TEST(Evaluate, ExactWhateverTheBatch) {
  config::Section recipe = testing::small_run().section();
  const recipe::Recipe base = recipe::read_recipe(recipe);
  const state::StateLayout layout = state::param_layout(base.specs);
  state::DeviceArrays params = initial_params(base);

  std::vector<Scores> all;
  for (const int64_t batch : {1, 22, 40}) {
    recipe::EvalPlan plan = base.evals[0];
    plan.sets[0].batch = batch;
    const EvaluationRunner evaluator = runner_of(base, layout, plan);
    all.push_back(evaluator.run(params)->scores);
    EXPECT_EQ(all.back().count, 23) << batch;
    EXPECT_NEAR(all.back().at("loss"), all.front().at("loss"), 1e-6) << batch;
    EXPECT_EQ(all.back().at("prec@1"), all.front().at("prec@1")) << batch;
    EXPECT_EQ(all.back().at("prec@5"), 1) << batch;
    EXPECT_FALSE(evaluator.run(params, [] { return true; })) << batch;
  }
}

TEST(Evaluate, UnreadableFilesAreLeftOutAndCounted) {
  const testing::TempDir dir;
  testing::make_images(dir / "val", 9, 3);
  testing::spill(dir / "val/red/broken.png", "no image");
  config::Section recipe = testing::small_run().section({fmt::format("eval.val.data.source=\"folder({}/val)\"", dir.path())});
  const recipe::Recipe base = recipe::read_recipe(recipe);
  const state::StateLayout layout = state::param_layout(base.specs);
  state::DeviceArrays params = initial_params(base);
  const Scores scores = runner_of(base, layout, base.evals[0]).run(params)->scores;
  EXPECT_EQ(scores.count, 9);
  EXPECT_EQ(scores.skipped, 1);
}

// Of models in use as of steps: evaluators' programs are traced alike.
TEST(PredictProgram, OfGpusHasNoLoopAndLeavesAttentionToCudnn) {
  const SmallModel small("", "", "name = \"vit\", width = 16, depth = 3, heads = 2, patch = 4, pool = \"gap\"");
  const state::StateLayout layout = state::param_layout(small.specs);
  const auto program = [&](const Hardware& hardware, DType compute) {
    return predict_program(*small.model, layout, {.batch = 16, .compute = compute, .hardware = hardware});
  };
  const auto calls = [](const Program& of) { return of.text.find(ir::kCudnnAttention) != std::string::npos; };
  const auto loops = [](const Program& of) { return of.text.find("stablehlo.while") != std::string::npos; };
  const Program gpus = program(planned_gpus(), DType::kBF16), plain = program({}, DType::kBF16);
  EXPECT_TRUE(calls(gpus) && gpus.calls_cudnn && !loops(gpus));
  EXPECT_TRUE(!calls(plain) && !plain.calls_cudnn && loops(plain));
  const Program f32 = program(planned_gpus(), DType::kF32);
  EXPECT_TRUE(!calls(f32) && !loops(f32));
}

TEST(TrainProgram, HasASmallerOneWhereItKeepsWhatItNeedNot) {
  const auto program = [](const std::string& remat, bool gpus, bool keeps) {
    SmallModel small(remat);
    small.options.hardware.gpus = gpus;
    small.options.keeps_activations = keeps;
    return train_program(*small.model, small.layout, *small.optimizer, small.options);
  };
  const Program automatic = program("", true, true), none = program(", remat = \"none\"", true, false);
  EXPECT_EQ(automatic.text, none.text);
  ASSERT_TRUE(automatic.smaller);
  EXPECT_EQ(automatic.smaller->text, program(", remat = \"dots\"", true, false).text);
  EXPECT_FALSE(automatic.smaller->smaller);
  EXPECT_FALSE(program("", true, false).smaller);
  EXPECT_FALSE(program(", remat = \"dots\"", true, true).smaller) << "the recipe says what is computed again";
  EXPECT_EQ(program("", false, false).text, program(", remat = \"dots\"", false, false).text);
}

}  // namespace
}  // namespace tessera::train
