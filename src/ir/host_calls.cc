#include "ir/host_calls.h"

#include <fmt/format.h>

#include <optional>

#include "ir/op_entries.h"

namespace tessera::ir {
namespace {

// Multiply-adds below which a call, its packing and its threads cost more than they save (measured: bench_step, digits).
constexpr int64_t kWorthwhile = int64_t{1} << 20;

// Bytes below which a call takes as long as writing zeros.
constexpr int64_t kLargeStack = int64_t{1} << 18;

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

void consider(Node& node, const std::string& target) {
  const TensorType &lhs = node.operands[0].type(), &rhs = node.operands[1].type();
  if (lhs.dtype != DType::kF32 || rhs.dtype != DType::kF32 || node.types[0].dtype != DType::kF32) return;
  const auto& dims = node.attr<DotDims>("dot_dimension_numbers");
  const auto a = sizes_of(lhs, dims.lhs_batch, dims.lhs_contract), b = sizes_of(rhs, dims.rhs_batch, dims.rhs_contract);
  if (!a || !b || !worth_a_call(a->batch * a->rows * a->contracted * b->rows)) return;
  node.op = &kOpCustomCall;
  // The right side is [k, n] when it is not transposed: the mirror of the left.
  node.attrs = custom_call_attrs(
      target, node.types,
      fmt::format("batch = {} : i64, m = {} : i64, n = {} : i64, k = {} : i64, a_transposed = {}, b_transposed = {}", a->batch,
                  a->rows, b->rows, a->contracted, a->transposed, !b->transposed));
}

// In `graph` and its regions; `next` numbers the calls, so that the compiler does not take two for the same array.
void leave_stacks(Graph& graph, const std::string& target, int64_t& next) {
  for (Node* node : reachable_nodes(graph)) {
    for (const auto& region : node->regions) leave_stacks(*region, target, next);
    if (node->op != &kOpConstant || !node->has_attr("_filled") || byte_count(node->types[0]) < kLargeStack) continue;
    node->op = &kOpCustomCall;
    node->attrs = custom_call_attrs(target, node->types, fmt::format("stack = {} : i64", next++));
  }
}

}  // namespace

void call_host_stacks(Graph& lowered, const std::string& target) {
  int64_t next = 0;
  leave_stacks(lowered, target, next);
}

bool worth_a_call(int64_t multiply_adds) { return multiply_adds >= kWorthwhile; }

void call_host_product(Graph& lowered, const std::string& target, bool several_devices) {
  for (Node* node : reachable_nodes(lowered)) {
    const bool partitioned = several_devices && node->op != &kOpManualComputation;
    for (const auto& region : node->regions) call_host_product(*region, target, partitioned);
    if (node->op == &kOpDotGeneral && !several_devices) consider(*node, target);
  }
}

}  // namespace tessera::ir
