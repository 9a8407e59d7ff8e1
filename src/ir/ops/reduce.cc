// Reductions, windowed reductions (pooling), sort and cumulative sum.

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/ops/support.h"

namespace tessera::ir {
namespace {

using Types = std::vector<TensorType>;

Value combine(Reduce kind, Value a, Value b) {
  switch (kind) {
    case Reduce::kSum: return a + b;
    case Reduce::kProduct: return a * b;
    case Reduce::kMax: return maximum(a, b);
    case Reduce::kMin: return minimum(a, b);
    case Reduce::kAnd: return logical_and(a, b);
    case Reduce::kOr: return logical_or(a, b);
  }
  TESSERA_CHECK(false);
}

double lowest(DType t) {
  if (is_float(t)) return -std::numeric_limits<double>::infinity();
  if (!is_signed_integer(t)) return 0;
  return -std::ldexp(1.0, static_cast<int>(8 * element_bytes(t) - 1));
}

double highest(DType t) {
  if (is_float(t)) return std::numeric_limits<double>::infinity();
  const int bits = static_cast<int>(8 * element_bytes(t)) - (is_signed_integer(t) ? 1 : 0);
  TESSERA_CHECK(bits <= 32, "minimum over 64-bit integers");
  return std::ldexp(1.0, bits) - 1;
}

Value identity(Reduce kind, DType dtype) {
  switch (kind) {
    case Reduce::kSum:
    case Reduce::kOr: return constant(0, dtype);
    case Reduce::kProduct:
    case Reduce::kAnd: return constant(1, dtype);
    case Reduce::kMax: return constant(lowest(dtype), dtype);
    case Reduce::kMin: return constant(highest(dtype), dtype);
  }
  TESSERA_CHECK(false);
}

std::vector<std::unique_ptr<Graph>> reducer(Reduce kind, DType dtype) {
  std::vector<std::unique_ptr<Graph>> regions;
  regions.push_back(scalar_region(&current_graph(), {{dtype, {}}, {dtype, {}}},
                                  [&](const Values& p) { return Values{combine(kind, p[0], p[1])}; }));
  return regions;
}

Reduce kind_of(const Node& n) { return static_cast<Reduce>(n.attr<int64_t>("_kind")); }

// ---- reduce

Types reduce_types(const Node& n) {
  const TensorType& x = n.operands[0].type();
  const Dims& axes = n.attr<Dims>("dimensions");
  Dims out;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (!contains(axes, i)) out.push_back(x.dims[idx(i)]);
  }
  require(n, out.size() + axes.size() == x.dims.size(), "an axis is named twice");
  return {{x.dtype, out}};
}

// `reduced` (x's shape without `axes`) broadcast back to x's shape.
Value spread(Value reduced, Value x, const Dims& axes) {
  Dims map;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (!contains(axes, i)) map.push_back(i);
  }
  return broadcast_in_dim(reduced, x.dims(), map);
}

// Product of all the others along the last axis of [rows, n]: exclusive cumulative products from both ends.
Value product_of_others(Value x) {
  const int64_t n = x.dim(1);
  const auto exclusive = [&](bool from_end) {
    const Value one = constant(1, x.dtype());
    const Value shifted = from_end ? pad(x, one, {0, -1}, {0, 1}) : pad(x, one, {0, 1}, {0, -1});
    WindowOptions w;
    w.dimensions = {1, n};
    w.padding = {{0, 0}, from_end ? std::pair<int64_t, int64_t>{0, n - 1} : std::pair<int64_t, int64_t>{n - 1, 0}};
    return reduce_window(Reduce::kProduct, shifted, w);
  };
  return exclusive(false) * exclusive(true);
}

