#pragma once
// The graph that models are traced into: nodes of StableHLO ops (and a few of our own, `tessera.*`, which lowering turns into
// StableHLO) over typed values. A graph is built by calling the functions of ops.h inside a GraphScope; nodes stand in the
// order of creation, which is a topological order.
//
// Regions (bodies of scans, loops and reducers) are graphs of their own. A value of an outer graph that is used inside a
// region is captured: the region gets a parameter for it, and the node that owns the region an operand.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/shape.h"

namespace tessera::ir {

class Composite;
class Graph;
struct Node;
struct OpDef;

// One result of a node: a handle, cheap to copy. It does not own; the graph owns its nodes. A default Value is "none" (in
// gradients: zero).
struct Value {
  Node* node = nullptr;
  int index = 0;

  explicit operator bool() const { return node != nullptr; }
  const TensorType& type() const;
  const Dims& dims() const { return type().dims; }
  DType dtype() const { return type().dtype; }
  int64_t rank() const { return type().rank(); }
  // Size of one dimension; a negative axis counts from the end.
  int64_t dim(int64_t axis) const;
  bool operator==(const Value&) const = default;
  auto operator<=>(const Value&) const = default;
};

using Values = std::vector<Value>;

// ---- attributes: the semantic value is kept, so that gradients read it; emit.cc prints it

struct EnumAttr {  // #stablehlo<kind value>
  std::string kind, value;
};
struct TextAttr {  // printed as it is
  std::string text;
};
struct DotDims {
  Dims lhs_batch, rhs_batch, lhs_contract, rhs_contract;
};
// Dimension numbers: where batch, feature and the spatial dimensions lie in input, kernel and output.
struct ConvDims {
  int64_t input_batch = 0, input_feature = 1;
  Dims input_spatial;
  int64_t kernel_input_feature = 1, kernel_output_feature = 0;
  Dims kernel_spatial;
  int64_t output_batch = 0, output_feature = 1;
  Dims output_spatial;
};
struct GatherDims {
  Dims offset_dims, collapsed_slice_dims, operand_batching_dims, start_indices_batching_dims, start_index_map;
  int64_t index_vector_dim = 0;
};
struct ScatterDims {
  Dims update_window_dims, inserted_window_dims, input_batching_dims, scatter_indices_batching_dims,
      scatter_dims_to_operand_dims;
  int64_t index_vector_dim = 0;
};
struct PairsAttr {  // dense<[[lo, hi], …]> : tensor<nx2xi64>
  std::vector<std::pair<int64_t, int64_t>> pairs;
};
struct Literal {  // a constant: one element (splat) or all of them, in host byte order
  std::vector<std::byte> bytes;
};
struct AttrDict {  // {name = value, …}, in this order
  std::vector<std::pair<std::string, std::variant<bool, int64_t, double, std::string>>> fields;
};
// (inputs, outputs, output cotangents) -> input cotangents (none = zero).
using CustomVjp = std::function<Values(const Values&, const Values&, const Values&)>;

using Attr =
    std::variant<bool, int64_t, double, std::string, Dims, EnumAttr, TextAttr, DotDims, ConvDims, GatherDims, ScatterDims,
                 PairsAttr, Literal, AttrDict, std::shared_ptr<const CustomVjp>, std::shared_ptr<const Composite>>;
// Ordered by name, so that text is deterministic. Names that begin with '_' are ours and are not printed.
using Attrs = std::map<std::string, Attr>;

struct Node {
  const OpDef* op = nullptr;
  Graph* graph = nullptr;
  int64_t id = 0;  // position of creation in its graph
  Values operands;
  std::vector<TensorType> types;  // of the results
  Attrs attrs;
  std::vector<std::unique_ptr<Graph>> regions;
  std::shared_ptr<const std::string> scope;  // "encoder/blocks/attn": for messages, profiles and plans

  Value result(int index = 0) { return {this, index}; }
  template <class T>
  const T& attr(const std::string& name) const {
    return std::get<T>(attrs.at(name));
  }
  bool has_attr(const std::string& name) const { return attrs.contains(name); }
};

class Graph {
 public:
  explicit Graph(Graph* parent = nullptr) : parent_(parent) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // A new argument of the graph. `name` is for messages and the emitted argument order is the order of creation.
  Value add_parameter(TensorType type, std::string name = {});

  // `value` as seen from this graph: itself, or the parameter that captures it when it belongs to an outer graph.
  Value adopt(Value value);
  // Inside a scan's body: the slice at the current iteration of an array of an outer graph, whose leading dimension is the
  // scan's length. Asking twice gives the same value.
  Value slice_of(Value stacked);

