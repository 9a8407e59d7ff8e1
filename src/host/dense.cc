#include "host/dense.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "host/call.h"
#include "host/kernel.h"
#include "host/product.h"
#include "host/units/floats.h"
#include "host/units/rows.h"
#include "host/units/scratch.h"
#include "host/units/tiles.h"
#include "ir/attributes.h"
#include "ir/manual.h"
#include "ir/ops.h"

namespace tessera::host {
namespace {

using ir::DenseInput;

constexpr int64_t kPackPanels = 4;                   // of the weights, packed by a task
constexpr int64_t kEnoughTasks = 16;                 // of rows
constexpr int64_t kBlockBytes = int64_t{256} << 10;  // of f32 that a task has in its cache at a time: in L2, beside as many
constexpr int64_t kBlockNumbers = 8192;              // of a few rows, in L1
constexpr int64_t kChunkRows = 128;                  // that the gradient takes at a time
constexpr int64_t kPartRows = 256;                   // at least, that a part of the sums over rows has …
constexpr int64_t kMaxParts = 16;                    // … and at most so many parts
constexpr int64_t kSumBlock = 4096;                  // numbers of the gradient that a task sums up

// Weights packed for the matrix unit take 6 bytes each, their gradient 4: with a block of rows they are to stay in 2 MiB.
constexpr int64_t kMaxCachedWeights = int64_t{192} * 768;

int64_t floats_of(int64_t bytes) { return divided_up(bytes, static_cast<int64_t>(sizeof(float))); }

// Memory handed out piece by piece, each aligned for the units.
class Arena {
 public:
  static int64_t padded(int64_t count) { return divided_up(count, kAlign) * kAlign; }
  explicit Arena(float* memory) : next_(memory) {}
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

Operand rows_of(const void* data, DType dtype, int64_t row, int64_t rows, int64_t width) {
  return {at(data, dtype, row * width), dtype, rows, width, width, 1};
}
// The transpose of `rows` rows: the sums over them are products.
Operand columns_of(const void* data, DType dtype, int64_t row, int64_t rows, int64_t width) {
  return {at(data, dtype, row * width), dtype, width, rows, 1, width};
}

// The layer's weights as the right side of its products, packed in a phase of its own.
struct PackedWeights {
  const Unit& unit;
  Operand operand;
  uint8_t* to = nullptr;
  const uint8_t* packed = nullptr;  // what is multiplied with: `to`, or what was packed before

  int64_t bytes() const { return unit.packed_bytes(operand.rows, operand.k); }
  // Where there is nothing packed yet, in memory of the calling thread.
  std::vector<Phase> packed_in(Scratch& scratch) {
    if (packed) return {};
    packed = to = scratch.get<uint8_t>(bytes());
    return {phase()};
  }
  Phase phase() const {
    return {divided_up(unit.panels(operand.rows), kPackPanels), [*this](int64_t task) {
              const int64_t first = task * kPackPanels, last = std::min(unit.panels(operand.rows), first + kPackPanels);
              unit.pack(operand, first, last, 0, unit.steps(operand.k), to);
            }};
  }
  Panels panels(int64_t first, int64_t count) const { return unit.part(packed, operand.k, operand.rows, first, count); }
  Panels panels() const { return panels(0, unit.panels(operand.rows)); }
};

Operand forward_weights(int64_t in, int64_t out, const float* kernel) { return {kernel, DType::kF32, out, in, 1, out}; }

// Rows that a task takes where each has so many numbers: a multiple of the unit's.
int64_t task_rows(const Unit& unit, int64_t rows, int64_t numbers) {
  const int64_t cached = kBlockBytes / 4 / numbers, spread = divided_up(rows, kEnoughTasks);
  return std::max<int64_t>(1, divided_up(std::min(cached, spread), unit.rows)) * unit.rows;
}

// ---- forward

class Forward {
 public:
  Forward(const Unit& unit, const Dense& layer, const DenseArguments& arguments, void* y)
      : unit_(unit), d_(layer), a_(arguments), y_(y) {
    rows_ = task_rows(unit, d_.rows, d_.in);
    // A unit that packs the left side itself does so once for all columns.
    column_panels_ = unit.pack_left ? std::max<int64_t>(1, kBlockBytes / 4 / (rows_ * unit.panel)) : unit.panels(d_.out);
  }

