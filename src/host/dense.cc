#include "host/dense.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "host/call.h"
#include "host/kernel.h"
#include "host/product.h"
#include "host/rows.h"
#include "host/tiles.h"

namespace tessera::host {
namespace {

using ir::DenseInput;

constexpr int64_t kTaskPanels = 2;   // of the result's rows that a task of the forward layer computes, one after the other
constexpr int64_t kPackPanels = 2;   // of the weights, packed by a task
constexpr int64_t kChunkRows = 128;  // that the gradient takes at a time
constexpr int64_t kPartRows = 256;   // at least, that a part of the sums over rows has …
constexpr int64_t kMaxParts = 16;    // … and at most so many parts
constexpr int64_t kSumBlock = 4096;  // numbers of the gradient that a task sums up

int64_t divided_up(int64_t x, int64_t by) { return (x + by - 1) / by; }
int64_t floats_of(int64_t bytes) { return bytes / static_cast<int64_t>(sizeof(float)); }

// Memory handed out piece by piece, each aligned for the matrix unit.
class Pieces {
 public:
  static int64_t padded(int64_t count) { return divided_up(count, kAlign) * kAlign; }
  explicit Pieces(float* memory) : next_(memory) {}
  float* take(int64_t count) {
    float* piece = next_;
    next_ += padded(count);
    return piece;
  }
  uint8_t* take_bytes(int64_t bytes) { return reinterpret_cast<uint8_t*>(take(floats_of(bytes))); }

 private:
  static constexpr int64_t kAlign = Scratch::kAlign / static_cast<int64_t>(sizeof(float));
  float* next_;
};

// The layer's weights as the right side of its products, packed in a phase of its own.
struct PackedWeights {
  Operand from;
  uint8_t* to;

  int64_t bytes() const { return packed_bytes(from.rows, from.k); }
  Phase phase() const {
    return {divided_up(panels(from.rows), kPackPanels), [*this](int64_t task) {
              const int64_t first = task * kPackPanels, last = std::min(panels(from.rows), first + kPackPanels);
              pack_panels(from, Side::kRight, first, last, 0, steps(from.k), to);
            }};
  }
};

// ---- forward

void forward_panel(const Dense& d, const DenseArguments& a, int64_t row, const uint8_t* weights, float* y) {
  thread_local Scratch scratch;
  const int64_t rows = std::min(kPanel, d.rows - row);
  Pieces pieces(
      scratch.get<float>(Pieces::padded(rows * d.in) + 2 * Pieces::padded(rows) + floats_of(packed_bytes(rows, d.in))));
  float *mean = pieces.take(rows), *inverse = pieces.take(rows), *changed = pieces.take(rows * d.in);
  uint8_t* packed = pieces.take_bytes(packed_bytes(rows, d.in));
  const float* x = a.x + row * d.in;
  if (d.input == DenseInput::kNorm) norm_rows({rows, d.in}, d.epsilon, x, a.scale, a.offset, changed, mean, inverse);
  if (d.input == DenseInput::kGelu) gelu_numbers(x, rows * d.in, changed);
  if (d.input == DenseInput::kGeluTanh) gelu_tanh_numbers(x, rows * d.in, changed);
  pack_panels({d.input == DenseInput::kPlain ? x : changed, rows, d.in, d.in, 1}, Side::kLeft, 0, 1, 0, steps(d.in), packed);
  float* to = y + row * d.out;
  multiply_block({0, 1, 0, panels(d.out)}, packed, weights, steps(d.in), to, rows, d.out, true);
  add_to_rows({rows, d.out}, a.bias, a.residual ? a.residual + row * d.out : nullptr, to);
}

// ---- backward

// Sums over rows: the first part's are the caller's arrays, the others stand one after the other in memory and are added at the
// end.
struct Sums {
  float *dkernel, *dbias, *dscale, *doffset;