  Node* add_node(const OpDef& op, Values operands, Attrs attrs, std::vector<std::unique_ptr<Graph>> regions);

  Graph* parent() const { return parent_; }
  const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  const Values& parameters() const { return parameters_; }
  Values results;

  // (outer value, inner parameter) pairs, in order of first use.
  std::vector<std::pair<Value, Value>> captures, slices;
  // Set on the body of a scan: its length; 0 elsewhere.
  int64_t scan_length = 0;

  // Puts the parameters in this order (a permutation or a subset; those left out must be unused).
  void set_parameters(Values parameters) { parameters_ = std::move(parameters); }
  // Replaces every use of `from` in this graph's operands and results.
  void replace_uses(Value from, Value to);

 private:
  Graph* parent_;
  std::vector<std::unique_ptr<Node>> nodes_;
  Values parameters_;
  int64_t next_id_ = 0;
};

// As Graph::add_parameter was told; empty where it was told nothing.
std::string parameter_name(Value parameter);

// The graph that op functions add to, on this thread.
Graph& current_graph();
class GraphScope {
 public:
  explicit GraphScope(Graph& graph);
  ~GraphScope();
  GraphScope(const GraphScope&) = delete;
  GraphScope& operator=(const GraphScope&) = delete;

 private:
  Graph* previous_;
};

// Names the part of the program that is being traced ("blocks/attn"), for error messages, and, since the compiler keeps it with
// each op, for profiles and plans. Scopes nest and are joined by '/'.
class NameScope {
 public:
  explicit NameScope(std::string_view name);
  // The scope of a node, for what a pass puts in its place.
  static NameScope of(const Node& node) { return NameScope(node.scope); }
  // "gradient/blocks/attn", for a node's gradient.
  static NameScope gradient_of(const Node& node);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;

 private:
  explicit NameScope(std::shared_ptr<const std::string> scope);

  std::shared_ptr<const std::string> previous_;
};
std::string current_scope();

// ---- the op table

struct VjpArgs {
  Node& node;
  const Values& ct;                 // one for each result; none = zero
  const std::vector<bool>& wanted;  // operands whose cotangent is asked for
  Value x(size_t i) const { return node.operands[i]; }
  Value y(size_t i = 0) const { return node.result(static_cast<int>(i)); }
};

// Result types of a node from its operands and attributes; throws a usage Error (op, operand types, scope) when they do not
// fit.
using InferFn = std::vector<TensorType> (*)(const Node&);
// Operand cotangents (none = zero).
using VjpFn = Values (*)(const VjpArgs&);
// For `tessera.*` ops: builds the node's StableHLO in the current graph, from already lowered operands; gives its results.
using LowerFn = Values (*)(const Node&, const Values& operands);

// The result does not depend on the operands differentiably (floor, compare, …): stated, never implied.
Values no_gradient(const VjpArgs&);
// Reverse mode is not defined here (while): throws a usage Error that says what to use instead.
Values refuse_gradient(const VjpArgs&);

// The whole of an op. An op without a gradient rule does not compile: name no_gradient or refuse_gradient to mean it.
struct OpDef {
  consteval OpDef(const char* op_name, InferFn infer_fn, VjpFn vjp_fn, LowerFn lower_fn = nullptr)
      : name(op_name), infer(infer_fn), vjp(vjp_fn), lower(lower_fn) {}
  const char* name;
  InferFn infer;
  VjpFn vjp;
  LowerFn lower;
};

// Every entry, in the order of ops.def.
std::span<const OpDef* const> op_table();

// Adds a node to the current graph, capturing operands of outer graphs; checks it by the op's shape rule.
Node* make_node(const OpDef& op, Values operands, Attrs attrs = {}, std::vector<std::unique_ptr<Graph>> regions = {});

// Copies the nodes of `body` that its results need into the current graph, its parameters replaced by `arguments`; gives the
// values that stand for body.results. `map`, when given, receives (value of body -> its copy) for every copied value.
Values inline_graph(const Graph& body, const Values& arguments, std::map<Value, Value>* map = nullptr);

// A deep copy of a region for a node of `parent`.
std::unique_ptr<Graph> clone_graph(const Graph& graph, Graph* parent);

// The nodes that the results of `graph` need, in order.
std::vector<Node*> reachable_nodes(const Graph& graph);

// "`stablehlo.add` of f32[2, 3] and f32[4] in blocks/attn": for error messages.
std::string describe(const Node& node);
[[noreturn]] void fail_op(const Node& node, const std::string& message);

}  // namespace tessera::ir