  // `scratch` is of the calling thread and stays as it is until the phases are done.
  std::vector<Phase> list(Scratch& scratch) {
    std::vector<Phase> phases = weights_.packed_in(scratch);
    phases.push_back({divided_up(d_.rows, rows_), [this](int64_t task) {
                        const int64_t row = task * rows_;
                        rows(row, std::min(rows_, d_.rows - row));
                      }});
    return phases;
  }

 private:
  void rows(int64_t row, int64_t rows) const {
    thread_local Scratch scratch;
    const int64_t numbers = Arena::padded(rows * d_.in), width = column_panels_ * unit_.panel;
    Arena arena(scratch.get<float>(2 * numbers + 2 * Arena::padded(rows) + Arena::padded(rows * width)));
    const Operand left = input(row, rows, arena);
    float* block = arena.take(rows * width);
    for (int64_t panel = 0; panel * unit_.panel < d_.out; panel += column_panels_) {
      const Panels right = weights_.panels(panel, column_panels_);
      const int64_t first = row * d_.out + panel * unit_.panel, stride = d_.dtype == DType::kF32 ? d_.out : width;
      float* sums = place(y_, d_.dtype, first, block);
      unit_.multiply(left, right, sums, stride, true);
      const float* bias = a_.bias + panel * unit_.panel;
      if (d_.dtype == DType::kBF16) {
        add_to_rows({rows, right.columns}, bias, sums, stride, a_.residual ? bf16_at(a_.residual, first) : nullptr,
                    bf16_at(y_, first), d_.out);
        continue;
      }
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = first + r * d_.out;
        add_to_rows({1, right.columns}, bias, a_.residual ? static_cast<const float*>(a_.residual) + at : nullptr,
                    sums + r * stride);
      }
    }
  }

  // f(x) of these rows, of the unit's dtype where it is not x itself.
  Operand input(int64_t row, int64_t rows, Arena& arena) const {
    if (d_.input == DenseInput::kPlain) return rows_of(a_.x, d_.dtype, row, rows, d_.in);
    const int64_t first = row * d_.in, count = rows * d_.in;
    const bool norm = d_.input == DenseInput::kNorm, narrows = unit_.dtype != DType::kF32;
    auto* narrowed = narrows ? reinterpret_cast<uint16_t*>(arena.take_bytes(count * 2)) : nullptr;
    if (narrows && !norm && d_.dtype == DType::kBF16) {
      gelu_of(bf16_at(a_.x, first), count, narrowed);
      return rows_of(narrowed, DType::kBF16, 0, rows, d_.in);
    }
    float *changed = arena.take(count), *mean = arena.take(rows), *inverse = arena.take(rows);
    const float* x = read(a_.x, d_.dtype, first, count, changed);
    if (norm) {
      norm_rows({rows, d_.in}, d_.epsilon, x, a_.scale, a_.offset, changed, mean, inverse);
    } else {
      gelu_of(x, count, changed);
    }
    if (!narrows) return rows_of(changed, DType::kF32, 0, rows, d_.in);
    narrow(changed, count, narrowed);
    return rows_of(narrowed, DType::kBF16, 0, rows, d_.in);
  }

  template <class Number>
  void gelu_of(const Number* x, int64_t count, Number* to) const {
    d_.input == DenseInput::kGelu ? gelu_numbers(x, count, to) : gelu_tanh_numbers(x, count, to);
  }

  const Unit& unit_;
  const Dense d_;
  const DenseArguments a_;
  void* const y_;
  PackedWeights weights_{unit_, forward_weights(d_.in, d_.out, a_.kernel), nullptr, a_.packed};
  int64_t rows_ = 0, column_panels_ = 0;
};

// ---- backward
// Each part of the rows gives its rows of dx and its sums over rows. Small weights' gradient is such a sum, taken while the rows
// are in the cache. That of others is a product of its own, of all rows of f(x) and dy.

// The first part's sums are the caller's arrays, the others stand one after the other in memory and are added at the end.
struct Sums {
  float *dkernel, *dbias, *dscale, *doffset;

