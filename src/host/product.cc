#include "host/product.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "host/call.h"
#include "host/kernel.h"
#include "host/units/rows.h"
#include "host/units/tiles.h"
#include "ir/attributes.h"
#include "ir/manual.h"
#include "ir/op_entries.h"
#include "ir/ops.h"

namespace tessera::host {
namespace {

void serial(const std::vector<Phase>& phases) {
  for (const Phase& phase : phases) {
    for (int64_t task = 0; task < phase.count; ++task) phase.work(task);
  }
}

// ---- on the vector units: the right side is packed, the left side is read where it lies

constexpr int64_t kPackedAtOnce = int64_t{8} << 20;  // bytes of the right side; of more, chunks of k are packed, of …
constexpr int64_t kPackedChunk = int64_t{2} << 20;   // … so many bytes
constexpr int64_t kLeftBytes = int64_t{128} << 10;   // of the left side that a task goes through again and again: in L2
constexpr int64_t kLeftChunk = 384;                  // of k, as far as that matters here
constexpr int64_t kEnoughTasks = 16;                 // of a phase
constexpr int64_t kPackPanels = 4;                   // of the right side, packed by a task …
constexpr int64_t kPackLeftPanels = 8;               // … and of the left side, which are narrower

// How much of k is packed at a time, for a right side with `columns` columns.
int64_t packed_at_once(const Unit& unit, int64_t columns, int64_t k) {
  if (unit.packed_bytes(columns, k) <= kPackedAtOnce) return k;
  const int64_t panels = unit.panels(columns);
  const int64_t steps = std::max<int64_t>(kPackedChunk / (panels * unit.step_bytes), divided_up(kLeftChunk, unit.step));
  return divided_up(k, divided_up(k, steps * unit.step) * unit.step) * unit.step;
}

}  // namespace

LeftSide::LeftSide(const Operand& operand)
    : rows(operand.rows),
      k(operand.k),
      block([operand](int64_t row, int64_t count, int64_t first, int64_t length, Scratch&) {
        return operand.part(row, count, first, length);
      }),
      whole(operand) {}

// Chunks of k, one after the other.
int64_t packed_operand_bytes(const Unit& unit, int64_t columns, int64_t k) {
  const int64_t chunk = packed_at_once(unit, columns, k);
  return k / chunk * unit.packed_bytes(columns, chunk) + unit.packed_bytes(columns, k % chunk);
}

Phase pack_operand(const Unit& unit, const Operand& b, uint8_t* to) {
  const int64_t chunk = packed_at_once(unit, b.rows, b.k), panels = unit.panels(b.rows);
  const int64_t tasks = divided_up(panels, kPackPanels);  // of a chunk
  return {divided_up(b.k, chunk) * tasks, [=, &unit](int64_t task) {
            const int64_t k = task / tasks * chunk, first = task % tasks * kPackPanels;
            unit.pack(b, first, std::min(panels, first + kPackPanels), k, unit.steps(std::min(chunk, b.k - k)),
                      to + k / chunk * unit.packed_bytes(b.rows, chunk));
          }};
}

ProductPhases::ProductPhases(const Unit& unit, LeftSide a, const RightSide& right, Destination c, Finish finish)
    : unit_(unit),
      a_(std::move(a)),
      b_(right.operand),
      packed_before_(right.packed),
      c_(c),
      finish_(std::move(finish)),
      chunk_(packed_at_once(unit, b_.rows, a_.k)) {
  const int64_t panels = unit.panels(b_.rows);
  const int64_t most = std::max(unit.rows, kLeftBytes / 4 / std::min(chunk_, kLeftChunk));
  group_rows_ = divided_up(divided_up(a_.rows, divided_up(a_.rows, most)), unit.rows) * unit.rows;
  row_groups_ = divided_up(a_.rows, group_rows_);
  group_panels_ = divided_up(panels, std::min(divided_up(panels, 2), divided_up(kEnoughTasks, row_groups_)));
  column_groups_ = divided_up(panels, group_panels_);
  packs_left_ = unit.pack_left && a_.whole && a_.whole->k_stride != 1 && column_groups_ > 1;
}

int64_t ProductPhases::left_panels() const { return packs_left_ ? divided_up(a_.rows, unit_.rows) : 0; }
int64_t ProductPhases::right_panels_to_pack() const { return packed_before_ ? 0 : unit_.panels(b_.rows); }
const uint8_t* ProductPhases::right_at(int64_t k) const {
  return packed_before_ ? packed_before_ + k / chunk_ * unit_.packed_bytes(b_.rows, chunk_) : packed_;
}

void ProductPhases::add_to(std::vector<Phase>& phases, Scratch& scratch) {
  const auto aligned = [](int64_t bytes) { return divided_up(bytes, Scratch::kAlign) * Scratch::kAlign; };
  const bool apart = c_.dtype != DType::kF32 && chunk_ < a_.k;
  const int64_t right = packed_before_ ? 0 : aligned(unit_.packed_bytes(b_.rows, chunk_));
  const int64_t left = packs_left_ ? aligned(unit_.packed_left_bytes(a_.rows, chunk_)) : 0;
  packed_ = scratch.get<uint8_t>(right + left + (apart ? a_.rows * b_.rows * static_cast<int64_t>(sizeof(float)) : 0));
  packed_left_ = packed_ + right;
  sums_ = apart ? reinterpret_cast<float*>(packed_left_ + left) : nullptr;
  for (int64_t k = 0; k < a_.k; k += chunk_) {
    const int64_t length = std::min(chunk_, a_.k - k);
    const int64_t packs = divided_up(right_panels_to_pack(), kPackPanels) + divided_up(left_panels(), kPackLeftPanels);
    phases.push_back({packs, [=, this](int64_t task) { pack(task, k, length); }});
    phases.push_back({row_groups_ * column_groups_, [=, this](int64_t task) { multiply(task, k, length); }});
  }
  if (!apart || finish_) return;
  phases.push_back({a_.rows, [this](int64_t row) {
                      narrow(sums_ + row * b_.rows, b_.rows, static_cast<uint16_t*>(c_.data) + row * b_.rows);
                    }});
}

void ProductPhases::pack(int64_t task, int64_t k, int64_t length) const {
  const int64_t right = right_panels_to_pack(), right_tasks = divided_up(right, kPackPanels);
  if (task < right_tasks) {
    const int64_t first = task * kPackPanels;
    unit_.pack(b_, first, std::min(right, first + kPackPanels), k, unit_.steps(length), packed_);
  } else {
    const int64_t first = (task - right_tasks) * kPackLeftPanels, last = std::min(left_panels(), first + kPackLeftPanels);
    unit_.pack_left(a_.whole->part(0, a_.rows, k, length), first, last, packed_left_);
  }
}

float* ProductPhases::sums_at(int64_t row, int64_t column) const {
  return (sums_ ? sums_ : static_cast<float*>(c_.data)) + row * b_.rows + column;
}

void ProductPhases::multiply(int64_t task, int64_t k, int64_t length) const {
  thread_local Scratch scratch, left_scratch;
  const int64_t row = task % row_groups_ * group_rows_, rows = std::min(group_rows_, a_.rows - row);
  const int64_t panel = task / row_groups_ * group_panels_, column = panel * unit_.panel;
  const Panels right = unit_.part(right_at(k), length, b_.rows, panel, group_panels_);
  const bool apart = c_.dtype != DType::kF32 && !sums_;
  float* sums = apart ? scratch.get<float>(rows * right.columns) : sums_at(row, column);
  const int64_t stride = apart ? right.columns : b_.rows;
  if (packs_left_) {
    unit_.multiply(unit_.packed_left(packed_left_, a_.rows, length).part(row, rows, 0, length), right, sums, stride, k == 0);
  } else {
    // Where numbers lie in memory the unit goes through k in chunks of its own.
    const int64_t most = a_.whole ? length : kLeftChunk;
    for (int64_t first = 0; first < length; first += most) {
      const Operand left = a_.block(row, rows, k + first, std::min(most, length - first), left_scratch);
      const Panels part{right.data + first / unit_.step * unit_.step_bytes, right.panel_bytes, right.columns};
      unit_.multiply(left, part, sums, stride, k + first == 0);
    }
  }
  if (finish_ && k + length == a_.k) finish_(row, rows, column, right.columns, sums, stride);
  if (!apart || finish_) return;
  for (int64_t i = 0; i < rows; ++i) {
    narrow(sums + i * stride, stride, static_cast<uint16_t*>(c_.data) + (row + i) * b_.rows + column);
  }
}

// ---- on the matrix unit: both sides are packed, by all threads together

namespace {

constexpr int64_t kChunk = 512;        // of k: packed at a time
constexpr int64_t kGroupRows = 4;      // panels of the result that a task computes …
constexpr int64_t kGroupColumns = 12;  // … the right side kept in L2
constexpr int64_t kEnoughGroups = 8;   // where there are fewer, a group has fewer columns

// One product in phases: for each chunk of k its operands are packed, then it is added to the result.
class TilePhases {
 public:
  // `packed`: b as pack_for_tiles() leaves it, or null.
  TilePhases(const Operand& a, const Operand& b, const uint8_t* packed, float* c)
      : a_(a), b_(b), packed_before_(packed), c_(c), left_(panels(a.rows)), right_(panels(b.rows)) {
    groups_ = divided_up(left_, kGroupRows);
    const int64_t split = std::max(divided_up(right_, kGroupColumns), std::min(right_, divided_up(kEnoughGroups, groups_)));
    columns_ = divided_up(right_, split);
  }

