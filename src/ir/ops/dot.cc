// dot_general and convolution. The convolution gradients follow JAX's (jax/_src/lax/convolution.py): both are convolutions.

#include "ir/ops/support.h"

namespace tessera::ir {
namespace {

using Types = std::vector<TensorType>;

// The dimensions of a rank that are in neither list, in order.
Dims remaining(int64_t rank, const Dims& a, const Dims& b) {
  Dims out;
  for (int64_t i = 0; i < rank; ++i) {
    if (!contains(a, i) && !contains(b, i)) out.push_back(i);
  }
  return out;
}

// ---- dot_general

Types dot_types(const Node& n) {
  const TensorType &l = n.operands[0].type(), &r = n.operands[1].type();
  const auto& d = n.attr<DotDims>("dot_dimension_numbers");
  require(n, l.dtype == r.dtype, "operands have different dtypes: convert one of them");
  require(n, d.lhs_batch.size() == d.rhs_batch.size() && d.lhs_contract.size() == d.rhs_contract.size(),
          "dimension lists differ in length");
  Dims out;
  for (size_t i = 0; i < d.lhs_batch.size(); ++i) {
    require(n, l.dims.at(idx(d.lhs_batch[i])) == r.dims.at(idx(d.rhs_batch[i])), "batch dimensions differ");
    out.push_back(l.dims[idx(d.lhs_batch[i])]);
  }
  for (size_t i = 0; i < d.lhs_contract.size(); ++i) {
    require(n, l.dims.at(idx(d.lhs_contract[i])) == r.dims.at(idx(d.rhs_contract[i])),
            fmt::format("contracted sizes differ: {} and {}", l.dims[idx(d.lhs_contract[i])], r.dims[idx(d.rhs_contract[i])]));
  }
  for (const int64_t i : remaining(l.rank(), d.lhs_batch, d.lhs_contract)) out.push_back(l.dims[idx(i)]);
  for (const int64_t i : remaining(r.rank(), d.rhs_batch, d.rhs_contract)) out.push_back(r.dims[idx(i)]);
  return {{static_cast<DType>(n.attr<int64_t>("_dtype")), out}};
}

// Positions in the product of batch, lhs's free and rhs's free dimensions: [batch…, lhs free…, rhs free…].
// ct(self) is the product of ct and other over other's free dimensions, then its dimensions are put in self's order. The two
// are multiplied in the order that leaves nothing to transpose where self is [batch…, contracted…, free…] or [batch…, free…,
// contracted…]: a custom call's result can't be transposed for nothing, as the compiler does with a product of its own.
Value dot_operand_ct(Value ct, Value self, Value other, const Dims& self_batch, const Dims& self_contract,
                     const Dims& other_batch, const Dims& other_contract, bool self_is_lhs, DType summed, bool of_batch) {
  const Dims self_free = remaining(self.rank(), self_batch, self_contract);
  const Dims other_free = remaining(other.rank(), other_batch, other_contract);
  const int64_t nb = static_cast<int64_t>(self_batch.size());
  const int64_t lhs_free = static_cast<int64_t>(self_is_lhs ? self_free.size() : other_free.size());
  const Dims ct_other_free = self_is_lhs ? range(static_cast<int64_t>(other_free.size()), nb + lhs_free) : range(lhs_free, nb);
  const bool contracted_first = !self_contract.empty() && !self_free.empty() && self_contract[0] < self_free[0];
  const Value converted = convert(other, ct.dtype());
  const Value partial = contracted_first
                            ? dot_general(converted, ct, {other_batch, range(nb), other_free, ct_other_free}, summed)
                            : dot_general(ct, converted, {range(nb), other_batch, ct_other_free, other_free}, summed);
  if (of_batch) rows_of_batch(partial);
  // partial: [batch…, self free…, other's contracted in other's order…], or the last two the other way round.
  Dims contracted;
  for (const int64_t d : remaining(other.rank(), other_batch, other_free)) {
    for (size_t k = 0; k < other_contract.size(); ++k) {
      if (other_contract[k] == d) contracted.push_back(self_contract[k]);
    }
  }
  Dims position(static_cast<size_t>(self.rank()));
  int64_t at = 0;
  for (const Dims* group :
       {&self_batch, contracted_first ? &contracted : &self_free, contracted_first ? &self_free : &contracted}) {
    for (const int64_t d : *group) position[idx(d)] = at++;
  }
  return convert(transpose(partial, position), self.dtype());
}

Values vjp_dot(const VjpArgs& a) {
  const auto& d = a.node.attr<DotDims>("dot_dimension_numbers");
  const Value ct = convert(a.ct[0], a.x(0).dtype());
  const DType dtype = a.x(0).dtype(), rhs_summed = a.node.has_attr("_wide_rhs_gradient") ? DType::kF32 : dtype;
  const bool rows = a.node.has_attr("_rows_of_batch");
  Values out(2);
  if (a.wanted[0]) {
    out[0] = dot_operand_ct(ct, a.x(0), a.x(1), d.lhs_batch, d.lhs_contract, d.rhs_batch, d.rhs_contract, true, dtype, rows);
  }
  if (a.wanted[1]) {
    out[1] =
        dot_operand_ct(ct, a.x(1), a.x(0), d.rhs_batch, d.rhs_contract, d.lhs_batch, d.lhs_contract, false, rhs_summed, rows);
  }
  return out;
}

// ---- convolution

// A convolution's attributes in semantic form, every list filled in.
struct Conv {
  ConvDims dims;
  Dims strides, lhs_dilation, rhs_dilation;
  std::vector<std::pair<int64_t, int64_t>> padding;
  int64_t feature_groups, batch_groups;
};

Conv conv_of(const Node& n) {
  return {n.attr<ConvDims>("dimension_numbers"), n.attr<Dims>("window_strides"),     n.attr<Dims>("lhs_dilation"),
          n.attr<Dims>("rhs_dilation"),          n.attr<PairsAttr>("padding").pairs, n.attr<int64_t>("feature_group_count"),
          n.attr<int64_t>("batch_group_count")};
}

Types conv_types(const Node& n) {
  const TensorType &x = n.operands[0].type(), &k = n.operands[1].type();
  const Conv c = conv_of(n);
  const size_t spatial = c.dims.input_spatial.size();
  require(n, x.dtype == k.dtype, "input and kernel have different dtypes: convert one of them");
  require(n, x.rank() == k.rank() && x.rank() == static_cast<int64_t>(spatial) + 2,
          "input, kernel and dimension numbers differ in rank");
  require(n,
          c.strides.size() == spatial && c.padding.size() == spatial && c.lhs_dilation.size() == spatial &&
              c.rhs_dilation.size() == spatial,
          "strides, padding and dilations need one entry for each spatial dimension");
  const int64_t batch = x.dims[idx(c.dims.input_batch)], features = x.dims[idx(c.dims.input_feature)];
  const int64_t kernel_in = k.dims[idx(c.dims.kernel_input_feature)], kernel_out = k.dims[idx(c.dims.kernel_output_feature)];
  require(n, c.feature_groups >= 1 && c.batch_groups >= 1 && (c.feature_groups == 1 || c.batch_groups == 1),
          "bad group counts");
  require(n, features == kernel_in * c.feature_groups,
          fmt::format("{} input features against {} x {} groups of the kernel", features, kernel_in, c.feature_groups));
  require(n, kernel_out % c.feature_groups == 0 && kernel_out % c.batch_groups == 0 && batch % c.batch_groups == 0,
          "groups do not divide");
  Dims out(x.dims.size());
  out[idx(c.dims.output_batch)] = batch / c.batch_groups;
  out[idx(c.dims.output_feature)] = kernel_out;
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t size =
        dilated(x.dims[idx(c.dims.input_spatial[i])], c.lhs_dilation[i]) + c.padding[i].first + c.padding[i].second;
    const int64_t window = dilated(k.dims[idx(c.dims.kernel_spatial[i])], c.rhs_dilation[i]);
    require(n, c.strides[i] >= 1 && size >= 0, "bad strides or padding");
    out[idx(c.dims.output_spatial[i])] = size < window ? 0 : (size - window) / c.strides[i] + 1;
  }
  return {{x.dtype, out}};
}

// Splits axis `axis` of x into [groups, size / groups] and merges `groups` (major) into axis `into`.
Value move_groups(Value x, int64_t axis, int64_t into, int64_t groups) {
  Dims split = x.dims();
  split[idx(axis)] /= groups;
  split.insert(split.begin() + axis, groups);  // groups at `axis`, the rest at axis + 1
  Value y = reshape(x, split);
  const int64_t target = into + (into >= axis ? 1 : 0);  // position of `into` in the split array
  Dims permutation;
  for (int64_t i = 0; i < y.rank(); ++i) {
    if (i == axis) continue;
    if (i == target) permutation.push_back(axis);
    permutation.push_back(i);
  }
  y = transpose(y, permutation);
  Dims merged = x.dims();
  merged[idx(axis)] /= groups;
  merged[idx(into)] *= groups;
  return reshape(y, merged);
}

Value conv_input_ct(const VjpArgs& a, const Conv& c) {
  const Value x = a.x(0), ct = a.ct[0];
  Value kernel = a.x(1);
  const ConvDims& d = c.dims;
  const int64_t groups = std::max(c.feature_groups, c.batch_groups);
  if (groups > 1) kernel = move_groups(kernel, d.kernel_output_feature, d.kernel_input_feature, groups);
  ConvDims t = d;
  t.input_batch = d.output_batch, t.input_feature = d.output_feature, t.input_spatial = d.output_spatial;
  t.output_batch = d.input_batch, t.output_feature = d.input_feature, t.output_spatial = d.input_spatial;
  std::swap(t.kernel_input_feature, t.kernel_output_feature);
  ConvOptions o;
  o.strides = c.lhs_dilation, o.lhs_dilation = c.strides, o.rhs_dilation = c.rhs_dilation, o.feature_groups = groups;
  for (size_t i = 0; i < c.strides.size(); ++i) {
    const int64_t in = dilated(x.dim(d.input_spatial[i]), c.lhs_dilation[i]),
                  k = dilated(kernel.dim(d.kernel_spatial[i]), c.rhs_dilation[i]);
    const int64_t out = dilated(ct.dim(d.output_spatial[i]), c.strides[i]);
    const int64_t before = k - c.padding[i].first - 1;
    o.padding.emplace_back(before, in + k - 1 - out - before);
  }
  Value result = convolution(ct, reverse(kernel, d.kernel_spatial), t, o);
  if (c.batch_groups > 1) result = move_groups(result, d.input_feature, d.input_batch, c.batch_groups);
  return result;
}

Value conv_kernel_ct(const VjpArgs& a, const Conv& c) {
  const Value x = a.x(0), ct = a.ct[0];
  const ConvDims& d = c.dims;
  ConvDims t;  // batch and feature change places in all three
  t.input_batch = d.input_feature, t.input_feature = d.input_batch, t.input_spatial = d.input_spatial;
  t.kernel_output_feature = d.output_feature, t.kernel_input_feature = d.output_batch, t.kernel_spatial = d.output_spatial;
  t.output_batch = d.kernel_input_feature, t.output_feature = d.kernel_output_feature, t.output_spatial = d.kernel_spatial;
  ConvOptions o;
  o.strides = c.rhs_dilation, o.lhs_dilation = c.lhs_dilation, o.rhs_dilation = c.strides;
  o.feature_groups = c.batch_groups, o.batch_groups = c.feature_groups;
  for (size_t i = 0; i < c.strides.size(); ++i) {
    const int64_t in = dilated(x.dim(d.input_spatial[i]), c.lhs_dilation[i]),
                  k = dilated(a.x(1).dim(d.kernel_spatial[i]), c.rhs_dilation[i]);
    const int64_t out = dilated(ct.dim(d.output_spatial[i]), c.strides[i]);
    o.padding.emplace_back(c.padding[i].first, out - in + k - c.padding[i].first - 1);
  }
  return convolution(x, ct, t, o);
}

Values vjp_conv(const VjpArgs& a) {
  const Conv c = conv_of(a.node);
  return {a.wanted[0] ? conv_input_ct(a, c) : Value{}, a.wanted[1] ? conv_kernel_ct(a, c) : Value{}};
}

}  // namespace