Values vjp_reduce(const VjpArgs& a) {
  const Value x = a.x(0);
  const Dims& axes = a.node.attr<Dims>("dimensions");
  const Value ct = spread(a.ct[0], x, axes);
  switch (kind_of(a.node)) {
    case Reduce::kSum: return {ct, Value{}};
    case Reduce::kMax:
    case Reduce::kMin: {  // shared equally among ties, as JAX
      const Value hit = convert(compare(Compare::kEq, x, spread(a.y(), x, axes)), x.dtype());
      return {ct * hit / spread(sum(hit, axes), x, axes), Value{}};
    }
    case Reduce::kProduct: {
      Dims order;
      for (int64_t i = 0; i < x.rank(); ++i) {
        if (!contains(axes, i)) order.push_back(i);
      }
      order.insert(order.end(), axes.begin(), axes.end());
      Dims inverse(order.size());
      for (size_t i = 0; i < order.size(); ++i) inverse[idx(order[i])] = static_cast<int64_t>(i);
      const Value moved = transpose(x, order);
      const int64_t rows = element_count(a.y().dims());
      const Value others = product_of_others(reshape(moved, {rows, -1}));
      return {ct * transpose(reshape(others, moved.dims()), inverse), Value{}};
    }
    case Reduce::kAnd:
    case Reduce::kOr: break;
  }
  return {Value{}, Value{}};
}

// ---- windows

WindowOptions window_of(const Node& n) {
  return {n.attr<Dims>("window_dimensions"), n.attr<Dims>("window_strides"), n.attr<Dims>("base_dilations"),
          n.attr<Dims>("window_dilations"), n.attr<PairsAttr>("padding").pairs};
}

WindowOptions filled(WindowOptions w) {
  const size_t rank = w.dimensions.size();
  for (Dims* d : {&w.strides, &w.base_dilations, &w.window_dilations}) {
    if (d->empty()) d->assign(rank, 1);
  }
  if (w.padding.empty()) w.padding.assign(rank, {0, 0});
  return w;
}

Dims windowed_dims(const Node& n, const Dims& dims, const WindowOptions& w) {
  require(n, w.dimensions.size() == dims.size() && w.strides.size() == dims.size() && w.padding.size() == dims.size(),
          "the window needs one entry for each dimension");
  Dims out;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t size = dilated(dims[i], w.base_dilations[i]) + w.padding[i].first + w.padding[i].second;
    const int64_t window = dilated(w.dimensions[i], w.window_dilations[i]);
    out.push_back(size < window ? 0 : (size - window) / w.strides[i] + 1);
  }
  return out;
}

Types window_types(const Node& n) {
  const Dims out = windowed_dims(n, n.operands[0].dims(), window_of(n));
  Types types;
  for (size_t i = 0; i < n.operands.size() / 2; ++i) types.push_back({n.operands[i].dtype(), out});
  return types;
}

// The transpose of a window sum: a window sum over the dilated cotangent, padded as a convolution's input gradient.
Value window_sum_transpose(Value ct, const Dims& in, const WindowOptions& w) {
  WindowOptions t = w;
  t.strides = w.base_dilations;
  t.base_dilations = w.strides;
  for (size_t i = 0; i < in.size(); ++i) {
    const int64_t size = dilated(in[i], w.base_dilations[i]), window = dilated(w.dimensions[i], w.window_dilations[i]);
    const int64_t before = window - w.padding[i].first - 1;
    t.padding[i] = {before, size + window - 1 - dilated(ct.dim(static_cast<int64_t>(i)), w.strides[i]) - before};
  }
  return reduce_window(Reduce::kSum, ct, t);
}

Values vjp_window(const VjpArgs& a) {
  const WindowOptions w = window_of(a.node);
  const Reduce kind = kind_of(a.node);
  if (kind == Reduce::kSum) return {window_sum_transpose(a.ct[0], a.x(0).dims(), w), Value{}};
  if (kind != Reduce::kMax && kind != Reduce::kMin) return refuse_gradient(a);
  const auto all_one = [](const Dims& d) { return std::all_of(d.begin(), d.end(), [](int64_t v) { return v == 1; }); };
  require(a.node, all_one(w.base_dilations) && all_one(w.window_dilations),
          "the gradient of a dilated window maximum is not defined");
  return {select_and_scatter(a.x(0), a.ct[0], w, kind == Reduce::kMax ? Compare::kGe : Compare::kLe), Value{}};
}

