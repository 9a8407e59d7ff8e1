// Ops that move elements: broadcast, reshape, transpose, slices, pad, concatenate, reverse.

#include "ir/ops/support.h"

namespace tessera::ir {
namespace {

using Types = std::vector<TensorType>;

// ---- shape rules

Types broadcast_types(const Node& n) {
  const TensorType& x = n.operands[0].type();
  const Dims &map = n.attr<Dims>("broadcast_dimensions"), &out = n.attr<Dims>("_dims");
  require(n, map.size() == x.dims.size(), "broadcast_dimensions must name one result dimension for each operand dimension");
  for (size_t i = 0; i < map.size(); ++i) {
    require(n, map[i] >= 0 && map[i] < static_cast<int64_t>(out.size()) && (i == 0 || map[i] > map[i - 1]),
            "bad broadcast_dimensions");
    require(n, x.dims[i] == 1 || x.dims[i] == out[idx(map[i])], fmt::format("cannot broadcast to {}", to_string(out)));
  }
  return {{x.dtype, out}};
}

Types reshape_types(const Node& n) {
  const TensorType& x = n.operands[0].type();
  const Dims& out = n.attr<Dims>("_dims");
  require(
      n, element_count(out) == element_count(x.dims),
      fmt::format("cannot reshape to {}: {} elements against {}", to_string(out), element_count(out), element_count(x.dims)));
  return {{x.dtype, out}};
}

Types transpose_types(const Node& n) {
  const TensorType& x = n.operands[0].type();
  const Dims& p = n.attr<Dims>("permutation");
  require(n, p.size() == x.dims.size(), "the permutation's length is not the rank");
  Dims out;
  std::vector<bool> seen(p.size());
  for (const int64_t i : p) {
    require(n, i >= 0 && i < x.rank() && !seen[idx(i)], "not a permutation: " + to_string(p));
    seen[idx(i)] = true;
    out.push_back(x.dims[idx(i)]);
  }
  return {{x.dtype, out}};
}

Types slice_types(const Node& n) {
  const TensorType& x = n.operands[0].type();
  const Dims &start = n.attr<Dims>("start_indices"), &limit = n.attr<Dims>("limit_indices"), &stride = n.attr<Dims>("strides");
  require(n, start.size() == x.dims.size() && limit.size() == x.dims.size() && stride.size() == x.dims.size(),
          "start, limit and strides need one number for each dimension");
  Dims out;
  for (size_t i = 0; i < start.size(); ++i) {
    require(n, 0 <= start[i] && start[i] <= limit[i] && limit[i] <= x.dims[i] && stride[i] >= 1,
            fmt::format("slice {} to {} by {} does not fit", to_string(start), to_string(limit), to_string(stride)));
    out.push_back((limit[i] - start[i] + stride[i] - 1) / stride[i]);
  }
  return {{x.dtype, out}};
}

void require_starts(const Node& n, size_t first, size_t rank) {
  require(n, n.operands.size() == first + rank, "needs one start index for each dimension");
  for (size_t i = first; i < n.operands.size(); ++i) {
    const TensorType& t = n.operands[i].type();
    require(n, t.dims.empty() && is_integer(t.dtype) && t == n.operands[first].type(),
            "start indices must be integer scalars of one dtype");
  }
}

Types dynamic_slice_types(const Node& n) {
  const TensorType& x = n.operands[0].type();
  const Dims& sizes = n.attr<Dims>("slice_sizes");
  require_starts(n, 1, x.dims.size());
  require(n, sizes.size() == x.dims.size(), "needs one slice size for each dimension");
  for (size_t i = 0; i < sizes.size(); ++i) require(n, 0 <= sizes[i] && sizes[i] <= x.dims[i], "slice sizes do not fit");
  return {{x.dtype, sizes}};
}

Types dynamic_update_slice_types(const Node& n) {
  const TensorType &x = n.operands[0].type(), &u = n.operands[1].type();
  require_starts(n, 2, x.dims.size());
  require(n, x.dtype == u.dtype && x.rank() == u.rank(), "the update's dtype or rank differs");
  for (size_t i = 0; i < x.dims.size(); ++i) require(n, u.dims[i] <= x.dims[i], "the update is larger than the operand");
  return {x};
}

Types pad_types(const Node& n) {
  const TensorType &x = n.operands[0].type(), &v = n.operands[1].type();
  const Dims &low = n.attr<Dims>("edge_padding_low"), &high = n.attr<Dims>("edge_padding_high"),
             &in = n.attr<Dims>("interior_padding");
  require(n, v.dtype == x.dtype && v.dims.empty(), "the padding value must be a scalar of the operand's dtype");
  require(n, low.size() == x.dims.size() && high.size() == low.size() && in.size() == low.size(),
          "needs one padding for each dimension");
  Dims out;
  for (size_t i = 0; i < low.size(); ++i) {
    require(n, in[i] >= 0, "negative interior padding");
    out.push_back(low[i] + high[i] + x.dims[i] + std::max<int64_t>(x.dims[i] - 1, 0) * in[i]);
    require(n, out[i] >= 0, "padding crops more than there is");
  }
  return {{x.dtype, out}};
}

Types concatenate_types(const Node& n) {
  require(n, !n.operands.empty(), "nothing to concatenate");
  TensorType out = n.operands[0].type();
  const size_t axis = idx(n.attr<int64_t>("dimension"));
  for (size_t k = 1; k < n.operands.size(); ++k) {
    const TensorType& t = n.operands[k].type();
    require(n, t.dtype == out.dtype && t.rank() == out.rank(), "operands differ in dtype or rank");
    for (size_t i = 0; i < t.dims.size(); ++i)
      require(n, i == axis || t.dims[i] == out.dims[i], "operands differ in another dimension");
    out.dims[axis] += t.dims[axis];
  }
  return {out};
}

Types reverse_types(const Node& n) {
  for (const int64_t a : n.attr<Dims>("dimensions")) require(n, a >= 0 && a < n.operands[0].rank(), "no such dimension");
  return {n.operands[0].type()};
}

// ---- gradients

Values vjp_broadcast(const VjpArgs& a) {
  const Dims& map = a.node.attr<Dims>("broadcast_dimensions");
  const Dims &in = a.x(0).dims(), &out = a.y().dims();
  Dims axes;
  for (int64_t i = 0; i < static_cast<int64_t>(out.size()); ++i) {
    bool carried = false;
    for (size_t k = 0; k < map.size(); ++k) carried = carried || (map[k] == i && in[k] == out[idx(i)]);
    if (!carried) axes.push_back(i);
  }
  return {reshape(axes.empty() ? a.ct[0] : sum(a.ct[0], axes), in)};
}

Values vjp_reshape(const VjpArgs& a) { return {reshape(a.ct[0], a.x(0).dims())}; }

Values vjp_transpose(const VjpArgs& a) {
  const Dims& p = a.node.attr<Dims>("permutation");
  Dims inverse(p.size());
  for (size_t i = 0; i < p.size(); ++i) inverse[idx(p[i])] = static_cast<int64_t>(i);
  return {transpose(a.ct[0], inverse)};
}

Values vjp_slice(const VjpArgs& a) {
  const Dims &start = a.node.attr<Dims>("start_indices"), &stride = a.node.attr<Dims>("strides");
  const Dims &in = a.x(0).dims(), &out = a.y().dims();
  Dims high, interior;
  for (size_t i = 0; i < in.size(); ++i) {
    interior.push_back(stride[i] - 1);
    high.push_back(in[i] - start[i] - (out[i] == 0 ? 0 : (out[i] - 1) * stride[i] + 1));
  }
  return {pad(a.ct[0], constant(0, a.ct[0].dtype()), start, high, interior)};
}

Values starts_of(const VjpArgs& a, size_t first) {
  return Values(a.node.operands.begin() + static_cast<std::ptrdiff_t>(first), a.node.operands.end());
}

Values vjp_dynamic_slice(const VjpArgs& a) {
  Values out(a.node.operands.size());
  out[0] = dynamic_update_slice(zeros_like(a.x(0)), a.ct[0], starts_of(a, 1));
  return out;
}

Values vjp_dynamic_update_slice(const VjpArgs& a) {
  Values out(a.node.operands.size());
  const Values starts = starts_of(a, 2);
  if (a.wanted[0]) out[0] = dynamic_update_slice(a.ct[0], zeros_like(a.x(1)), starts);
  if (a.wanted[1]) out[1] = dynamic_slice(a.ct[0], starts, a.x(1).dims());
  return out;
}

Values vjp_pad(const VjpArgs& a) {
  const Dims &low = a.node.attr<Dims>("edge_padding_low"), &high = a.node.attr<Dims>("edge_padding_high"),
             &interior = a.node.attr<Dims>("interior_padding");
  Dims minus_low, minus_high, stride, zero(low.size(), 0);
  for (size_t i = 0; i < low.size(); ++i) {
    minus_low.push_back(-low[i]);
    minus_high.push_back(-high[i]);
    stride.push_back(interior[i] + 1);
  }
  const Value uncropped = pad(a.ct[0], constant(0, a.ct[0].dtype()), minus_low, minus_high);
  const Value operand_ct = slice(uncropped, zero, uncropped.dims(), stride);
  Values out{operand_ct, Value{}};
  if (a.wanted[1]) out[1] = sum_all(a.ct[0]) - sum_all(operand_ct);
  return out;
}

Values vjp_concatenate(const VjpArgs& a) {
  const int64_t axis = a.node.attr<int64_t>("dimension");
  Values out;
  int64_t at = 0;
  for (size_t k = 0; k < a.node.operands.size(); ++k) {
    const int64_t size = a.x(k).dim(axis);
    out.push_back(a.wanted[k] ? slice_axis(a.ct[0], axis, at, at + size) : Value{});
    at += size;
  }
  return out;
}

// Parts of parts become parts: else they would be copied twice.
Values lower_concatenate(const Node& n, const Values& operands) {
  const int64_t axis = n.attr<int64_t>("dimension");
  Values parts;
  for (const Value x : operands) {
    const bool is_parts = x.node->op == &kOpConcatenate && x.node->attr<int64_t>("dimension") == axis;
    const Values& own = is_parts ? x.node->operands : Values{x};
    parts.insert(parts.end(), own.begin(), own.end());
  }
  return {concatenate(parts, axis)};
}

Values vjp_reverse(const VjpArgs& a) { return {reverse(a.ct[0], a.node.attr<Dims>("dimensions"))}; }

}  // namespace

constinit const OpDef kOpBroadcastInDim("stablehlo.broadcast_in_dim", broadcast_types, vjp_broadcast);
constinit const OpDef kOpReshape("stablehlo.reshape", reshape_types, vjp_reshape);
constinit const OpDef kOpTranspose("stablehlo.transpose", transpose_types, vjp_transpose);
constinit const OpDef kOpSlice("stablehlo.slice", slice_types, vjp_slice);
constinit const OpDef kOpDynamicSlice("stablehlo.dynamic_slice", dynamic_slice_types, vjp_dynamic_slice);
constinit const OpDef kOpDynamicUpdateSlice("stablehlo.dynamic_update_slice", dynamic_update_slice_types,
                                            vjp_dynamic_update_slice);
constinit const OpDef kOpPad("stablehlo.pad", pad_types, vjp_pad);
constinit const OpDef kOpConcatenate("stablehlo.concatenate", concatenate_types, vjp_concatenate, lower_concatenate);
constinit const OpDef kOpReverse("stablehlo.reverse", reverse_types, vjp_reverse);

Value broadcast_in_dim(Value x, const Dims& dims, const Dims& dims_map) {
  return make_node(kOpBroadcastInDim, {x}, {{"broadcast_dimensions", dims_map}, {"_dims", dims}})->result();
}

Value broadcast_to(Value x, const Dims& dims) {
  if (x.dims() == dims) return x;
  return broadcast_in_dim(x, dims, range(x.rank(), static_cast<int64_t>(dims.size()) - x.rank()));
}

Value reshape(Value x, Dims dims) {
  int64_t known = 1, unknown = -1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0)
      unknown = static_cast<int64_t>(i);
    else
      known *= dims[i];
  }
  if (unknown >= 0 && known > 0) dims[idx(unknown)] = element_count(x.dims()) / known;
  if (dims == x.dims()) return x;
  return make_node(kOpReshape, {x}, {{"_dims", std::move(dims)}})->result();
}