  // `scratch` is of the calling thread and stays as it is until the phases are done.
  std::vector<Phase> list(Scratch& scratch) const {
    uint8_t* packed = scratch.get<uint8_t>((left_ + right_to_pack()) * steps(std::min(kChunk, a_.k)) * kStepBytes);
    std::vector<Phase> phases;
    for (int64_t k = 0; k < a_.k; k += kChunk) {
      const int64_t count = steps(std::min(kChunk, a_.k - k));
      phases.push_back({divided_up(left_, kPackPanels) + divided_up(right_to_pack(), kPackPanels),
                        [this, packed, k, count](int64_t task) { pack(task, k, count, packed); }});
      phases.push_back({groups_ * divided_up(right_, columns_), [this, packed, k, count](int64_t task) {
                          multiply(task, count, packed, right_at(packed, k), k == 0);
                        }});
    }
    return phases;
  }

 private:
  int64_t right_to_pack() const { return packed_before_ ? 0 : right_; }
  uint8_t* packed_right(uint8_t* packed, int64_t count) const { return packed + left_ * count * kStepBytes; }
  const uint8_t* right_at(uint8_t* packed, int64_t k) const {
    if (packed_before_) return packed_before_ + right_ * steps(k) * kStepBytes;
    return packed_right(packed, steps(std::min(kChunk, a_.k - k)));
  }