  static int64_t count(const Dense& d) {
    return Pieces::padded(d.in * d.out) + Pieces::padded(d.out) + 2 * Pieces::padded(d.in);
  }
  static Sums in(const Dense& d, float* memory) {
    Pieces pieces(memory);
    Sums sums{};
    sums.dkernel = pieces.take(d.in * d.out);
    sums.dbias = pieces.take(d.out);
    sums.dscale = pieces.take(d.in);
    sums.doffset = pieces.take(d.in);
    return sums;
  }
};

// A thread's memory for one chunk.
struct ChunkMemory {
  float *changed, *slope, *mean, *inverse;
  uint8_t *dy_left, *x_left, *dy_right;

  explicit ChunkMemory(const Dense& d) {
    thread_local Scratch scratch;
    const int64_t numbers = Pieces::padded(kChunkRows * d.in), row_numbers = Pieces::padded(kChunkRows);
    const int64_t bytes = packed_bytes(kChunkRows, d.out) + packed_bytes(d.in, kChunkRows) + packed_bytes(d.out, kChunkRows);
    Pieces pieces(scratch.get<float>(2 * numbers + 2 * row_numbers + floats_of(bytes)));
    changed = pieces.take(numbers);
    slope = pieces.take(numbers);
    mean = pieces.take(row_numbers);
    inverse = pieces.take(row_numbers);
    dy_left = pieces.take_bytes(packed_bytes(kChunkRows, d.out));
    x_left = pieces.take_bytes(packed_bytes(d.in, kChunkRows));
    dy_right = pieces.take_bytes(packed_bytes(d.out, kChunkRows));
  }
};

class Backward {
 public:
  Backward(const Dense& dense, const DenseGradientArguments& arguments, const DenseGradient& gradient)
      : d_(dense), a_(arguments), g_(gradient) {
    parts_ = std::clamp(d_.rows / kPartRows, int64_t{1}, kMaxParts);
    part_rows_ = divided_up(divided_up(d_.rows, parts_), kPanel) * kPanel;
    parts_ = divided_up(d_.rows, part_rows_);
  }

  // `scratch` is of the calling thread and stays as it is until the phases are done.
  std::vector<Phase> list(Scratch& scratch) {
    PackedWeights weights{{a_.kernel, d_.in, d_.out, d_.out, 1}, nullptr};
    sums_ = scratch.get<float>((parts_ - 1) * Sums::count(d_) + floats_of(weights.bytes()));
    weights.to = weights_ = reinterpret_cast<uint8_t*>(sums_ + (parts_ - 1) * Sums::count(d_));
    const Phase rows{parts_, [this](int64_t part) { add_rows(part); }};
    const Phase parts{kernel_tasks() + 1, [this](int64_t task) { add_parts(task); }};
    return {weights.phase(), rows, parts};
  }

 private:
  int64_t kernel_tasks() const { return divided_up(d_.in * d_.out, kSumBlock); }

  Sums sums(int64_t part) const {
    if (part == 0) return {g_.dkernel, g_.dbias, g_.dscale, g_.doffset};
    return Sums::in(d_, sums_ + (part - 1) * Sums::count(d_));
  }

  void add_rows(int64_t part) const {
    const Sums to = sums(part);
    std::fill_n(to.dbias, d_.out, 0.0F);
    if (d_.input == DenseInput::kNorm) std::fill_n(to.dscale, d_.in, 0.0F), std::fill_n(to.doffset, d_.in, 0.0F);
    const int64_t first = part * part_rows_, last = std::min(d_.rows, first + part_rows_);
    for (int64_t row = first; row < last; row += kChunkRows) chunk(row, std::min(kChunkRows, last - row), row == first, to);
  }

