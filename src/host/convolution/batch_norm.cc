#include "host/convolution/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "host/call.h"
#include "host/convolution/convolution.h"
#include "host/kernel.h"
#include "host/units/floats.h"
#include "host/units/rows.h"
#include "host/units/scratch.h"
#include "ir/composites.h"

namespace tessera::host {
namespace {

constexpr int64_t kBlockNumbers = int64_t{32} << 10;  // of x: they stay in L2 while they are read twice
constexpr int64_t kBlockRows = 256;                   // at most: f32 sums of more lose digits
constexpr int64_t kTaskChannels = 64;                 // whose sums over the blocks a task takes

// Rows in blocks, and two sums of each block: so many numbers a channel, one after the other in memory.
class Blocks {
 public:
  explicit Blocks(const BatchNorm& norm)
      : norm_(norm), rows_(std::clamp<int64_t>(kBlockNumbers / norm.channels, 1, kBlockRows)) {}

  int64_t count() const { return divided_up(norm_.rows, rows_); }
  RowShape shape(int64_t block) const { return {std::min(rows_, norm_.rows - block * rows_), norm_.channels}; }
  int64_t first(int64_t block) const { return block * rows_ * norm_.channels; }  // number
  int64_t numbers() const { return rows_ * norm_.channels; }
  int64_t sums() const { return 2 * count() * norm_.channels; }
  float* first_sum(float* sums, int64_t block) const { return sums + 2 * block * norm_.channels; }
  float* second_sum(float* sums, int64_t block) const { return first_sum(sums, block) + norm_.channels; }

  // act(channel) for every channel.
  template <class Act>
  Phase by_channels(Act act) const {
    return {divided_up(norm_.channels, kTaskChannels), [act, channels = norm_.channels](int64_t task) {
              const int64_t last = std::min(channels, (task + 1) * kTaskChannels);
              for (int64_t c = task * kTaskChannels; c < last; ++c) act(c);
            }};
  }