Types select_scatter_types(const Node& n) {
  WindowOptions w;
  w.dimensions = n.attr<Dims>("window_dimensions"), w.strides = n.attr<Dims>("window_strides"),
  w.padding = n.attr<PairsAttr>("padding").pairs;
  require(n, windowed_dims(n, n.operands[0].dims(), filled(w)) == n.operands[1].dims(),
          "the source's shape is not that of the windows");
  return {n.operands[0].type()};
}

Values vjp_select_scatter(const VjpArgs& a) {
  WindowOptions w;
  w.dimensions = a.node.attr<Dims>("window_dimensions"), w.strides = a.node.attr<Dims>("window_strides");
  w.padding = a.node.attr<PairsAttr>("padding").pairs;
  w = filled(w);
  const bool ge = a.node.attr<int64_t>("_selection") == static_cast<int64_t>(Compare::kGe);
  const DType dtype = a.x(0).dtype();
  const Values operands{a.x(0), a.ct[0], identity(ge ? Reduce::kMax : Reduce::kMin, dtype), constant(0, a.ct[0].dtype())};
  std::vector<std::unique_ptr<Graph>> regions;
  const TensorType key{dtype, {}}, value{a.ct[0].dtype(), {}};
  regions.push_back(scalar_region(&current_graph(), {key, value, key, value}, [&](const Values& p) {
    const Value first = compare(ge ? Compare::kGe : Compare::kLe, p[0], p[2]);
    return Values{select(first, p[0], p[2]), select(first, p[1], p[3])};
  }));
  Node* picked = make_node(kOpSelectAndGather, operands,
                           {{"window_dimensions", w.dimensions},
                            {"window_strides", w.strides},
                            {"base_dilations", w.base_dilations},
                            {"window_dilations", w.window_dilations},
                            {"padding", PairsAttr{w.padding}}},
                           std::move(regions));
  return {Value{}, picked->result(1), Value{}};
}

// ---- sort

Types sort_types(const Node& n) {
  Types out;
  for (const Value v : n.operands) {
    require(n, v.dims() == n.operands[0].dims(), "operands have different shapes");
    out.push_back(v.type());
  }
  return out;
}

// Sorting the cotangents by the original index undoes the permutation.
Values vjp_sort(const VjpArgs& a) {
  const int64_t axis = a.node.attr<int64_t>("dimension");
  Values operands = a.node.operands;
  operands.push_back(iota({DType::kI32, a.x(0).dims()}, axis));
  const Value order = sort(operands, axis, a.node.attr<bool>("_descending")).back();
  Values out;
  for (size_t i = 0; i < a.node.operands.size(); ++i) {
    out.push_back(a.wanted[i] && a.ct[i] ? sort({order, a.ct[i]}, axis)[1] : Value{});
  }
  return out;
}

}  // namespace

constinit const OpDef kOpReduce("stablehlo.reduce", reduce_types, vjp_reduce);
constinit const OpDef kOpReduceWindow("stablehlo.reduce_window", window_types, vjp_window);
constinit const OpDef kOpSelectAndScatter("stablehlo.select_and_scatter", select_scatter_types, vjp_select_scatter);
// The gradient of select_and_scatter: the second operand where the first one's windows have their extremum.
constinit const OpDef kOpSelectAndGather("stablehlo.reduce_window", window_types, refuse_gradient);
constinit const OpDef kOpSort("stablehlo.sort", sort_types, vjp_sort);

std::unique_ptr<Graph> scalar_region(Graph* parent, const std::vector<TensorType>& parameters,
                                     const std::function<Values(const Values&)>& body) {
  auto region = std::make_unique<Graph>(parent);
  const GraphScope scope(*region);
  Values p;
  for (const TensorType& t : parameters) p.push_back(region->add_parameter(t));
  region->results = body(p);
  TESSERA_CHECK(region->captures.empty());
  return region;
}

