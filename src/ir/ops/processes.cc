// Sums and rows over processes.

#include "ir/processes.h"

#include "ir/manual.h"
#include "ir/ops/support.h"

namespace tessera::ir {
namespace {

using Types = std::vector<TensorType>;

Types sum_types(const Node& n) {
  Types types;
  for (const Value x : n.operands) {
    require(n, x.dtype() == DType::kF32, "sums over processes are of f32");
    types.push_back(x.type());
  }
  return types;
}

int64_t count_of(const Node& n) { return n.attr<int64_t>("_processes"); }

// `on_device`: in a computation of one device (ir/manual.h), whose own parts the arrays are.
Values sum_node(int64_t count, const Values& xs, bool on_device = false) {
  Node* node = make_node(kOpSumOverProcesses, xs, {{"_processes", count}, {"_on_device", on_device}});
  Values out;
  for (size_t i = 0; i < xs.size(); ++i) out.push_back(node->result(static_cast<int>(i)));
  return out;
}

Values vjp_sum(const VjpArgs& a) {
  Values ct;
  for (size_t i = 0; i < a.ct.size(); ++i) ct.push_back(a.ct[i] ? a.ct[i] : zeros_like(a.y(i)));
  return sum_node(count_of(a.node), ct);
}

// Operands: the rows, the process.
Types gathered_types(const Node& n) {
  require(n, n.operands.size() == 2 && n.operands[0].rank() > 0, "rows of processes have a first dimension");
  TensorType type = n.operands[0].type();
  type.dims[0] *= count_of(n);
  return {type};
}

Values vjp_gather_over_processes(const VjpArgs& a) {
  const Processes processes{count_of(a.node), a.x(1)};
  if (!is_float(a.x(0).dtype()) || !a.ct[0]) return {{}, {}};
  const Value total = sum_over_processes(processes, convert(a.ct[0], DType::kF32));
  return {convert(rows_of_process(processes, total), a.x(0).dtype()), {}};
}

}  // namespace

constinit const OpDef kOpSumOverProcesses("tessera.sum_over_processes", sum_types, vjp_sum);
constinit const OpDef kOpGatherOverProcesses("tessera.gather_over_processes", gathered_types, vjp_gather_over_processes);

Values sum_over_processes(const Processes& processes, const Values& xs) {
  return processes.several() && !xs.empty() ? sum_node(processes.count, xs) : xs;
}
Values sum_over_processes(const Processes& processes, const Values& xs, const mesh::Mesh& mesh,
                          const std::vector<mesh::PartitionSpec>& specs) {
  if (!processes.several() || xs.empty()) return xs;
  return shard_map_at(mesh, xs, specs, [&](const Values& parts) { return sum_node(processes.count, parts, true); });
}
Value sum_over_processes(const Processes& processes, Value x) { return sum_over_processes(processes, Values{x})[0]; }

Value gather_over_processes(const Processes& processes, Value x) {
  if (!processes.several()) return x;
  return make_node(kOpGatherOverProcesses, {x, processes.index}, {{"_processes", processes.count}, {"_on_device", false}})
      ->result();
}

Value rows_of_process(const Processes& processes, Value x) {
  if (!processes.several()) return x;
  Dims sizes = x.dims();
  sizes[0] /= processes.count;
  Values starts(sizes.size(), constant(0, DType::kI32));
  starts[0] = processes.index * constant(static_cast<double>(sizes[0]), DType::kI32);
  return dynamic_slice(x, starts, sizes);
}

Value first_row(const Processes& processes, int64_t rows) {
  if (!processes.several()) return {};
  return convert(processes.index, DType::kU32) * constant(static_cast<double>(rows), DType::kU32);
}

}  // namespace tessera::ir
