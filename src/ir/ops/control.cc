// while, case, barriers, random bits, and the identities that steer gradients.

#include <algorithm>

#include "ir/grad.h"
#include "ir/ops/support.h"
#include "ir/passes/lower.h"
#include "ir/sharding.h"
#include "ir/types_of.h"

namespace tessera::ir {
namespace {

using Types = std::vector<TensorType>;

Types operand_types(const Node& n) { return types_of(n.operands); }
Values pass_through(const VjpArgs& a) { return a.ct; }
Values lower_identity(const Node&, const Values& operands) { return operands; }

// Every outer value that one of the regions captures, in order of first use.
Values captured_by(const std::vector<std::unique_ptr<Graph>>& regions) {
  Values outer;
  for (const auto& r : regions) {
    for (const auto& [from, inner] : r->captures) {
      if (std::find(outer.begin(), outer.end(), from) == outer.end()) outer.push_back(from);
    }
  }
  return outer;
}

// The region's parameter for `outer`, made when the region does not use it.
Value parameter_for(Graph& region, Value outer) {
  for (const auto& [from, inner] : region.captures) {
    if (from == outer) return inner;
  }
  const Value inner = region.add_parameter(outer.type());
  region.captures.emplace_back(outer, inner);
  return inner;
}

// ---- while

Types while_types(const Node& n) {
  const Graph &condition = *n.regions[0], &body = *n.regions[1];
  require(n, types_of(condition.parameters()) == operand_types(n) && types_of(body.parameters()) == operand_types(n),
          "loop regions and operands differ in type");
  require(n, condition.results.size() == 1 && condition.results[0].type() == TensorType{DType::kBool, {}},
          "the condition must be one bool scalar");
  require(n, types_of(body.results) == operand_types(n), "the body changes the types of what it carries");
  return operand_types(n);
}

// ---- case

// ---- barrier

Values vjp_barrier(const VjpArgs& a) {
  Values present;
  for (const Value c : a.ct) {
    if (c) present.push_back(c);
  }
  const Values through = optimization_barrier(present);
  Values out(a.ct.size());
  size_t at = 0;
  for (size_t i = 0; i < a.ct.size(); ++i) {
    if (a.ct[i]) out[i] = through[at++];
  }
  return out;
}

// ---- sharding

Value constrain(Value x, const std::string& sharding, const std::string& gradient) {
  return make_node(kOpShardingConstraint, {x}, {{"sharding", TextAttr{sharding}}, {"_gradient", TextAttr{gradient}}})->result();
}

Values vjp_sharding_constraint(const VjpArgs& a) {
  return {constrain(a.ct[0], a.node.attr<TextAttr>("_gradient").text, a.node.attr<TextAttr>("sharding").text)};
}

// The body's results in whole; each device computes its part of them.
Types manual_types(const Node& n) {
  Types out = types_of(n.regions.at(0)->results);
  const auto& dims = n.attr<Dims>("_result_dims");
  auto next = dims.begin();
  for (TensorType& type : out) {
    require(n, dims.end() - next >= type.rank(), "dimensions of each result");
    std::copy_n(next, type.rank(), type.dims.begin());
    next += type.rank();
  }
  return out;
}

// ---- custom gradient

Types custom_gradient_types(const Node& n) {
  const auto inputs = n.attr<int64_t>("_inputs");
  return types_of(Values(n.operands.begin() + inputs, n.operands.end()));
}

Values vjp_custom(const VjpArgs& a) {
  const auto inputs = a.node.attr<int64_t>("_inputs");
  Values x(a.node.operands.begin(), a.node.operands.begin() + inputs), y, ct;
  for (size_t i = 0; i < a.ct.size(); ++i) {
    y.push_back(a.y(i));
    ct.push_back(a.ct[i] ? a.ct[i] : zeros_like(a.y(i)));
  }
  Values out = (*a.node.attr<std::shared_ptr<const CustomVjp>>("_vjp"))(x, y, ct);
  TESSERA_CHECK(out.size() == x.size(), "a custom gradient gave {} cotangents for {} inputs", out.size(), x.size());
  out.resize(a.node.operands.size());
  return out;
}

Values lower_custom(const Node& n, const Values& operands) {
  return Values(operands.begin() + n.attr<int64_t>("_inputs"), operands.end());
}

}  // namespace

constinit const OpDef kOpWhile("stablehlo.while", while_types, refuse_gradient);
constinit const OpDef kOpOptimizationBarrier("stablehlo.optimization_barrier", operand_types, vjp_barrier);
constinit const OpDef kOpStopGradient("tessera.stop_gradient", operand_types, no_gradient, lower_identity);
constinit const OpDef kOpShardingConstraint("sdy.sharding_constraint", operand_types, vjp_sharding_constraint);
constinit const OpDef kOpManualComputation("sdy.manual_computation", manual_types, refuse_gradient);
constinit const OpDef kOpCheckpointName("tessera.checkpoint_name", operand_types, pass_through, lower_identity);
constinit const OpDef kOpCustomGradient("tessera.custom_gradient", custom_gradient_types, vjp_custom, lower_custom);

Values while_loop(const Values& init, const std::function<Value(const Values&)>& condition, const LoopFn& body) {
  Graph* parent = &current_graph();
  std::vector<std::unique_ptr<Graph>> regions;
  std::vector<Values> parameters(2);
  for (size_t r = 0; r < 2; ++r) {
    regions.push_back(std::make_unique<Graph>(parent));
    for (const Value v : init) parameters[r].push_back(regions[r]->add_parameter(v.type()));
    const GraphScope scope(*regions[r]);
    regions[r]->results = r == 0 ? Values{condition(parameters[0])} : body(parameters[1]);
    for (Value& v : regions[r]->results) v = regions[r]->adopt(v);
  }
  Values operands = init;
  for (const Value outer : captured_by(regions)) {  // constants of the loop are carried along unchanged
    operands.push_back(outer);
    for (size_t r = 0; r < 2; ++r) parameters[r].push_back(parameter_for(*regions[r], outer));
    regions[1]->results.push_back(parameters[1].back());
  }
  for (size_t r = 0; r < 2; ++r) regions[r]->set_parameters(parameters[r]);
  Node* node = make_node(kOpWhile, operands, {}, std::move(regions));
  Values out;
  for (size_t i = 0; i < init.size(); ++i) out.push_back(node->result(static_cast<int>(i)));
  return out;
}

Values optimization_barrier(const Values& xs) {
  if (xs.empty()) return {};
  Node* node = make_node(kOpOptimizationBarrier, xs);
  Values out;
  for (size_t i = 0; i < xs.size(); ++i) out.push_back(node->result(static_cast<int>(i)));
  return out;
}

Value stop_gradient(Value x) { return make_node(kOpStopGradient, {x})->result(); }
Value reshard(Value x, const mesh::PartitionSpec& spec, const mesh::PartitionSpec& gradient) {
  return constrain(x, sharding_text(spec, x.rank()), sharding_text(gradient, x.rank()));
}

Value checkpoint_name(Value x, const std::string& name) {
  return make_node(kOpCheckpointName, {x}, {{"_checkpoint_name", name}})->result();
}

Values custom_gradient(const Values& inputs, const Values& outputs, CustomVjp vjp_fn) {
  Values operands = inputs;
  operands.insert(operands.end(), outputs.begin(), outputs.end());
  Node* node = make_node(
      kOpCustomGradient, operands,
      {{"_inputs", static_cast<int64_t>(inputs.size())}, {"_vjp", std::make_shared<const CustomVjp>(std::move(vjp_fn))}});
  Values out;
  for (size_t i = 0; i < outputs.size(); ++i) out.push_back(node->result(static_cast<int>(i)));
  return out;
}

}  // namespace tessera::ir