  static int64_t count(const Dense& d, bool with_kernel) {
    return (with_kernel ? Arena::padded(d.in * d.out) : 0) + Arena::padded(d.out) + 2 * Arena::padded(d.in);
  }
  static Sums in(const Dense& d, bool with_kernel, float* memory) {
    Arena arena(memory);
    Sums sums{};
    if (with_kernel) sums.dkernel = arena.take(d.in * d.out);
    sums.dbias = arena.take(d.out);
    sums.dscale = arena.take(d.in);
    sums.doffset = arena.take(d.in);
    return sums;
  }
};

class Backward {
 public:
  Backward(const Unit& unit, const Dense& layer, const DenseGradientArguments& arguments, const DenseGradient& gradient)
      : unit_(unit), d_(layer), a_(arguments), g_(gradient), kernel_in_parts_(d_.in * d_.out <= kMaxCachedWeights) {
    if (kernel_in_parts_) {
      parts_ = std::clamp(d_.rows / kPartRows, int64_t{1}, kMaxParts);
      part_rows_ = divided_up(divided_up(d_.rows, parts_), unit.rows) * unit.rows;
      chunk_rows_ = std::min(kChunkRows / unit.rows * unit.rows, part_rows_);
    } else {
      part_rows_ = chunk_rows_ = task_rows(unit, d_.rows, d_.in);
    }
    parts_ = divided_up(d_.rows, part_rows_);
    block_rows_ = std::min(chunk_rows_, divided_up(kBlockNumbers, std::max(d_.in, d_.out)));
  }

  // The scratches are of the calling thread and stay as they are until the phases are done.
  std::vector<Phase> list(Scratch& scratch, Scratch& product_scratch) {
    const int64_t own_sums = (parts_ - 1) * Sums::count(d_, kernel_in_parts_);
    const int64_t kept = kernel_in_parts_ || !changes() ? 0 : d_.rows * d_.in * element_bytes(unit_.dtype);
    sums_ = scratch.get<float>(own_sums + Arena::padded(floats_of(weights_.bytes())) + Arena::padded(floats_of(kept)));
    Arena arena(sums_ + own_sums);
    weights_.packed = weights_.to = arena.take_bytes(weights_.bytes());
    changed_ = arena.take_bytes(kept);
    std::vector<Phase> phases = {weights_.phase(), {parts_, [this](int64_t part) { add_rows(part); }}};
    if (!kernel_in_parts_) {
      const Operand input = columns_of(changes() ? changed_ : a_.x, changes() ? unit_.dtype : d_.dtype, 0, d_.rows, d_.in);
      product_.emplace(unit_, input, columns_of(a_.dy, d_.dtype, 0, d_.rows, d_.out), Destination{g_.dkernel, DType::kF32});
      product_->add_to(phases, product_scratch);
    }
    phases.push_back({kernel_tasks() + 1, [this](int64_t task) { add_parts(task); }});
    return phases;
  }

 private:
  bool changes() const { return d_.input != DenseInput::kPlain; }
  int64_t kernel_tasks() const { return kernel_in_parts_ ? divided_up(d_.in * d_.out, kSumBlock) : 0; }

  Sums sums(int64_t part) const {
    if (part == 0) return {g_.dkernel, g_.dbias, g_.dscale, g_.doffset};
    return Sums::in(d_, kernel_in_parts_, sums_ + (part - 1) * Sums::count(d_, kernel_in_parts_));
  }

  void add_rows(int64_t part) const {
    const Sums to = sums(part);
    std::fill_n(to.dbias, d_.out, 0.0F);
    if (d_.input == DenseInput::kNorm) std::fill_n(to.dscale, d_.in, 0.0F), std::fill_n(to.doffset, d_.in, 0.0F);
    const int64_t first = part * part_rows_, last = std::min(d_.rows, first + part_rows_);
    for (int64_t row = first; row < last; row += chunk_rows_) chunk(row, std::min(chunk_rows_, last - row), row == first, to);
  }

