#include "ir/passes/split_fixed.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "ir/op_entries.h"
#include "ir/passes/rewrite.h"

namespace tessera::ir {
namespace {

enum class Depends { kOnConstants, kOnFixed, kOnOthers };

bool is_parameter(const Node& node) { return node.op == &kOpParameter; }
bool is_view(const Node& node) { return node.op == &kOpReshape || node.op == &kOpBroadcastInDim; }

// Of every node that the results need.
std::map<const Node*, Depends> dependencies(const Graph& graph, size_t count) {
  std::map<const Node*, Depends> of;
  const Values& parameters = graph.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) of[parameters[i].node] = i < count ? Depends::kOnFixed : Depends::kOnOthers;
  for (const Node* node : reachable_nodes(graph)) {
    if (is_parameter(*node)) continue;
    Depends& own = of[node] = node->has_attr("has_side_effect") ? Depends::kOnOthers : Depends::kOnConstants;
    for (const Value operand : node->operands) own = std::max(own, of.at(operand.node));
  }
  return of;
}

// What the rest of a graph reads of its fixed values.
class Crossing {
 public:
  Crossing(const Graph& graph, size_t count, const std::map<const Node*, Depends>& depends) : depends_(depends), kept_(count) {
    for (size_t i = 0; i < count; ++i) place_[graph.parameters()[i].node] = i;
    for (const Node* node : reachable_nodes(graph)) {
      if (is_parameter(*node) || depends.at(node) != Depends::kOnOthers) continue;
      for (const Value operand : node->operands) read(operand);
    }
    for (const Value result : graph.results) read(result);
  }

  const Values& values() const { return values_; }
  bool contains(Value value) const { return seen_.contains(value); }
  std::vector<size_t> kept() const {
    std::vector<size_t> places;
    for (size_t i = 0; i < kept_.size(); ++i) {
      if (kept_[i]) places.push_back(i);
    }
    return places;
  }

 private:
  void read(Value value) {
    if (depends_.at(value.node) != Depends::kOnFixed) return;
    if (is_parameter(*value.node)) {
      kept_[place_.at(value.node)] = true;
    } else if (is_view(*value.node)) {
      for (const Value operand : value.node->operands) read(operand);
    } else if (seen_.insert(value).second) {
      values_.push_back(value);
    }
  }

  const std::map<const Node*, Depends>& depends_;
  std::map<const Node*, size_t> place_;  // of the fixed parameters
  std::vector<bool> kept_;
  Values values_;  // in the order of their use
  std::set<Value> seen_;
};

}  // namespace

std::function<bool(Value)> fixed_values(const Graph& graph, size_t count) {
  return [depends = dependencies(graph, count)](Value value) {
    const auto found = depends.find(value.node);
    return found != depends.end() && found->second == Depends::kOnFixed;
  };
}

SplitGraph split_fixed(std::unique_ptr<Graph> graph, size_t count) {
  TESSERA_CHECK(graph->parent() == nullptr && count <= graph->parameters().size());
  const std::map<const Node*, Depends> depends = dependencies(*graph, count);
  const Crossing crossing(*graph, count, depends);
  SplitGraph split;
  split.kept = crossing.kept();
  std::map<Value, Value> arguments;  // of `run`, for what is prepared
  split.run = rewrite(*graph, [&](const Node& node, const Values& operands) -> std::optional<Values> {
    if (node.graph != graph.get() || depends.at(&node) != Depends::kOnFixed) return std::nullopt;
    const bool whole = std::ranges::all_of(operands, [](Value operand) { return static_cast<bool>(operand); });
    if (is_view(node) && whole) return std::nullopt;
    Values out(node.types.size());  // nothing for what only other fixed values read
    for (size_t i = 0; i < out.size(); ++i) {
      const Value value{const_cast<Node*>(&node), static_cast<int>(i)};
      if (crossing.contains(value)) out[i] = arguments[value] = current_graph().add_parameter(node.types[i], "prepared");
    }
    return out;
  });
  const Values& all = split.run->parameters();
  Values ordered;
  for (const size_t place : split.kept) ordered.push_back(all[place]);
  for (const Value value : crossing.values()) ordered.push_back(arguments.at(value));
  ordered.insert(ordered.end(), all.begin() + static_cast<ptrdiff_t>(count),
                 all.begin() + static_cast<ptrdiff_t>(graph->parameters().size()));
  split.run->set_parameters(std::move(ordered));
  if (crossing.values().empty()) return split;
  graph->results = crossing.values();
  graph->set_parameters(Values(graph->parameters().begin(), graph->parameters().begin() + static_cast<ptrdiff_t>(count)));
  split.prepare = std::move(graph);
  return split;
}

}  // namespace tessera::ir