constinit const OpDef kOpDotGeneral("stablehlo.dot_general", dot_types, vjp_dot);
constinit const OpDef kOpConvolution("stablehlo.convolution", conv_types, vjp_conv);

Value dot_general(Value lhs, Value rhs, const DotDims& dims, std::optional<DType> result) {
  return make_node(kOpDotGeneral, {lhs, rhs},
                   {{"dot_dimension_numbers", dims}, {"_dtype", static_cast<int64_t>(result.value_or(lhs.dtype()))}})
      ->result();
}

Value widen_rhs_gradient(Value product) {
  TESSERA_CHECK(product.node->op == &kOpDotGeneral);
  product.node->attrs["_wide_rhs_gradient"] = true;
  return product;
}

Value rows_of_batch(Value product) {
  TESSERA_CHECK(product.node->op == &kOpDotGeneral);
  product.node->attrs["_rows_of_batch"] = true;
  return product;
}

Value matmul(Value lhs, Value rhs) {
  if (rhs.rank() < 2 || lhs.rank() < 1 || (rhs.rank() > 2 && lhs.rank() != rhs.rank())) {
    throw usage_error(fmt::format("matmul of {} and {}", to_string(lhs.type()), to_string(rhs.type())), current_scope(),
                      "the right side must be a matrix, or have the left side's batch dimensions");
  }
  if (rhs.rank() == 2) return dot_general(lhs, rhs, {{}, {}, {lhs.rank() - 1}, {0}});
  const Dims batch = range(rhs.rank() - 2);
  return dot_general(lhs, rhs, {batch, batch, {lhs.rank() - 1}, {rhs.rank() - 2}});
}