  // A thread's memory for one chunk.
  struct Memory {
    uint8_t *changed = nullptr, *dy_right = nullptr;    // of the chunk
    float* dx;                                          // of the chunk, where it is rounded
    float *numbers, *slope, *x, *add, *mean, *inverse;  // of a block

    Memory(const Unit& unit, const Dense& d, int64_t rows, int64_t block, bool with_kernel) {
      thread_local Scratch scratch;
      const int64_t changed_bytes = with_kernel ? rows * d.in * element_bytes(unit.dtype) : 0;
      const int64_t right_bytes = with_kernel ? unit.packed_bytes(d.out, rows) : 0;
      const int64_t dx_numbers = d.dtype == DType::kF32 ? 0 : rows * d.in;
      Arena arena(scratch.get<float>(Arena::padded(floats_of(changed_bytes)) + Arena::padded(floats_of(right_bytes)) +
                                     Arena::padded(dx_numbers) + 4 * Arena::padded(block * d.in) + 2 * Arena::padded(block)));
      changed = arena.take_bytes(changed_bytes);
      dy_right = arena.take_bytes(right_bytes);
      dx = arena.take(dx_numbers);
      for (float** piece : {&numbers, &slope, &x, &add}) *piece = arena.take(block * d.in);
      mean = arena.take(block);
      inverse = arena.take(block);
    }
  };

  void chunk(int64_t row, int64_t rows, bool fresh, const Sums& sums) const {
    const Memory m(unit_, d_, chunk_rows_, block_rows_, kernel_in_parts_);
    const Operand dy = rows_of(a_.dy, d_.dtype, row, rows, d_.out);
    float* dx = place(g_.dx, d_.dtype, row * d_.in, m.dx);
    uint8_t* changed = kernel_in_parts_ ? m.changed : changed_ + row * d_.in * element_bytes(unit_.dtype);
    unit_.multiply(dy, weights_.panels(), dx, d_.in, true);
    for (int64_t r = 0; r < rows; r += block_rows_) {
      block(row + r, std::min(block_rows_, rows - r), m, dx + r * d_.in, at(changed, unit_.dtype, r * d_.in), sums);
    }
    if (!kernel_in_parts_) return;
    const Operand input =
        changes() ? columns_of(m.changed, unit_.dtype, 0, rows, d_.in) : columns_of(a_.x, d_.dtype, row, rows, d_.in);
    const int64_t panels = unit_.panels(d_.out);
    unit_.pack(columns_of(a_.dy, d_.dtype, row, rows, d_.out), 0, panels, 0, unit_.steps(rows), m.dy_right);
    unit_.multiply(input, unit_.part(m.dy_right, rows, d_.out, 0, panels), sums.dkernel, d_.out, fresh);
  }

  // A few rows: dx from the cotangent of f(x), f(x) in the unit's dtype to `changed`, and what is added to the sums.
  void block(int64_t row, int64_t rows, const Memory& m, float* dx, void* changed, const Sums& sums) const {
    const int64_t first = row * d_.in, count = rows * d_.in;
    if (d_.dtype == DType::kBF16) {
      add_column_sums({rows, d_.out}, bf16_at(a_.dy, row * d_.out), sums.dbias);
    } else {
      add_column_sums({rows, d_.out}, static_cast<const float*>(a_.dy) + row * d_.out, sums.dbias);
    }
    if (d_.input == DenseInput::kGelu || d_.input == DenseInput::kGeluTanh) return gelu_block(first, count, m, dx, changed);
    if (d_.input == DenseInput::kNorm) {
      const float* x = read(a_.x, d_.dtype, first, count, m.x);
      float* numbers = place(changed, unit_.dtype, 0, m.numbers);
      norm_rows({rows, d_.in}, d_.epsilon, x, a_.scale, a_.offset, numbers, m.mean, m.inverse);
      norm_gradient_rows({rows, d_.in}, x, a_.scale, m.mean, m.inverse,
                         a_.add ? read(a_.add, d_.dtype, first, count, m.add) : nullptr, dx, sums.dscale, sums.doffset);
      round(numbers, count, changed, unit_.dtype, 0);
    }
    round(dx, count, g_.dx, d_.dtype, first);
  }

