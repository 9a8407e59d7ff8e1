#include "train/step/model_graph.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "ir/op_entries.h"
#include "nn/scope.h"

namespace tessera::train {
namespace {

class Drawing {
 public:
  void draw(const ir::Graph& graph) {
    for (const ir::Node* node : ir::reachable_nodes(graph)) add(*node);
  }
  monitor::ModelGraph take() { return std::move(out_); }

 private:
  // "stablehlo.dot_general" -> "dot_general"; constants are TensorFlow's Const, which TensorBoard draws small.
  static std::string op_of(const ir::Node& node) {
    if (node.op == &ir::kOpConstant) return "Const";
    const std::string name = node.op->name;
    return name.substr(name.rfind('.') + 1);
  }

  std::string name_of(const ir::Node& node) {
    if (node.has_attr("_name")) return node.attr<std::string>("_name");
    std::string name = node.scope && !node.scope->empty() ? *node.scope + "/" : std::string();
    name += op_of(node);
    const int64_t number = ++numbers_[name];
    return number == 1 ? name : fmt::format("{}_{}", name, number);
  }

  // Empty for what has no name: the index of an iteration.
  std::string input_name(ir::Value value) const {
    if (const auto outer = outer_.find(value); outer != outer_.end()) return outer->second;
    const auto at = names_.find(value.node);
    if (at == names_.end()) return {};
    return value.index == 0 ? at->second : fmt::format("{}:{}", at->second, value.index);
  }

  void add_input(monitor::GraphNode& node, ir::Value value) const {
    if (std::string name = input_name(value); !name.empty()) node.inputs.push_back(std::move(name));
  }

  void add(const ir::Node& node) {
    if (node.op == &ir::kOpParameter && !node.has_attr("_name")) return;  // of a region: it stands for an outer value
    monitor::GraphNode drawn{name_of(node), op_of(node), {}, node.types.empty() ? TensorType{} : node.types[0]};
    for (const ir::Value operand : node.operands) add_input(drawn, operand);
    if (node.op == &ir::kOpScan) draw_body(node, drawn);
    names_[&node] = drawn.name;
    out_.nodes.push_back(std::move(drawn));
  }

  // The body's nodes stand beside the scan, which takes what they give.
  void draw_body(const ir::Node& scan, monitor::GraphNode& drawn) {
    const ir::Graph& body = *scan.regions[0];
    const auto carries = static_cast<size_t>(scan.attr<int64_t>("_carries"));
    for (size_t i = 0; i < carries; ++i) outer_[body.parameters()[i]] = input_name(scan.operands[i]);
    for (const auto& [outer, inner] : body.captures) outer_[inner] = input_name(outer);
    for (const auto& [outer, inner] : body.slices) outer_[inner] = input_name(outer);
    draw(body);
    for (const ir::Value result : body.results) add_input(drawn, result);
  }

  monitor::ModelGraph out_;
  std::map<std::string, int64_t> numbers_;
  std::map<const ir::Node*, std::string> names_;
  std::map<ir::Value, std::string> outer_;
};

}  // namespace

monitor::ModelGraph model_graph(const models::Model& model) {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  nn::ParamStore store(graph);
  graph.results = {model.trace(nn::Scope(store, {}))};
  Drawing drawing;
  drawing.draw(graph);
  return drawing.take();
}

}  // namespace tessera::train
