// The values of schedules, updates and clipping, computed by the CPU plugin, against the formulas in double on the host. That
// they follow PyTorch is tested in tests/train/step/reference_test.cc.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ir/ops.h"
#include "optim/optimizer.h"
#include "support/run_graph.h"

namespace tessera::optim {
namespace {

struct F32 {
  Dims dims;
  std::vector<float> values;
};

// f32 arrays in, f32 arrays out.
std::vector<std::vector<float>> run_graph(const std::vector<F32>& inputs,
                                          const std::function<ir::Values(const ir::Values&)>& build) {
  std::vector<testing::HostArray> arrays;
  for (const F32& input : inputs) arrays.push_back(testing::f32_array(input.dims, input.values));
  std::vector<std::vector<float>> outputs;
  for (const testing::HostArray& result : testing::run(arrays, build)) outputs.push_back(result.floats());
  return outputs;
}

// Values in [-scale, scale] that differ from place to place and are the same every time.
F32 pattern(const Dims& dims, double scale, int salt = 0) {
  F32 array{dims, {}};
  for (int64_t i = 0; i < element_count(dims); ++i) {
    array.values.push_back(
        static_cast<float>(scale * (static_cast<double>((i * 7919 + salt * 104729 + 13) % 1009) / 504.0 - 1)));
  }
  return array;
}

const RunLength kRun{.total_steps = 200, .batch = 10, .examples_per_epoch = 100};

TEST(Schedule, GraphEqualsHost) {
  std::vector<float> steps;
  for (int64_t s = 0; s < kRun.total_steps; ++s) steps.push_back(static_cast<float>(s));
  const std::vector<std::string> texts = {
      "2e-3",
      "constant(1, warmup=7 steps, warmup_start=0.1, cooldown=20 %)",
      "linear(0.3, min=0.1, warmup=3 epochs)",
      "cosine(1e-3, warmup=50 steps)",
      "cosine(1e-3, min=1e-5, warmup=50 steps, cooldown=10 steps)",
      "polynomial(0.1, 3)",
      "polynomial(0.1, power=0.5, min=0.01)",
      "rsqrt(0.1, timescale=30 steps, shift=4 steps, warmup=9 steps)",
      "step(1, 0.1, every=3 steps)",
      "step(1, 0.7, every=49 steps)",
      "step(1, 0.5, milestones=[10 steps, 50 %, 190 steps], warmup=5 steps)",
  };
  const auto rates = run_graph({{{kRun.total_steps}, steps}}, [&](const ir::Values& in) {
    ir::Values out;
    for (const std::string& text : texts) {
      out.push_back(ir::broadcast_to(Schedule::parse(text, kRun).at(in[0]), {kRun.total_steps}));
    }
    return out;
  });
  for (size_t t = 0; t < texts.size(); ++t) {
    const Schedule schedule = Schedule::parse(texts[t], kRun);
    for (int64_t s = 0; s < kRun.total_steps; ++s) {
      const double want = schedule.at(s);
      ASSERT_NEAR(rates[t][static_cast<size_t>(s)], want, 2e-6 * want + 1e-7 * schedule.base()) << texts[t] << " at " << s;
    }
  }
}

// Runs `steps` updates of one parameter, whose gradient at step k is pattern(dims, 1, k), on the device.
std::vector<float> train(const std::string& options, int steps, F32 value) {
  const config::Section recipe = config::parse_recipe("optimizer = {" + options + "}");
  Optimizer optimizer(config::Section(recipe).section("optimizer"), kRun);
  optimizer.bind({{"layer/kernel", {DType::kF32, value.dims}}});
  std::vector<F32> slots(optimizer.slots().size(), F32{value.dims, std::vector<float>(value.values.size(), 0.0f)});
  for (int k = 0; k < steps; ++k) {
    std::vector<F32> inputs = {value, pattern(value.dims, 1, k), {{}, {static_cast<float>(k)}}};
    inputs.insert(inputs.end(), slots.begin(), slots.end());
    const auto out = run_graph(inputs, [&](const ir::Values& in) {
      ir::Values own;
      for (size_t s = 0; s < slots.size(); ++s) own.push_back(ir::convert(in[3 + s], optimizer.slots()[s].type.dtype));
      const auto result = optimizer.apply({in[0]}, {in[1]}, own, in[2]);
      ir::Values all = result.values;
      for (const ir::Value slot : result.slots) all.push_back(ir::convert(slot, DType::kF32));
      return all;
    });
    value.values = out[0];
    for (size_t s = 0; s < slots.size(); ++s) slots[s].values = out[s + 1];
  }
  return value.values;
}

using Step = std::function<void(double& w, double g, double& m, double& v, int t)>;
std::vector<double> expected(int steps, const F32& start, const Step& update) {
  std::vector<double> w(start.values.begin(), start.values.end()), m(w.size()), v(w.size());
  for (int k = 0; k < steps; ++k) {
    const F32 grad = pattern(start.dims, 1, k);
    for (size_t i = 0; i < w.size(); ++i) update(w[i], grad.values[i], m[i], v[i], k + 1);
  }
  return w;
}

void expect_close(const std::vector<float>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6 + 1e-6 * std::abs(want[i])) << i;
}

const F32 kStart = pattern({3, 4}, 0.5, 99);

void adam(double& w, double g, double& m, double& v, int t, double lr) {
  m = 0.9 * m + 0.1 * g;
  v = 0.999 * v + 0.001 * g * g;
  w -= lr / (1 - std::pow(0.9, t)) * m / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
}

TEST(Update, AdamW) {
  expect_close(train("lr = 0.01, weight_decay = 0.1", 4, kStart),
               expected(4, kStart, [](double& w, double g, double& m, double& v, int t) {
                 w *= 1 - 0.01 * 0.1;
                 adam(w, g, m, v, t, 0.01);
               }));
}

TEST(Update, CoarseMomentsAreNear) {
  const F32 start = pattern({4, 3}, 0, 7);
  const std::vector<float> fine = train("lr = 0.01", 10, start), coarse = train("lr = 0.01, moments = \"bf16\"", 10, start);
  for (size_t i = 0; i < fine.size(); ++i) EXPECT_NEAR(coarse[i], fine[i], 2e-3) << i;
  EXPECT_NE(coarse, fine);
}

TEST(Update, AdamWDecaysByScheduleAsBigVision) {
  expect_close(train("lr = \"linear(0.01)\", weight_decay = 1e-3, decoupled = \"schedule\", lr_mult = [\".* = 2\"]", 3, kStart),
               expected(3, kStart, [](double& w, double g, double& m, double& v, int t) {
                 const double schedule = 1 - (t - 1) / 200.0;
                 w *= 1 - schedule * 1e-3;
                 adam(w, g, m, v, t, 2 * 0.01 * schedule);
               }));
}

TEST(Update, AdamAddsDecayToTheGradient) {
  expect_close(
      train("name = \"adam\", lr = 0.01, weight_decay = 0.1", 4, kStart),
      expected(4, kStart, [](double& w, double g, double& m, double& v, int t) { adam(w, g + 0.1 * w, m, v, t, 0.01); }));
}

TEST(Update, SgdPlainMomentumAndNesterov) {
  const auto sgd = [](double momentum, bool nesterov) {
    return expected(4, kStart, [=](double& w, double g, double& m, double&, int) {
      g += 0.1 * w;
      m = momentum * m + g;
      w -= 0.05 * (nesterov ? g + momentum * m : m);
    });
  };
  expect_close(train("name = \"sgd\", lr = 0.05, weight_decay = 0.1", 4, kStart), sgd(0.9, true));
  expect_close(train("name = \"sgd\", lr = 0.05, weight_decay = 0.1, nesterov = false, momentum = 0.5", 4, kStart),
               sgd(0.5, false));
  expect_close(train("name = \"sgd\", lr = 0.05, weight_decay = 0.1, momentum = 0", 4, kStart), sgd(0, false));
}

TEST(Update, FrozenParametersStay) {
  const config::Section recipe = config::parse_recipe("optimizer = {lr = 1, name = \"sgd\", momentum = 0, freeze = [\"a\"]}");
  Optimizer optimizer(config::Section(recipe).section("optimizer"), kRun);
  optimizer.bind({{"a", {DType::kF32, {2}}}, {"b", {DType::kF32, {2}}}});
  const auto out = run_graph({{{2}, {1, 2}}, {{2}, {3, 4}}, {{2}, {1, 1}}, {{}, {0}}}, [&](const ir::Values& in) {
    return optimizer.apply({in[0], in[1]}, {in[2]}, {}, in[3]).values;
  });
  EXPECT_EQ(out[0], (std::vector<float>{1, 2}));
  EXPECT_EQ(out[1], (std::vector<float>{2, 3}));
}

// Layer decay gives each block of a stacked parameter a rate of its own.
TEST(Update, BlocksHaveTheirRates) {
  const config::Section recipe =
      config::parse_recipe("optimizer = {lr = 1, name = \"sgd\", momentum = 0, layer_decay = 0.5, clip = \"none\"}");
  Optimizer optimizer(config::Section(recipe).section("optimizer"), kRun);
  Params params = {{"stem/kernel", {DType::kF32, {1, 2}}},
                   {"blocks/kernel", {DType::kF32, {2, 1, 2}}, true},
                   {"head/kernel", {DType::kF32, {1, 2}}}};
  params[0].layer = 0, params[1].layer = 1, params[2].layer = 3;
  optimizer.bind(std::move(params));
  const std::vector<F32> zeros = {{{1, 2}, {0, 0}}, {{2, 1, 2}, {0, 0, 0, 0}}, {{1, 2}, {0, 0}}},
                         ones = {{{1, 2}, {1, 1}}, {{2, 1, 2}, {1, 1, 1, 1}}, {{1, 2}, {1, 1}}};
  std::vector<F32> inputs = zeros;
  inputs.insert(inputs.end(), ones.begin(), ones.end());
  inputs.push_back({{}, {0}});
  const auto out = run_graph(inputs, [&](const ir::Values& in) {
    return optimizer.apply({in[0], in[1], in[2]}, {in[3], in[4], in[5]}, {}, in[6]).values;
  });
  EXPECT_EQ(out[0], (std::vector<float>{-0.125, -0.125}));
  EXPECT_EQ(out[1], (std::vector<float>{-0.25, -0.25, -0.5, -0.5}));
  EXPECT_EQ(out[2], (std::vector<float>{-1, -1}));
}

// The clipped gradients of a stacked kernel, a head and a bias.
std::vector<std::vector<float>> clip(const std::string& text, const std::vector<F32>& values, const std::vector<F32>& grads) {
  const Params params = {{"blocks/kernel", {DType::kF32, values[0].dims}, true},
                         {"head/kernel", {DType::kF32, values[1].dims}},
                         {"norm/bias", {DType::kF32, values[2].dims}}};
  std::vector<F32> inputs = values;
  inputs.insert(inputs.end(), grads.begin(), grads.end());
  double squares = 0;
  for (const F32& grad : grads) {
    for (const float g : grad.values) squares += static_cast<double>(g) * static_cast<double>(g);
  }
  return run_graph(inputs, [&](const ir::Values& in) {
    return parse_clip(text)->apply(params, {in[0], in[1], in[2]}, {in[3], in[4], in[5]}, ir::constant(std::sqrt(squares)));
  });
}

const std::vector<F32> kValues = {pattern({2, 3, 4}, 0.1, 1), pattern({4, 2}, 0.1, 2), pattern({5}, 1e-5, 3)};
const std::vector<F32> kGrads = {pattern({2, 3, 4}, 2, 4), pattern({4, 2}, 2, 5), pattern({5}, 2, 6)};

TEST(Clip, NoneNormAndValue) {
  double squares = 0;
  for (const F32& grad : kGrads) {
    for (const float g : grad.values) squares += static_cast<double>(g) * static_cast<double>(g);
  }
  const auto same = clip("none", kValues, kGrads), wide = clip("norm(1000)", kValues, kGrads),
             norm = clip("norm(0.5)", kValues, kGrads), value = clip("value(0.25)", kValues, kGrads);
  for (size_t p = 0; p < kGrads.size(); ++p) {
    EXPECT_EQ(same[p], kGrads[p].values);
    EXPECT_EQ(wide[p], kGrads[p].values);
    for (size_t i = 0; i < kGrads[p].values.size(); ++i) {
      EXPECT_NEAR(norm[p][i], kGrads[p].values[i] * 0.5 / (std::sqrt(squares) + 1e-6), 1e-6);
      EXPECT_EQ(value[p][i], std::clamp(kGrads[p].values[i], -0.25f, 0.25f));
    }
  }
}

TEST(Clip, AdaptiveByOutputUnitAndBlock) {
  const auto clipped = clip("adaptive(0.5)", kValues, kGrads);
  EXPECT_EQ(clipped[1], kGrads[1].values);  // the head is left alone
  const auto unit_norm = [](const std::vector<float>& values, size_t block, size_t column) {
    double sum = 0;
    for (size_t row = 0; row < 3; ++row) sum += std::pow(values[block * 12 + row * 4 + column], 2);
    return std::sqrt(sum);
  };
  for (size_t block = 0; block < 2; ++block) {
    for (size_t column = 0; column < 4; ++column) {
      const double limit = 0.5 * unit_norm(kValues[0].values, block, column);
      const double scale = std::min(1.0, limit / unit_norm(kGrads[0].values, block, column));
      EXPECT_LT(scale, 1);
      EXPECT_NEAR(clipped[0][block * 12 + column], kGrads[0].values[block * 12 + column] * scale, 1e-6);
    }
  }
  // The bias is one unit, and its norm is below eps.
  double norm = 0;
  for (const float g : kGrads[2].values) norm += std::pow(g, 2);
  EXPECT_NEAR(clipped[2][3], kGrads[2].values[3] * 0.5 * 1e-3 / std::sqrt(norm), 1e-9);
  EXPECT_NE(clip("adaptive(0.5, exclude=norm/.*)", kValues, kGrads)[1], kGrads[1].values);
}

}  // namespace
}  // namespace tessera::optim