  void gelu_block(int64_t first, int64_t count, const Memory& m, float* dx, void* changed) const {
    const auto gelu = [&](const auto* x, auto* to) {
      d_.input == DenseInput::kGelu ? gelu_numbers(x, count, to, m.slope) : gelu_tanh_numbers(x, count, to, m.slope);
    };
    if (d_.dtype == DType::kBF16 && unit_.dtype == DType::kBF16) {
      gelu(bf16_at(a_.x, first), static_cast<uint16_t*>(changed));
    } else {
      float* numbers = place(changed, unit_.dtype, 0, m.numbers);
      gelu(read(a_.x, d_.dtype, first, count, m.x), numbers);
      round(numbers, count, changed, unit_.dtype, 0);
    }
    if (d_.dtype == DType::kBF16) return multiply_numbers(dx, m.slope, count, bf16_at(g_.dx, first));
    multiply_numbers(m.slope, count, dx);
  }

  // A block of the kernel's gradient, or all that are vectors.
  void add_parts(int64_t task) const {
    const Sums to = sums(0);
    const int64_t first = task * kSumBlock, count = std::min(kSumBlock, d_.in * d_.out - first);
    for (int64_t part = 1; part < parts_; ++part) {
      const Sums more = sums(part);
      if (task < kernel_tasks()) {
        add_numbers(more.dkernel + first, count, to.dkernel + first);
        continue;
      }
      add_numbers(more.dbias, d_.out, to.dbias);
      if (d_.input == DenseInput::kNorm) {
        add_numbers(more.dscale, d_.in, to.dscale);
        add_numbers(more.doffset, d_.in, to.doffset);
      }
    }
  }

