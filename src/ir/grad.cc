#include "ir/grad.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "ir/op_entries.h"
#include "ir/ops.h"

namespace tessera::ir {
namespace {

// Nodes of the graph through which `wrt` reaches later values, by id.
std::vector<char> depends_on(const Graph& graph, const Values& wrt) {
  std::vector<char> active(graph.nodes().size(), 0);
  std::map<Value, bool> is_wrt;
  for (const Value w : wrt) is_wrt[w] = true;
  for (const auto& node : graph.nodes()) {
    for (const Value v : node->operands) {
      if (active[static_cast<size_t>(v.node->id)] || is_wrt.contains(v)) active[static_cast<size_t>(node->id)] = 1;
    }
  }
  return active;
}

bool is_zero(Value x) {
  return x.node->op == &kOpConstant &&
         std::ranges::all_of(x.node->attr<Literal>("value").bytes, [](std::byte b) { return b == std::byte{0}; });
}

// What a slice's cotangent is in the whole: `part` at [first, last) of the first dimension, with zeros around it.
struct InStack {
  Value part;
  int64_t first, last;
};
std::optional<InStack> in_stack(Value ct) {
  if (ct.node->op != &kOpPad || !is_zero(ct.node->operands[1])) return std::nullopt;
  const Dims &low = ct.node->attr<Dims>("edge_padding_low"), &high = ct.node->attr<Dims>("edge_padding_high");
  const auto zero = [](const Dims& dims, size_t from) {
    return std::all_of(dims.begin() + from, dims.end(), [](int64_t n) { return n == 0; });
  };
  if (!zero(low, 1) || !zero(high, 1) || !zero(ct.node->attr<Dims>("interior_padding"), 0)) return std::nullopt;
  return InStack{ct.node->operands[0], low[0], ct.dim(0) - high[0]};
}

// Cotangents of slices that lie side by side in a stack are joined: no zeros are added to them.
Value sum_of(Value a, Value b) {
  const std::optional<InStack> x = in_stack(a), y = in_stack(b);
  if (x && y) {
    const auto& [first, second] = x->first < y->first ? std::pair(*x, *y) : std::pair(*y, *x);
    if (first.first == 0 && first.last == second.first && second.last == a.dim(0))
      return concatenate({first.part, second.part}, 0);
  }
  return a + b;
}

class Cotangents {
 public:
  void add(Value value, Value ct) {
    if (!ct) return;
    TESSERA_CHECK(ct.type() == value.type(), "a cotangent of type {} for a value of type {} ({})", to_string(ct.type()),
                  to_string(value.type()), describe(*value.node));
    Value& slot = map_[value];
    slot = slot ? sum_of(slot, ct) : ct;
  }
  Value of(Value value) const {
    const auto it = map_.find(value);
    return it == map_.end() ? Value{} : it->second;
  }

 private:
  std::map<Value, Value> map_;
};

}  // namespace

Values vjp(const Values& outputs, const Values& cotangents, const Values& wrt) {
  Graph& graph = current_graph();
  TESSERA_CHECK(outputs.size() == cotangents.size());
  for (const Value v : wrt) TESSERA_CHECK(v.node->graph == &graph, "a gradient with respect to a value of another graph");
  const std::vector<char> active = depends_on(graph, wrt);
  const auto is_active = [&](Value v) {
    return static_cast<size_t>(v.node->id) < active.size() && active[static_cast<size_t>(v.node->id)];
  };
  std::map<Value, bool> is_wrt;
  for (const Value w : wrt) is_wrt[w] = true;

  Cotangents ct;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] && cotangents[i] && outputs[i].node->graph == &graph) ct.add(outputs[i], cotangents[i]);
  }
  for (size_t id = active.size(); id-- > 0;) {
    if (!active[id]) continue;
    Node& node = *graph.nodes()[id];
    Values node_ct;
    bool any = false;
    for (int i = 0; i < static_cast<int>(node.types.size()); ++i) {
      node_ct.push_back(ct.of(node.result(i)));
      any = any || node_ct.back();
    }
    if (!any) continue;
    const Values operands = node.operands;
    std::vector<bool> wanted;
    for (const Value v : operands) wanted.push_back(is_float(v.dtype()) && (is_active(v) || is_wrt.contains(v)));
    const NameScope scope = NameScope::gradient_of(node);
    const Values operand_ct = node.op->vjp({node, node_ct, wanted});
    TESSERA_CHECK(operand_ct.size() >= operands.size() || operand_ct.empty(), "`{}` gave {} cotangents for {} operands",
                  node.op->name, operand_ct.size(), operands.size());
    for (size_t i = 0; i < operand_ct.size() && i < operands.size(); ++i) {
      if (wanted[i]) ct.add(operands[i], operand_ct[i]);
    }
  }
  Values out;
  for (const Value w : wrt) out.push_back(ct.of(w));
  return out;
}

Values gradient(Value loss, const Values& wrt) {
  if (!loss.dims().empty() || !is_float(loss.dtype())) {
    throw usage_error(fmt::format("the gradient needs a float scalar, not {}", to_string(loss.type())), current_scope());
  }
  Values grads = vjp({loss}, {ones_like(loss)}, wrt);
  for (size_t i = 0; i < wrt.size(); ++i) {
    if (!grads[i]) grads[i] = zeros_like(wrt[i]);
  }
  return grads;
}

}  // namespace tessera::ir