  void chunk(int64_t row, int64_t rows, bool fresh, const Sums& sums) const {
    const ChunkMemory m(d_);
    const float *x = a_.x + row * d_.in, *dy = a_.dy + row * d_.out;
    if (d_.input == DenseInput::kNorm)
      norm_rows({rows, d_.in}, d_.epsilon, x, a_.scale, a_.offset, m.changed, m.mean, m.inverse);
    if (d_.input == DenseInput::kGelu) gelu_numbers(x, rows * d_.in, m.changed, m.slope);
    if (d_.input == DenseInput::kGeluTanh) gelu_tanh_numbers(x, rows * d_.in, m.changed, m.slope);
    input_gradient(row, rows, m, sums);
    const float* changed = d_.input == DenseInput::kPlain ? x : m.changed;
    pack_panels({changed, d_.in, rows, 1, d_.in}, Side::kLeft, 0, panels(d_.in), 0, steps(rows), m.x_left);
    pack_panels({dy, d_.out, rows, 1, d_.out}, Side::kRight, 0, panels(d_.out), 0, steps(rows), m.dy_right);
    multiply_block({0, panels(d_.in), 0, panels(d_.out)}, m.x_left, m.dy_right, steps(rows), sums.dkernel, d_.in, d_.out,
                   fresh);
    add_column_sums({rows, d_.out}, dy, sums.dbias);
  }

  void input_gradient(int64_t row, int64_t rows, const ChunkMemory& m, const Sums& sums) const {
    float* dx = g_.dx + row * d_.in;
    pack_panels({a_.dy + row * d_.out, rows, d_.out, d_.out, 1}, Side::kLeft, 0, panels(rows), 0, steps(d_.out), m.dy_left);
    multiply_block({0, panels(rows), 0, panels(d_.in)}, m.dy_left, weights_, steps(d_.out), dx, rows, d_.in, true);
    const bool activation = d_.input == DenseInput::kGelu || d_.input == DenseInput::kGeluTanh;
    if (activation) multiply_numbers(m.slope, rows * d_.in, dx);
    if (d_.input == DenseInput::kNorm) {
      norm_gradient_rows({rows, d_.in}, a_.x + row * d_.in, a_.scale, m.mean, m.inverse,
                         a_.add ? a_.add + row * d_.in : nullptr, dx, sums.dscale, sums.doffset);
    }
  }

  // A block of the kernel's gradient, or all that are vectors.
  void add_parts(int64_t task) const {
    const Sums to = sums(0);
    const int64_t first = task * kSumBlock, count = std::min(kSumBlock, d_.in * d_.out - first);
    const auto add = [](const float* from, int64_t numbers, float* sum) {
      for (int64_t i = 0; i < numbers; ++i) sum[i] += from[i];
    };
    for (int64_t part = 1; part < parts_; ++part) {
      const Sums from = sums(part);
      if (task < kernel_tasks()) {
        add(from.dkernel + first, count, to.dkernel + first);
        continue;
      }
      add(from.dbias, d_.out, to.dbias);
      if (d_.input == DenseInput::kNorm) add(from.dscale, d_.in, to.dscale), add(from.doffset, d_.in, to.doffset);
    }
  }