  const Unit& unit_;
  const Dense d_;
  const DenseGradientArguments a_;
  const DenseGradient g_;
  const bool kernel_in_parts_;
  int64_t parts_ = 0, part_rows_ = 0, chunk_rows_ = 0, block_rows_ = 0;
  float* sums_ = nullptr;
  uint8_t* changed_ = nullptr;  // f(x) of all rows, where the kernel's gradient is a product of its own
  PackedWeights weights_{unit_, {a_.kernel, DType::kF32, d_.in, d_.out, d_.out, 1}};
  std::optional<ProductPhases> product_;
};

}  // namespace

int64_t packed_dense_bytes(const Unit& unit, int64_t in, int64_t out) { return unit.packed_bytes(out, in); }

void pack_dense(const Unit& unit, int64_t in, int64_t out, const float* kernel, uint8_t* to, const ParallelFor& parallel) {
  parallel({PackedWeights{unit, forward_weights(in, out, kernel), to}.phase()});
}

void dense_on(const Unit& unit, const Dense& layer, const DenseArguments& arguments, void* y, const ParallelFor& parallel) {
  CallScratch scratch;
  Forward forward(unit, layer, arguments, y);
  parallel(forward.list(scratch));
}

void dense(const Dense& layer, const DenseArguments& arguments, void* y, const ParallelFor& parallel) {
  dense_on(unit_for(layer.dtype), layer, arguments, y, parallel);
}

void dense_gradient_on(const Unit& unit, const Dense& layer, const DenseGradientArguments& arguments,
                       const DenseGradient& gradient, const ParallelFor& parallel) {
  CallScratch scratch, product_scratch;
  Backward backward(unit, layer, arguments, gradient);
  parallel(backward.list(scratch, product_scratch));
}

void dense_gradient(const Dense& layer, const DenseGradientArguments& arguments, const DenseGradient& gradient,
                    const ParallelFor& parallel) {
  dense_gradient_on(unit_for(layer.dtype), layer, arguments, gradient, parallel);
}

// ---- as calls

namespace {

using ir::Values;

using Floats = CallArray<const void>;

// The layer of a call from x [rows, in] to `out` numbers of each row.
std::optional<Dense> dense_of(const Call& call, const Floats& x, int64_t out) {
  const auto layer = call.attributes<ir::DenseLayer>();
  const bool known = layer && layer->input >= DenseInput::kPlain && layer->input <= DenseInput::kGeluTanh;
  if (!known || x.rank() != 2) return std::nullopt;
  return Dense{x.dims[0], x.dims[1], out, layer->input, layer->epsilon, x.dtype};
}

bool is_kernel(const Floats& kernel, const Dense& d) {
  return kernel.dtype == DType::kF32 && std::ranges::equal(kernel.dims, std::array{d.in, d.out});
}

// (x, kernel, bias[, scale, offset][, residual]) -> y.
bool dense_call(const Call& call) {
  const size_t given = call.arguments();
  if (given < 3 || !call.has_floats(given, 1, kRightOperand)) return false;
  const auto x = call.floats(0), kernel = call.floats(kRightOperand), bias = call.floats(2);
  const auto y = call.float_result(0);
  if (y.rank() != 2) return false;
  const auto d = dense_of(call, x, y.dims[1]);
  const auto is_output = [&](const auto& array) { return array.dtype == x.dtype && array.has(d->rows * d->out); };
  if (!d || !bias.is_f32(d->out) || !is_output(y)) return false;
  const bool packed = kernel.dtype == DType::kU8;
  if (packed ? !kernel.has(packed_dense_bytes(unit_for(d->dtype), d->in, d->out)) : !is_kernel(kernel, *d)) return false;
  DenseArguments a{x.data, packed ? nullptr : f32(kernel), f32(bias)};
  if (packed) a.packed = static_cast<const uint8_t*>(kernel.data);
  size_t next = 3;
  if (d->input == DenseInput::kNorm) {
    if (given < 5 || !call.floats(3).is_f32(d->in) || !call.floats(4).is_f32(d->in)) return false;
    a.scale = f32(call.floats(3)), a.offset = f32(call.floats(4));
    next = 5;
  }
  if (next < given) {
    if (!is_output(call.floats(next))) return false;
    a.residual = call.floats(next++).data;
  }
  if (next != given) return false;
  dense(*d, a, y.data, call.parallel());
  return true;
}

// (dy, x, kernel[, scale, offset[, add]]) -> (dx, dkernel, dbias[, dscale, doffset]).
bool dense_backward(const Call& call) {
  const size_t given = call.arguments();
  if (given < 3 || given > 6 || !call.has_floats(given, given < 5 ? 3 : 5)) return false;
  const auto dy = call.floats(0), x = call.floats(1), kernel = call.floats(2);
  const auto dx = call.float_result(0), dkernel = call.float_result(1), dbias = call.float_result(2);
  if (kernel.rank() != 2) return false;
  const auto d = dense_of(call, x, kernel.dims[1]);
  if (!d || dy.dtype != x.dtype || !dy.has(d->rows * d->out) || !is_kernel(kernel, *d)) return false;
  if (!dx.same_type(x) || !dkernel.is_f32(d->in * d->out) || !dbias.is_f32(d->out)) return false;
  DenseGradientArguments a{dy.data, x.data, f32(kernel)};
  DenseGradient g{dx.data, f32(dkernel), f32(dbias)};
  const bool norm = d->input == DenseInput::kNorm;
  if (norm ? given < 5 : given != 3) return false;
  if (norm) {
    const auto scale = call.floats(3), offset = call.floats(4);
    const auto dscale = call.float_result(3), doffset = call.float_result(4);
    if (!scale.is_f32(d->in) || !offset.is_f32(d->in) || !dscale.is_f32(d->in) || !doffset.is_f32(d->in)) return false;
    a.scale = f32(scale), a.offset = f32(offset), g.dscale = f32(dscale), g.doffset = f32(doffset);
  }
  if (given == 6) {
    if (!call.floats(5).same_type(x)) return false;
    a.add = call.floats(5).data;
  }
  dense_gradient(*d, a, g, call.parallel());
  return true;
}

// Of a call that packs a layer's kernel.
struct KernelUse {
  bool bf16 = false;