Value reduce(Reduce kind, Value x, const Dims& axes, bool keep_dims) {
  Dims sorted = normalize_axes(axes, x.rank());
  std::sort(sorted.begin(), sorted.end());
  const Value y = make_node(kOpReduce, {x, identity(kind, x.dtype())},
                            {{"dimensions", sorted}, {"_kind", static_cast<int64_t>(kind)}}, reducer(kind, x.dtype()))
                      ->result();
  if (!keep_dims) return y;
  Dims dims = x.dims();
  for (const int64_t a : sorted) dims[idx(a)] = 1;
  return reshape(y, dims);
}

Value sum(Value x, const Dims& axes, bool keep_dims) {
  return convert(reduce(Reduce::kSum, widen(x), axes, keep_dims), x.dtype());
}

Value mean(Value x, const Dims& axes, bool keep_dims) {
  int64_t n = 1;
  for (const int64_t a : axes) n *= x.dim(a);
  return convert(reduce(Reduce::kSum, widen(x), axes, keep_dims) * (1.0 / static_cast<double>(n)), x.dtype());
}

Value reduce_max(Value x, const Dims& axes, bool keep_dims) { return reduce(Reduce::kMax, x, axes, keep_dims); }
Value reduce_min(Value x, const Dims& axes, bool keep_dims) { return reduce(Reduce::kMin, x, axes, keep_dims); }
Value sum_all(Value x) { return sum(x, range(x.rank())); }

Value reduce_window(Reduce kind, Value x, const WindowOptions& options) {
  const WindowOptions w = filled(options);
  return make_node(kOpReduceWindow, {x, identity(kind, x.dtype())},
                   {{"window_dimensions", w.dimensions},
                    {"window_strides", w.strides},
                    {"base_dilations", w.base_dilations},
                    {"window_dilations", w.window_dilations},
                    {"padding", PairsAttr{w.padding}},
                    {"_kind", static_cast<int64_t>(kind)}},
                   reducer(kind, x.dtype()))
      ->result();
}

Value select_and_scatter(Value operand, Value source, const WindowOptions& options, Compare selection) {
  const WindowOptions w = filled(options);
  const TensorType scalar{operand.dtype(), {}};
  std::vector<std::unique_ptr<Graph>> regions;
  regions.push_back(scalar_region(&current_graph(), {scalar, scalar},
                                  [&](const Values& p) { return Values{compare(selection, p[0], p[1])}; }));
  regions.push_back(scalar_region(&current_graph(), {scalar, scalar}, [&](const Values& p) { return Values{p[0] + p[1]}; }));
  return make_node(kOpSelectAndScatter, {operand, source, constant(0, operand.dtype())},
                   {{"window_dimensions", w.dimensions},
                    {"window_strides", w.strides},
                    {"padding", PairsAttr{w.padding}},
                    {"_selection", static_cast<int64_t>(selection)}},
                   std::move(regions))
      ->result();
}

Values sort(const Values& operands, int64_t axis, bool descending) {
  TESSERA_CHECK(!operands.empty());
  std::vector<TensorType> parameters;
  for (const Value v : operands) parameters.insert(parameters.end(), 2, {v.dtype(), {}});
  std::vector<std::unique_ptr<Graph>> regions;
  regions.push_back(scalar_region(&current_graph(), parameters, [&](const Values& p) {
    return Values{compare(descending ? Compare::kGt : Compare::kLt, p[0], p[1])};
  }));
  Node* node =
      make_node(kOpSort, operands,
                {{"dimension", normalize_axis(axis, operands[0].rank())}, {"is_stable", true}, {"_descending", descending}},
                std::move(regions));
  Values out;
  for (size_t i = 0; i < operands.size(); ++i) out.push_back(node->result(static_cast<int>(i)));
  return out;
}

}  // namespace tessera::ir