  const Dense d_;
  const DenseGradientArguments a_;
  const DenseGradient g_;
  int64_t parts_ = 0, part_rows_ = 0;
  float* sums_ = nullptr;
  uint8_t* weights_ = nullptr;
};

}  // namespace

void dense_f32(const Dense& d, const DenseArguments& a, float* y, const ParallelFor& parallel) {
  thread_local Scratch scratch;
  PackedWeights weights{{a.kernel, d.out, d.in, 1, d.out}, nullptr};
  weights.to = scratch.get<uint8_t>(weights.bytes());
  const int64_t row_panels = panels(d.rows);
  const auto rows = [&](int64_t task) {
    const int64_t last = std::min(row_panels, (task + 1) * kTaskPanels);
    for (int64_t p = task * kTaskPanels; p < last; ++p) forward_panel(d, a, p * kPanel, weights.to, y);
  };
  parallel({weights.phase(), {divided_up(row_panels, kTaskPanels), rows}});
}

void dense_gradient_f32(const Dense& dense, const DenseGradientArguments& arguments, const DenseGradient& gradient,
                        const ParallelFor& parallel) {
  thread_local Scratch scratch;
  Backward backward(dense, arguments, gradient);
  parallel(backward.list(scratch));
}

// ---- as calls

namespace {

// The layer of a call; nothing when x and kernel do not go together.
std::optional<Dense> dense_of(const Call& call, const CallArray<const float>& x, const CallArray<const float>& kernel) {
  const auto layer = call.attributes<ir::DenseLayer>();
  const bool known = layer && layer->input >= DenseInput::kPlain && layer->input <= DenseInput::kGeluTanh;
  if (!known || x.rank() != 2 || kernel.rank() != 2 || x.dims[1] != kernel.dims[0]) return std::nullopt;
  return Dense{x.dims[0], kernel.dims[0], kernel.dims[1], layer->input, layer->epsilon};
}

// (x, kernel, bias[, scale, offset][, residual]) -> y.
bool dense(const Call& call) {
  const size_t given = call.arguments();
  if (given < 3 || !call.has(given, 1)) return false;
  const auto x = call.argument(0), kernel = call.argument(1), bias = call.argument(2);
  const auto y = call.result(0);
  const auto d = dense_of(call, x, kernel);
  if (!d || !bias.has(d->out) || !y.has(d->rows * d->out)) return false;
  DenseArguments a{x.data, kernel.data, bias.data};
  size_t next = 3;
  if (d->input == DenseInput::kNorm) {
    if (given < 5 || !call.argument(3).has(d->in) || !call.argument(4).has(d->in)) return false;
    a.scale = call.argument(3).data, a.offset = call.argument(4).data;
    next = 5;
  }
  if (next < given) {
    if (!call.argument(next).has(d->rows * d->out)) return false;
    a.residual = call.argument(next++).data;
  }
  if (next != given) return false;
  dense_f32(*d, a, y.data, call.parallel());
  return true;
}

// (dy, x, kernel[, scale, offset[, add]]) -> (dx, dkernel, dbias[, dscale, doffset]).
bool dense_backward(const Call& call) {
  const size_t given = call.arguments();
  if (given < 3 || given > 6 || !call.has(given, given < 5 ? 3 : 5)) return false;
  const auto dy = call.argument(0), x = call.argument(1), kernel = call.argument(2);
  const auto dx = call.result(0), dkernel = call.result(1), dbias = call.result(2);
  const auto d = dense_of(call, x, kernel);
  if (!d || !dy.has(d->rows * d->out) || !dx.same_shape(x) || !dkernel.same_shape(kernel) || !dbias.has(d->out)) return false;
  DenseGradientArguments a{dy.data, x.data, kernel.data};
  DenseGradient g{dx.data, dkernel.data, dbias.data};
  const bool norm = d->input == DenseInput::kNorm;
  if (norm ? given < 5 : given != 3) return false;
  if (norm) {
    const auto scale = call.argument(3), offset = call.argument(4);
    const auto dscale = call.result(3), doffset = call.result(4);
    if (!scale.has(d->in) || !offset.has(d->in) || !dscale.has(d->in) || !doffset.has(d->in)) return false;
    a.scale = scale.data, a.offset = offset.data, g.dscale = dscale.data, g.doffset = doffset.data;
  }
  if (given == 6) {
    if (!call.argument(5).same_shape(x)) return false;
    a.add = call.argument(5).data;
  }
  dense_gradient_f32(*d, a, g, call.parallel());
  return true;
}

// Weights packed for the matrix unit take 6 bytes each, their gradient 4: with a block of rows they are to stay in 2 MiB.
constexpr int64_t kMaxWeights = int64_t{192} * 768;

bool takes(const ir::Composite& composite, const Types& operands, const Devices& devices) {
  if (devices.mesh || !all_f32(operands)) return false;
  const bool forward = composite.name() == "dense";
  if (!forward && composite.name() != "dense_backward") return false;
  return element_count(operands[forward ? 1 : 2].dims) <= kMaxWeights;
}

constexpr Function kForward{"dense", dense}, kBackward{"dense_backward", dense_backward};
constexpr Entry kFunctions[] = {kEntry<kForward>, kEntry<kBackward>};

}  // namespace

constinit const Kernel kDense{.functions = kFunctions, .available = product_f32_available, .takes = takes};

}  // namespace tessera::host