Value convolution(Value input, Value kernel, const ConvDims& dims, const ConvOptions& options) {
  const size_t spatial = dims.input_spatial.size();
  const auto or_ones = [&](const Dims& d) { return d.empty() ? Dims(spatial, 1) : d; };
  PairsAttr padding{options.padding};
  if (padding.pairs.empty()) padding.pairs.assign(spatial, {0, 0});
  return make_node(kOpConvolution, {input, kernel},
                   {{"dimension_numbers", dims},
                    {"window_strides", or_ones(options.strides)},
                    {"padding", padding},
                    {"lhs_dilation", or_ones(options.lhs_dilation)},
                    {"rhs_dilation", or_ones(options.rhs_dilation)},
                    {"feature_group_count", options.feature_groups},
                    {"batch_group_count", options.batch_groups}})
      ->result();
}

Value conv2d_nhwc(Value input, Value kernel, const ConvOptions& options) {
  ConvDims d;
  d.input_batch = 0, d.input_feature = 3, d.input_spatial = {1, 2};
  d.kernel_input_feature = 2, d.kernel_output_feature = 3, d.kernel_spatial = {0, 1};
  d.output_batch = 0, d.output_feature = 3, d.output_spatial = {1, 2};
  return convolution(input, kernel, d, options);
}

}  // namespace tessera::ir