 private:
  const BatchNorm norm_;
  const int64_t rows_;
};

// Of several blocks of numbers, from the mean and the squared differences of each (Chan, Golub, LeVeque 1979).
struct Moments {
  double count = 0, mean = 0, squares = 0;
  void add(double more, double its_mean, double its_squares) {
    const double all = count + more, off = its_mean - mean;
    mean += off * more / all;
    squares += its_squares + off * off * count * more / all;
    count = all;
  }
};

float* thread_numbers(int64_t count) {
  thread_local Scratch scratch;
  return scratch.get<float>(count);
}

void normalize_block(const BatchNorm& norm, const Blocks& blocks, int64_t block, const ColumnNorm& columns, const void* x,
                     const void* residual, void* y) {
  const RowShape shape = blocks.shape(block);
  const int64_t first = blocks.first(block), count = shape.rows * shape.width;
  float* apart = norm.dtype == DType::kF32 ? nullptr : thread_numbers(3 * blocks.numbers());
  float *x_apart = apart, *y_apart = apart + blocks.numbers(), *add_apart = y_apart + blocks.numbers();
  float* to = place(y, norm.dtype, first, y_apart);
  normalize_columns(shape, columns, read(x, norm.dtype, first, count, x_apart),
                    residual ? read(residual, norm.dtype, first, count, add_apart) : nullptr, to);
  round(to, count, y, norm.dtype, first);
}

}  // namespace

void norm_factors(int64_t channels, double epsilon, const float* scale, const float* variance, float* factor) {
  for (int64_t c = 0; c < channels; ++c) factor[c] = scale[c] / std::sqrt(variance[c] + static_cast<float>(epsilon));
}

void batch_norm_inference(const BatchNorm& norm, const BatchNormInferenceArguments& a, void* y, const ParallelFor& parallel) {
  CallScratch scratch;
  const Blocks blocks(norm);
  float* factor = scratch.get<float>(norm.channels);
  norm_factors(norm.channels, norm.epsilon, a.scale, a.variance, factor);
  parallel({{blocks.count(), [&](int64_t block) {
               normalize_block(norm, blocks, block, {a.mean, factor, a.bias, norm.relu}, a.x, a.residual, y);
             }}});
}

void batch_norm(const BatchNorm& norm, const BatchNormArguments& a, const BatchNormResults& results,
                const ParallelFor& parallel) {
  CallScratch scratch;
  const Blocks blocks(norm);
  float* sums = scratch.get<float>(blocks.sums() + norm.channels);
  float* factor = sums + blocks.sums();
  const auto moments = [&](int64_t block) {
    const RowShape shape = blocks.shape(block);
    float* apart = norm.dtype == DType::kF32 ? nullptr : thread_numbers(blocks.numbers());
    const float* x = read(a.x, norm.dtype, blocks.first(block), shape.rows * shape.width, apart);
    column_moments(shape, x, blocks.first_sum(sums, block), blocks.second_sum(sums, block));
  };
  const auto statistics = [&](int64_t c) {
    Moments all;
    for (int64_t block = 0; block < blocks.count(); ++block) {
      all.add(static_cast<double>(blocks.shape(block).rows), blocks.first_sum(sums, block)[c],
              blocks.second_sum(sums, block)[c]);
    }
    results.mean[c] = static_cast<float>(all.mean);
    results.variance[c] = static_cast<float>(all.squares / all.count);
    norm_factors(1, norm.epsilon, a.scale + c, results.variance + c, factor + c);
  };
  const auto normalize = [&](int64_t block) {
    normalize_block(norm, blocks, block, {results.mean, factor, a.bias, norm.relu}, a.x, a.residual, results.y);
  };
  parallel({{blocks.count(), moments}, blocks.by_channels(statistics), {blocks.count(), normalize}});
}

void batch_norm_gradient(const BatchNorm& norm, const BatchNormGradientArguments& a, const BatchNormGradient& g,
                         const ParallelFor& parallel) {
  CallScratch scratch;
  const Blocks blocks(norm);
  float* sums = scratch.get<float>(blocks.sums() + 3 * norm.channels);
  float *factor = sums + blocks.sums(), *mean_g = factor + norm.channels, *slope = mean_g + norm.channels;
  struct Arrays {
    const float *x, *dy, *y;
    float *dx, *masked;
  };
  const auto arrays = [&](int64_t block) -> Arrays {
    const int64_t first = blocks.first(block), size = blocks.numbers(), count = blocks.shape(block).rows * norm.channels;
    float* apart = norm.dtype == DType::kF32 ? nullptr : thread_numbers(5 * size);
    return {read(a.x, norm.dtype, first, count, apart), read(a.dy, norm.dtype, first, count, apart + size),
            a.y ? read(a.y, norm.dtype, first, count, apart + 2 * size) : nullptr,
            place(g.dx, norm.dtype, first, apart + 3 * size),
            g.dresidual ? place(g.dresidual, norm.dtype, first, apart + 4 * size) : nullptr};
  };
  const auto add_up = [&](int64_t block) {
    const Arrays at = arrays(block);
    float *sum = blocks.first_sum(sums, block), *along = blocks.second_sum(sums, block);
    std::fill_n(sum, 2 * norm.channels, 0.0F);
    add_norm_sums(blocks.shape(block), at.x, at.dy, at.y, a.mean, sum, along);
  };
  const auto coefficients = [&](int64_t c) {
    double sum = 0, along = 0;
    for (int64_t block = 0; block < blocks.count(); ++block) {
      sum += blocks.first_sum(sums, block)[c];
      along += blocks.second_sum(sums, block)[c];
    }
    const double inverse = 1 / std::sqrt(static_cast<double>(a.variance[c]) + norm.epsilon),
                 rows = static_cast<double>(norm.rows);
    g.dbias[c] = static_cast<float>(sum);
    g.dscale[c] = static_cast<float>(along * inverse);
    factor[c] = static_cast<float>(a.scale[c] * inverse);
    mean_g[c] = static_cast<float>(sum / rows);
    slope[c] = static_cast<float>(along / rows * inverse * inverse);
  };
  const auto spread = [&](int64_t block) {
    const RowShape shape = blocks.shape(block);
    const Arrays at = arrays(block);
    normalize_columns_gradient(shape, {a.mean, factor, mean_g, slope}, at.x, at.dy, at.y, at.masked, at.dx);
    round(at.dx, shape.rows * shape.width, g.dx, norm.dtype, blocks.first(block));
    if (at.masked) round(at.masked, shape.rows * shape.width, g.dresidual, norm.dtype, blocks.first(block));
  };
  parallel({{blocks.count(), add_up}, blocks.by_channels(coefficients), {blocks.count(), spread}});
}

// ---- as calls

namespace {

using Floats = CallArray<const void>;

// Of x [rows, channels]; nothing where it is not that, or the attributes are not there.
std::optional<BatchNorm> norm_of(const Floats& x, const std::optional<ir::BatchNorm>& attributes) {
  if (!attributes || x.rank() != 2) return std::nullopt;
  return BatchNorm{x.dims[0], x.dims[1], attributes->epsilon, attributes->relu, x.dtype};
}

// (x, scale, bias[, residual]) -> (y, mean, variance).
bool forward(const Call& call) {
  const size_t given = call.arguments();
  const auto attributes = call.attributes<ir::BatchNorm>();
  if (!attributes || given != (attributes->residual ? 4 : 3) || !call.has_floats(given, 3)) return false;
  const auto x = call.floats(0), scale = call.floats(1), bias = call.floats(2);
  const auto y = call.float_result(0), mean = call.float_result(1), variance = call.float_result(2);
  const auto norm = norm_of(x, attributes);
  if (!norm || !y.same_type(x) || (given == 4 && !call.floats(3).same_type(x))) return false;
  if (!scale.is_f32(norm->channels) || !bias.is_f32(norm->channels)) return false;
  if (!mean.is_f32(norm->channels) || !variance.is_f32(norm->channels)) return false;
  batch_norm(*norm, {x.data, f32(scale), f32(bias), given == 4 ? call.floats(3).data : nullptr},
             {y.data, f32(mean), f32(variance)}, call.parallel());
  return true;
}

// (x, scale, bias, mean, variance[, residual]) -> y.
bool inference(const Call& call) {
  const size_t given = call.arguments();
  const auto attributes = call.attributes<ir::BatchNorm>();
  if (!attributes || given != (attributes->residual ? 6 : 5) || !call.has_floats(given, 1)) return false;
  const auto x = call.floats(0);
  const auto y = call.float_result(0);
  const auto norm = norm_of(x, attributes);
  if (!norm || !y.same_type(x) || (given == 6 && !call.floats(5).same_type(x))) return false;
  for (size_t i = 1; i < 5; ++i) {
    if (!call.floats(i).is_f32(norm->channels)) return false;
  }
  batch_norm_inference(*norm,
                       {x.data, f32(call.floats(1)), f32(call.floats(2)), f32(call.floats(3)), f32(call.floats(4)),
                        given == 6 ? call.floats(5).data : nullptr},
                       y.data, call.parallel());
  return true;
}

// (dy, x, scale, mean, variance[, y]) -> (dx, dscale, dbias[, dresidual]).
bool backward(const Call& call) {
  const auto attributes = call.attributes<ir::BatchNorm>();
  if (!attributes || !call.has_floats(attributes->relu ? 6 : 5, attributes->residual ? 4 : 3)) return false;
  const auto dy = call.floats(0), x = call.floats(1);
  const auto norm = norm_of(x, attributes);
  if (!norm || !dy.same_type(x) || !call.float_result(0).same_type(x)) return false;
  if ((norm->relu && !call.floats(5).same_type(x)) || (attributes->residual && !call.float_result(3).same_type(x)))
    return false;
  for (size_t i = 2; i < 5; ++i) {
    if (!call.floats(i).is_f32(norm->channels)) return false;
  }
  if (!call.float_result(1).is_f32(norm->channels) || !call.float_result(2).is_f32(norm->channels)) return false;
  batch_norm_gradient(*norm,
                      {dy.data, x.data, norm->relu ? call.floats(5).data : nullptr, f32(call.floats(2)), f32(call.floats(3)),
                       f32(call.floats(4))},
                      {call.float_result(0).data, f32(call.float_result(1)), f32(call.float_result(2)),
                       attributes->residual ? call.float_result(3).data : nullptr},
                      call.parallel());
  return true;
}

constexpr Function kForward{"batch_norm", forward}, kBackward{"batch_norm_backward", backward},
    kInference{"batch_norm_inference", inference};
constexpr Entry kFunctions[] = {kEntry<kForward>, kEntry<kBackward>, kEntry<kInference>};

// Statistics are those of all rows: on several devices nothing is taken.
bool takes(const ir::Composite& composite, const Types& operands, const Devices& devices) {
  const bool named = std::ranges::any_of(kFunctions, [&](const Entry& entry) { return composite.name() == entry.name; });
  if (devices.mesh || !named) return false;
  return std::ranges::all_of(
             operands,
             [&](const TensorType& type) { return type.dtype == (type.rank() == 2 ? operands[0].dtype : DType::kF32); }) &&
         (operands[0].dtype == DType::kF32 || operands[0].dtype == DType::kBF16);
}

ir::Values call_norm(const ir::Composite& composite, const ir::Values& operands, const Types& results, Selection& selection) {
  if (composite.name() == kInference.name) {
    if (const auto both = convolution_with_norm(composite.attributes<ir::BatchNorm>(), operands)) return {*both};
  }
  return call_function(composite, operands, results, selection);
}

}  // namespace

constinit const Kernel kBatchNorm{.functions = kFunctions, .takes = takes, .call = call_norm};

}  // namespace tessera::host