  void pack(int64_t task, int64_t k, int64_t count, uint8_t* packed) const {
    const int64_t left_tasks = divided_up(left_, kPackPanels);
    const auto end = [](int64_t first, int64_t all) { return std::min(all, first + kPackPanels); };
    if (task < left_tasks) {
      const int64_t first = task * kPackPanels;
      pack_panels(a_, Side::kLeft, first, end(first, left_), k, count, packed);
    } else {
      const int64_t first = (task - left_tasks) * kPackPanels;
      pack_panels(b_, Side::kRight, first, end(first, right_), k, count, packed_right(packed, count));
    }
  }

  void multiply(int64_t task, int64_t count, const uint8_t* left, const uint8_t* right, bool fresh) const {
    const int64_t row = task % groups_ * kGroupRows, column = task / groups_ * columns_;
    const Block block{row, std::min(left_, row + kGroupRows), column, std::min(right_, column + columns_)};
    multiply_block(block, left, right, count, c_, b_.rows, a_.rows, b_.rows, fresh);
  }

  const Operand a_, b_;
  const uint8_t* const packed_before_;
  float* const c_;
  const int64_t left_, right_;  // panels
  int64_t groups_, columns_;    // groups of rows; panels of columns in a group
};

// Products of f32 on the matrix unit have a schedule of their own.
bool takes_tiles(const Unit& unit, DType dtype) { return dtype == DType::kF32 && tiles_available() && &unit == &tile_unit(); }

// The right side in the order of TilePhases: chunk by chunk of k.
Phase pack_for_tiles(const Operand& b, uint8_t* to) {
  const int64_t all = panels(b.rows), tasks = divided_up(all, kPackPanels);  // of a chunk
  return {divided_up(b.k, kChunk) * tasks, [=](int64_t task) {
            const int64_t k = task / tasks * kChunk, first = task % tasks * kPackPanels;
            pack_panels(b, Side::kRight, first, std::min(all, first + kPackPanels), k, steps(std::min(kChunk, b.k - k)),
                        to + all * steps(k) * kStepBytes);
          }};
}

Operand right_operand(const Product& x, Source b) {
  return {b.data, b.dtype, x.n, x.k, x.b_transposed ? x.k : 1, x.b_transposed ? 1 : x.n};
}

}  // namespace

int64_t packed_right_bytes(const Unit& unit, const Product& product, DType dtype) {
  return takes_tiles(unit, dtype) ? packed_bytes(product.n, product.k) : packed_operand_bytes(unit, product.n, product.k);
}

void pack_right(const Unit& unit, const Product& product, Source b, uint8_t* to, const ParallelFor& parallel) {
  const Operand right = right_operand(product, b);
  parallel({takes_tiles(unit, b.dtype) ? pack_for_tiles(right, to) : pack_operand(unit, right, to)});
}

void multiply_on(const Unit& unit, const Product& x, Source a, Source b, Destination c, const ParallelFor& parallel) {
  const auto* packed = b.packed ? static_cast<const uint8_t*>(b.data) : nullptr;
  const auto one = [&](int64_t i, const ParallelFor& run) {
    CallScratch scratch;
    const Operand left = Operand{a.data, a.dtype, x.m, x.k, x.a_transposed ? 1 : x.k, x.a_transposed ? x.m : 1}.matrix(i);
    const Operand right = right_operand(x, b).matrix(i);
    const Destination to{static_cast<uint8_t*>(c.data) + i * x.m * x.n * element_bytes(c.dtype), c.dtype};
    const bool f32 = a.dtype == b.dtype && c.dtype == DType::kF32;
    if (f32 && takes_tiles(unit, a.dtype)) {
      const TilePhases phases(left, right, packed, static_cast<float*>(to.data));
      return run(phases.list(scratch));
    }
    ProductPhases product(unit, left, {right, packed}, to);
    std::vector<Phase> phases;
    product.add_to(phases, scratch);
    run(phases);
  };
  if (x.batch == 1) return one(0, parallel);
  parallel({{x.batch, [&](int64_t i) { one(i, serial); }}});
}

void multiply(const Product& product, Source a, Source b, Destination c, const ParallelFor& parallel) {
  multiply_on(unit_for(a.dtype), product, a, b, c, parallel);
}

// ---- as a call

namespace {

using ir::Value;
using ir::Values;

bool product(const Call& call) {
  if (!call.has_floats(2, 1, kRightOperand)) return false;
  const auto a = call.floats(0), b = call.floats(kRightOperand);
  const auto c = call.float_result(0);
  const auto p = call.attributes<Product>();
  if (!p || !a.has(p->batch * p->m * p->k) || !c.has(p->batch * p->m * p->n)) return false;
  const bool packed = b.dtype == DType::kU8;
  if (!b.has(packed ? packed_right_bytes(unit_for(a.dtype), *p, a.dtype) : p->batch * p->k * p->n)) return false;
  multiply(*p, {a.data, a.dtype}, {b.data, packed ? a.dtype : b.dtype, packed}, {c.data, c.dtype}, call.parallel());
  return true;
}

// (b) -> b, packed.
bool product_weights(const Call& call) {
  const auto pack = call.packed();
  const auto p = call.attributes<Product>();
  if (!pack || !p || p->batch != 1 || !pack->from.has(p->k * p->n)) return false;
  const Unit& unit = unit_for(pack->from.dtype);
  if (pack->bytes != packed_right_bytes(unit, *p, pack->from.dtype)) return false;
  pack_right(unit, *p, {pack->from.data, pack->from.dtype}, pack->to, call.parallel());
  return true;
}

constexpr Function kFunction{"product", product}, kWeights{"product_weights", product_weights};
constexpr Entry kFunctions[] = {kEntry<kFunction>, kEntry<kWeights>};

std::optional<Packing> packing_of(const ir::Node& call) {
  const auto p = ir::decode<Product>(ir::call_attributes(call));
  const DType dtype = call.operands[kRightOperand].dtype();
  if (p.batch != 1 || call.operands[0].dtype() != dtype) return std::nullopt;
  return Packing{kWeights.name, ir::encode(p), packed_right_bytes(unit_for(dtype), p, dtype)};
}
constexpr Preparation kPreparations[] = {{kFunction.name, packing_of}};

// ---- in a graph
// Every dot_general of f32 or bf16 that is large enough to gain, and whose operands lie in memory as [batch…, rows…, contracted…] or
// [batch…, contracted…, rows…]: all that dense layers, attention and their gradients make. Where devices or processes share the
// batch, those whose rows are the batch's (ir::rows_of_batch), each multiplying its own: a call is opaque to the partitioner.

// Multiply-adds below which a call, its packing and its threads cost more than they save (measured: bench_step, digits).
constexpr int64_t kWorthwhile = int64_t{1} << 20;

struct Sizes {
  int64_t batch = 1, rows = 1, contracted = 1;
  bool transposed = false;  // [batch, contracted, rows]
};

// `self_batch` and `contract` are an operand's lists of dot_general. Nothing when memory has another order.
std::optional<Sizes> sizes_of(const TensorType& type, const Dims& self_batch, const Dims& contract) {
  const auto batch = static_cast<int64_t>(self_batch.size()), contracted = static_cast<int64_t>(contract.size());
  for (int64_t i = 0; i < batch; ++i) {
    if (self_batch[static_cast<size_t>(i)] != i) return std::nullopt;
  }
  if (contracted == 0) return std::nullopt;
  const int64_t rank = type.rank(), first = contract[0];
  for (int64_t i = 0; i < contracted; ++i) {
    if (contract[static_cast<size_t>(i)] != first + i) return std::nullopt;
  }
  if (first != batch && first + contracted != rank) return std::nullopt;
  Sizes sizes;
  sizes.transposed = first == batch && first + contracted != rank;
  for (int64_t i = 0; i < rank; ++i) {
    (i < batch                              ? sizes.batch
     : i >= first && i < first + contracted ? sizes.contracted
                                            : sizes.rows) *= type.dims[static_cast<size_t>(i)];
  }
  return sizes;
}

// What a call of a product of operands of these types would be; nothing where it is left to the compiler.
std::optional<Product> product_of(const ir::DotDims& dims, const TensorType& lhs, const TensorType& rhs, DType result) {
  const bool narrow = lhs.dtype == DType::kBF16 && (result == DType::kF32 || result == DType::kBF16);
  if (lhs.dtype != rhs.dtype || !(narrow || (lhs.dtype == DType::kF32 && result == DType::kF32))) return std::nullopt;
  const auto a = sizes_of(lhs, dims.lhs_batch, dims.lhs_contract), b = sizes_of(rhs, dims.rhs_batch, dims.rhs_contract);
  if (!a || !b || a->batch * a->rows * a->contracted * b->rows < kWorthwhile) return std::nullopt;
  // The right side is [k, n] when it is not transposed: the mirror of the left.
  return Product{a->batch, a->rows, b->rows, a->contracted, a->transposed, !b->transposed};
}

Value call_product(const Product& product, const Values& operands, const TensorType& result) {
  return ir::ffi_call(call_target(kFunction.name), operands, {result}, ir::encode(product))[0];
}

// Each device multiplies its own rows. Where they are what is summed over, each has its rows' share of the result, and the
// shares are added up.
std::optional<Value> product_of_rows(const ir::Node& node, const Values& operands, const Devices& devices) {
  const auto& dims = node.attr<ir::DotDims>("dot_dimension_numbers");
  TensorType lhs = operands[0].type(), rhs = operands[1].type(), own = node.types[0];
  if (lhs.rank() != 2 || rhs.rank() != 2 || !devices.can_share(lhs.dims[0])) return std::nullopt;
  const bool summed = dims.lhs_contract == Dims{0};
  lhs.dims[0] /= devices.count();
  (summed ? rhs : own).dims[0] /= devices.count();
  const std::optional<Product> product = product_of(dims, lhs, rhs, own.dtype);
  if (!product) return std::nullopt;
  const auto multiply = [&](const Values& local) -> Values {
    const Value y = call_product(*product, local, own);
    return {summed ? ir::reshape(y, {1, own.dims[0], own.dims[1]}) : y};
  };
  if (!devices.mesh) return call_product(*product, operands, own);
  const Value parts = ir::shard_map(*devices.mesh, operands, {0, summed ? 0 : ir::kWhole}, multiply)[0];
  return summed ? ir::sum(parts, {0}) : parts;
}

std::optional<Values> replace(const ir::Node& node, const Values& operands, Selection& selection) {
  if (node.op != &ir::kOpDotGeneral) return std::nullopt;
  if (selection.devices.share_batch()) {
    if (!node.has_attr("_rows_of_batch")) return std::nullopt;
    const std::optional<Value> parts = product_of_rows(node, operands, selection.devices);
    return parts ? std::optional(Values{*parts}) : std::nullopt;
  }
  const auto& dims = node.attr<ir::DotDims>("dot_dimension_numbers");
  const auto product = product_of(dims, operands[0].type(), operands[1].type(), node.types[0].dtype);
  return product ? std::optional(Values{call_product(*product, operands, node.types[0])}) : std::nullopt;
}

}  // namespace

constinit const Kernel kProduct{.functions = kFunctions, .replace = replace, .preparations = kPreparations};

}  // namespace tessera::host