  template <class Visitor>
  void visit(Visitor&& field) {
    field("bf16", bf16, "the layer's rows are bf16, else f32");
  }
  const Unit& unit() const { return unit_for(bf16 ? DType::kBF16 : DType::kF32); }
};

// (kernel) -> the kernel, packed.
bool dense_weights(const Call& call) {
  const auto pack = call.packed();
  const auto use = call.attributes<KernelUse>();
  if (!pack || !use || pack->from.dtype != DType::kF32 || pack->from.rank() != 2) return false;
  const int64_t in = pack->from.dims[0], out = pack->from.dims[1];
  if (pack->bytes != packed_dense_bytes(use->unit(), in, out)) return false;
  pack_dense(use->unit(), in, out, f32(pack->from), pack->to, call.parallel());
  return true;
}

// What has rows is of x's dtype, f32 or bf16, and the rest of f32. The matrix unit packs both sides of a product, in f32 three
// times each: large weights' products are left to `product`, which packs them once.
bool takes(const ir::Composite& composite, const Types& operands, const Devices& devices) {
  const bool forward = composite.name() == "dense";
  if (!forward && composite.name() != "dense_backward") return false;
  const size_t kernel = forward ? 1 : 2;
  if (!devices.can_share(operands[0].dims[0])) return false;
  const DType dtype = operands[0].dtype;
  if (dtype != DType::kF32 && dtype != DType::kBF16) return false;
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool has_rows = i != kernel && operands[i].rank() == 2;
    if (operands[i].dtype != (has_rows ? dtype : DType::kF32)) return false;
  }
  const bool on_tiles = tiles_available() && &unit_for(dtype) == &tile_unit();
  return !on_tiles || element_count(operands[kernel].dims) <= kMaxCachedWeights;
}

// On several devices each has its rows; the weights are whole, and of their gradient each has its rows' share.
Values call_dense(const ir::Composite& composite, const Values& operands, const Types& results, Selection& selection) {
  const Devices& devices = selection.devices;
  if (!devices.mesh) return call_function(composite, operands, results, selection);
  const size_t kernel = composite.name() == "dense" ? 1 : 2;
  std::vector<int64_t> split;
  for (size_t i = 0; i < operands.size(); ++i) split.push_back(i != kernel && operands[i].rank() == 2 ? 0 : ir::kWhole);
  Types own = results;
  own[0].dims[0] /= devices.count();
  const auto call = [&](const Values& local) {
    Values out = ir::ffi_call(call_target(composite.name()), local, own, composite.encoded());
    for (size_t i = 1; i < out.size(); ++i) {
      Dims part = own[i].dims;
      part.insert(part.begin(), 1);
      out[i] = ir::reshape(out[i], part);
    }
    return out;
  };
  Values out = ir::shard_map(*devices.mesh, operands, split, call);
  for (size_t i = 1; i < out.size(); ++i) out[i] = ir::sum(out[i], {0});
  return out;
}

constexpr Function kForward{"dense", dense_call}, kBackward{"dense_backward", dense_backward},
    kWeights{"dense_weights", dense_weights};
constexpr Entry kFunctions[] = {kEntry<kForward>, kEntry<kBackward>, kEntry<kWeights>};

std::optional<Packing> packing_of(const ir::Node& call) {
  const KernelUse use{call.operands[0].dtype() == DType::kBF16};
  const Dims& kernel = call.operands[kRightOperand].dims();
  return Packing{kWeights.name, ir::encode(use), packed_dense_bytes(use.unit(), kernel[0], kernel[1])};
}
constexpr Preparation kPreparations[] = {{kForward.name, packing_of}};

}  // namespace

constinit const Kernel kDense{.functions = kFunctions, .takes = takes, .call = call_dense, .preparations = kPreparations};

}  // namespace tessera::host