Value transpose(Value x, const Dims& permutation) {
  if (permutation == range(x.rank())) return x;
  return make_node(kOpTranspose, {x}, {{"permutation", permutation}})->result();
}

Value slice(Value x, const Dims& start, const Dims& limit, const Dims& strides) {
  const Dims stride = strides.empty() ? Dims(start.size(), 1) : strides;
  return make_node(kOpSlice, {x}, {{"start_indices", start}, {"limit_indices", limit}, {"strides", stride}})->result();
}

Value slice_axis(Value x, int64_t axis, int64_t start, int64_t limit, int64_t stride) {
  axis = normalize_axis(axis, x.rank());
  Dims starts(x.dims().size(), 0), limits = x.dims(), strides(x.dims().size(), 1);
  starts[idx(axis)] = start, limits[idx(axis)] = limit, strides[idx(axis)] = stride;
  return slice(x, starts, limits, strides);
}

Value dynamic_slice(Value x, const Values& starts, const Dims& sizes) {
  Values operands{x};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return make_node(kOpDynamicSlice, operands, {{"slice_sizes", sizes}})->result();
}

Value dynamic_update_slice(Value x, Value update, const Values& starts) {
  Values operands{x, update};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return make_node(kOpDynamicUpdateSlice, operands)->result();
}

Value pad(Value x, Value value, const Dims& low, const Dims& high, const Dims& interior) {
  const Dims inside = interior.empty() ? Dims(low.size(), 0) : interior;
  return make_node(kOpPad, {x, value}, {{"edge_padding_low", low}, {"edge_padding_high", high}, {"interior_padding", inside}})
      ->result();
}

Value concatenate(const Values& xs, int64_t axis) {
  TESSERA_CHECK(!xs.empty());
  return make_node(kOpConcatenate, xs, {{"dimension", normalize_axis(axis, xs[0].rank())}})->result();
}

Value reverse(Value x, const Dims& axes) {
  return make_node(kOpReverse, {x}, {{"dimensions", normalize_axes(axes, x.rank())}})->result();
}

Value squeeze(Value x, int64_t axis) {
  Dims dims = x.dims();
  dims.erase(dims.begin() + normalize_axis(axis, x.rank()));
  return reshape(x, dims);
}

Value expand_dims(Value x, int64_t axis) {
  Dims dims = x.dims();
  dims.insert(dims.begin() + normalize_axis(axis, x.rank() + 1), 1);
  return reshape(x, dims);
}

}  // namespace tessera::ir
