#include "ir/graph.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "ir/op_entries.h"

namespace tessera::ir {
namespace {

thread_local Graph* t_current = nullptr;
thread_local std::shared_ptr<const std::string> t_scope = std::make_shared<const std::string>();

}  // namespace

const TensorType& Value::type() const {
  TESSERA_CHECK(node != nullptr, "type of a value that is none");
  return node->types.at(static_cast<size_t>(index));
}

int64_t Value::dim(int64_t axis) const {
  const Dims& d = dims();
  const int64_t rank = static_cast<int64_t>(d.size());
  TESSERA_CHECK(axis >= -rank && axis < rank, "axis {} of {}", axis, to_string(d));
  return d[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
}

namespace {

// Beyond it sizes in bytes, and sums of them, might not be numbers any more. No machine has a thousandth of it.
constexpr int64_t kMaxBytes = int64_t{1} << 56;

void expect_possible(const Node& node, const TensorType& type) {
  int64_t bytes = element_bytes(type.dtype);
  for (const int64_t size : type.dims) {
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes) || bytes > kMaxBytes)
      fail_op(node, fmt::format("gives {}, which is larger than any machine's memory", to_string(type)));
  }
}

}  // namespace

// ---- Graph

Node* Graph::add_node(const OpDef& op, Values operands, Attrs attrs, std::vector<std::unique_ptr<Graph>> regions) {
  auto node = std::make_unique<Node>();
  node->op = &op;
  node->graph = this;
  node->id = next_id_++;
  node->operands = std::move(operands);
  node->attrs = std::move(attrs);
  node->regions = std::move(regions);
  node->scope = t_scope;
  nodes_.push_back(std::move(node));
  return nodes_.back().get();
}

Value Graph::add_parameter(TensorType type, std::string name) {
  Node* node = add_node(kOpParameter, {}, {}, {});
  expect_possible(*node, type);
  node->types = {std::move(type)};
  if (!name.empty()) node->attrs["_name"] = std::move(name);
  parameters_.push_back(node->result());
  return node->result();
}

Value Graph::adopt(Value value) {
  if (!value || value.node->graph == this) return value;
  TESSERA_CHECK(parent_ != nullptr, "{} belongs to a graph that does not enclose this one", describe(*value.node));
  const Value outer = parent_->adopt(value);
  for (const auto& [from, inner] : captures) {
    if (from == outer) return inner;
  }
  const Value inner = add_parameter(outer.type());
  captures.emplace_back(outer, inner);
  return inner;
}

Value Graph::slice_of(Value stacked) {
  TESSERA_CHECK(scan_length > 0, "slice_of outside the body of a scan");
  const Value outer = parent_->adopt(stacked);
  for (const auto& [from, inner] : slices) {
    if (from == outer) return inner;
  }
  const TensorType& type = outer.type();
  TESSERA_CHECK(type.rank() >= 1 && type.dims[0] == scan_length, "a scan of length {} over {}", scan_length, to_string(type));
  const Value inner = add_parameter({type.dtype, Dims(type.dims.begin() + 1, type.dims.end())});
  slices.emplace_back(outer, inner);
  return inner;
}

void Graph::replace_uses(Value from, Value to) {
  for (const auto& node : nodes_) std::replace(node->operands.begin(), node->operands.end(), from, to);
  std::replace(results.begin(), results.end(), from, to);
}

Graph& current_graph() {
  TESSERA_CHECK(t_current != nullptr, "an op outside any GraphScope");
  return *t_current;
}

GraphScope::GraphScope(Graph& graph) : previous_(t_current) { t_current = &graph; }
GraphScope::~GraphScope() { t_current = previous_; }

NameScope::NameScope(std::string_view name)
    : NameScope(
          std::make_shared<const std::string>(t_scope->empty() ? std::string(name) : *t_scope + "/" + std::string(name))) {}
NameScope::NameScope(std::shared_ptr<const std::string> scope) : previous_(std::exchange(t_scope, std::move(scope))) {}
NameScope NameScope::gradient_of(const Node& node) {
  constexpr std::string_view kGradient = "gradient/";
  if (node.scope->empty() || node.scope->starts_with(kGradient)) return of(node);
  return NameScope(std::make_shared<const std::string>(std::string(kGradient) + *node.scope));
}
NameScope::~NameScope() { t_scope = previous_; }
std::string current_scope() { return *t_scope; }

