#include "host/product.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "host/call.h"
#include "host/cpu_level.h"
#include "host/kernel.h"
#include "host/tiles.h"
#include "ir/manual.h"
#include "ir/op_entries.h"
#include "ir/ops.h"

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tessera::host {
namespace {

constexpr int64_t kChunk = 512;        // of k: packed at a time
constexpr int64_t kPackPanels = 4;     // packed by a task
constexpr int64_t kGroupRows = 4;      // panels of the result that a task computes …
constexpr int64_t kGroupColumns = 12;  // … the right side kept in L2
constexpr int64_t kEnoughGroups = 8;   // where there are fewer, a group has fewer columns

int64_t divided_up(int64_t x, int64_t by) { return (x + by - 1) / by; }

// One product in phases: for each chunk of k its operands are packed, then it is added to the result.
class Phases {
 public:
  Phases(const Operand& a, const Operand& b, float* c) : a_(a), b_(b), c_(c), left_(panels(a.rows)), right_(panels(b.rows)) {
    groups_ = divided_up(left_, kGroupRows);
    const int64_t split = std::max(divided_up(right_, kGroupColumns), std::min(right_, divided_up(kEnoughGroups, groups_)));
    columns_ = divided_up(right_, split);
  }

  // `scratch` is of the calling thread and stays as it is until the phases are done.
  std::vector<Phase> list(Scratch& scratch) const {
    uint8_t* packed = scratch.get<uint8_t>((left_ + right_) * steps(std::min(kChunk, a_.k)) * kStepBytes);
    std::vector<Phase> phases;
    for (int64_t k = 0; k < a_.k; k += kChunk) {
      const int64_t count = steps(std::min(kChunk, a_.k - k));
      phases.push_back({divided_up(left_, kPackPanels) + divided_up(right_, kPackPanels),
                        [this, packed, k, count](int64_t task) { pack(task, k, count, packed); }});
      phases.push_back({groups_ * divided_up(right_, columns_),
                        [this, packed, k, count](int64_t task) { multiply(task, count, packed, k == 0); }});
    }
    return phases;
  }

 private:
  uint8_t* packed_right(uint8_t* packed, int64_t count) const { return packed + left_ * count * kStepBytes; }

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

  void multiply(int64_t task, int64_t count, uint8_t* packed, bool fresh) const {
    const int64_t row = task % groups_ * kGroupRows, column = task / groups_ * columns_;
    const Block block{row, std::min(left_, row + kGroupRows), column, std::min(right_, column + columns_)};
    multiply_block(block, packed, packed_right(packed, count), count, c_, a_.rows, b_.rows, fresh);
  }

  const Operand a_, b_;
  float* const c_;
  const int64_t left_, right_;  // panels
  int64_t groups_, columns_;    // groups of rows; panels of columns in a group
};

void serial(const std::vector<Phase>& phases) {
  for (const Phase& phase : phases) {
    for (int64_t task = 0; task < phase.count; ++task) phase.work(task);
  }
}

}  // namespace

void product_f32(const Product& x, const float* a, const float* b, float* c, const ParallelFor& parallel) {
  const auto one = [&](int64_t i, const ParallelFor& run) {
    thread_local Scratch scratch;
    const Operand left{a + i * x.m * x.k, x.m, x.k, x.a_transposed ? 1 : x.k, x.a_transposed ? x.m : 1};
    const Operand right{b + i * x.n * x.k, x.n, x.k, x.b_transposed ? x.k : 1, x.b_transposed ? 1 : x.n};
    const Phases phases(left, right, c + i * x.m * x.n);
    run(phases.list(scratch));
  };
  if (x.batch == 1) return one(0, parallel);
  parallel({{x.batch, [&](int64_t i) { one(i, serial); }}});
}

bool product_f32_available() {
#if defined(__x86_64__)
  static const bool available = [] {
    constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM of arch_prctl(2), XFEATURE_XTILEDATA
    unsigned a = 0, b = 0, c = 0, d = 0;
    __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(0));
    const bool amx = (d >> 22 & 1) != 0 && (d >> 24 & 1) != 0;
    return matrix_unit_allowed() && amx && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
           syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return available;
#else
  return false;  // No other processor has such a unit that this folder knows.
#endif
}

// ---- as a call

namespace {

using ir::Value;
using ir::Values;

bool product(const Call& call) {
  if (!call.has(2, 1)) return false;
  const auto a = call.argument(0), b = call.argument(1);
  const auto c = call.result(0);
  const auto p = call.attributes<Product>();
  if (!p || !a.has(p->batch * p->m * p->k) || !b.has(p->batch * p->k * p->n) || !c.has(p->batch * p->m * p->n)) return false;
  product_f32(*p, a.data, b.data, c.data, call.parallel());
  return true;
}

constexpr Function kFunction{"product", product};
constexpr Entry kFunctions[] = {kEntry<kFunction>};

// ---- in a graph
// Every f32 dot_general that is large enough to gain, and whose operands lie in memory as [batch…, rows…, contracted…] or
// [batch…, contracted…, rows…]: all that dense layers, attention and their gradients make. In a program for several devices
// those whose rows are the batch's (ir::rows_of_batch), each device multiplying its own: a call is opaque to the
// partitioner.

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
  if (lhs.dtype != DType::kF32 || rhs.dtype != DType::kF32 || result != DType::kF32) return std::nullopt;
  const auto a = sizes_of(lhs, dims.lhs_batch, dims.lhs_contract), b = sizes_of(rhs, dims.rhs_batch, dims.rhs_contract);
  if (!a || !b || a->batch * a->rows * a->contracted * b->rows < kWorthwhile) return std::nullopt;
  // The right side is [k, n] when it is not transposed: the mirror of the left.
  return Product{a->batch, a->rows, b->rows, a->contracted, a->transposed, !b->transposed};
}

Value call_product(const Product& product, const Values& operands, const Dims& result) {
  return ir::ffi_call(call_target(kFunction.name), operands, {{DType::kF32, result}}, ir::encode(product))[0];
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
    const Value y = call_product(*product, local, own.dims);
    return {summed ? ir::reshape(y, {1, own.dims[0], own.dims[1]}) : y};
  };
  const Value parts = ir::shard_map(*devices.mesh, operands, {0, summed ? 0 : ir::kWhole}, multiply)[0];
  return summed ? ir::sum(parts, {0}) : parts;
}

std::optional<Values> replace(const ir::Node& node, const Values& operands, Selection& selection) {
  if (node.op != &ir::kOpDotGeneral) return std::nullopt;
  if (selection.devices.mesh) {
    if (!node.has_attr("_rows_of_batch")) return std::nullopt;
    const std::optional<Value> parts = product_of_rows(node, operands, selection.devices);
    return parts ? std::optional(Values{*parts}) : std::nullopt;
  }
  const auto& dims = node.attr<ir::DotDims>("dot_dimension_numbers");
  const auto product = product_of(dims, operands[0].type(), operands[1].type(), node.types[0].dtype);
  return product ? std::optional(Values{call_product(*product, operands, node.types[0].dims)}) : std::nullopt;
}

}  // namespace

constinit const Kernel kProduct{.functions = kFunctions, .available = product_f32_available, .replace = replace};

}  // namespace tessera::host