std::string parameter_name(Value parameter) {
  return parameter.node->has_attr("_name") ? parameter.node->attr<std::string>("_name") : std::string();
}

// ---- nodes

Values no_gradient(const VjpArgs& a) { return Values(a.node.operands.size()); }

Values refuse_gradient(const VjpArgs& a) {
  throw usage_error(fmt::format("`{}` has no reverse-mode gradient", a.node.op->name), describe(a.node),
                    "write the loop as a scan, whose length is known, or wrap the part in stop_gradient or custom_gradient");
}

std::span<const OpDef* const> op_table() {
  static constexpr const OpDef* kTable[] = {
#define OP(name) &kOp##name,
#include "ir/ops.def"
#undef OP
  };
  return kTable;
}

std::string describe(const Node& node) {
  std::string operands;
  for (const Value v : node.operands) operands += fmt::format("{}{}", operands.empty() ? "" : ", ", to_string(v.type()));
  return fmt::format("`{}` of ({}){}{}", node.op->name, operands, node.scope->empty() ? "" : " in ", *node.scope);
}

void fail_op(const Node& node, const std::string& message) { throw usage_error(message, describe(node)); }

Node* make_node(const OpDef& op, Values operands, Attrs attrs, std::vector<std::unique_ptr<Graph>> regions) {
  Graph& graph = current_graph();
  for (Value& v : operands) {
    TESSERA_CHECK(v.node != nullptr, "`{}` got no value in {}", op.name, current_scope());
    v = graph.adopt(v);
  }
  Node* node = graph.add_node(op, std::move(operands), std::move(attrs), std::move(regions));
  node->types = op.infer(*node);
  for (const TensorType& type : node->types) expect_possible(*node, type);
  return node;
}

std::vector<Node*> reachable_nodes(const Graph& graph) {
  std::set<Node*> seen;
  std::vector<Node*> stack;
  for (const Value v : graph.results) {
    if (v && seen.insert(v.node).second) stack.push_back(v.node);
  }
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    for (const Value v : node->operands) {
      if (seen.insert(v.node).second) stack.push_back(v.node);
    }
  }
  std::vector<Node*> nodes(seen.begin(), seen.end());
  std::sort(nodes.begin(), nodes.end(), [](const Node* a, const Node* b) { return a->id < b->id; });
  return nodes;
}

std::unique_ptr<Graph> clone_graph(const Graph& graph, Graph* parent) {
  auto copy = std::make_unique<Graph>(parent);
  copy->scan_length = graph.scan_length;
  Values arguments;
  for (const Value p : graph.parameters()) arguments.push_back(copy->add_parameter(p.type()));
  const GraphScope scope(*copy);
  copy->results = inline_graph(graph, arguments);
  return copy;
}

Values inline_graph(const Graph& body, const Values& arguments, std::map<Value, Value>* map_out) {
  TESSERA_CHECK(arguments.size() == body.parameters().size());
  std::map<Value, Value> map;
  for (size_t i = 0; i < arguments.size(); ++i) map[body.parameters()[i]] = arguments[i];
  Graph& target = current_graph();
  for (Node* node : reachable_nodes(body)) {
    if (node->op == &kOpParameter) {
      TESSERA_CHECK(map.contains(node->result()), "a parameter that the graph does not list");
      continue;
    }
    Values operands;
    for (const Value v : node->operands) operands.push_back(target.adopt(map.at(v)));
    std::vector<std::unique_ptr<Graph>> regions;
    for (const auto& region : node->regions) regions.push_back(clone_graph(*region, &target));
    Node* copy = target.add_node(*node->op, std::move(operands), node->attrs, std::move(regions));
    copy->types = node->types;
    copy->scope = node->scope;
    for (int i = 0; i < static_cast<int>(node->types.size()); ++i) map[node->result(i)] = copy->result(i);
  }
  Values results;
  for (const Value v : body.results) results.push_back(map.at(v));
  if (map_out) *map_out = std::move(map);
  return results;
}

}  // namespace tessera::ir
