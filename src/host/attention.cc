// Highway compiles this file once for each instruction set and picks one when the program runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "host/attention.cc"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "host/attention.h"
#include "host/call.h"
#include "host/kernel.h"
#include "host/units/exponential-inl.h"
#include "host/units/floats.h"
#include "host/units/scratch.h"
#include "host/units/vectors.h"
#include "ir/composites.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::host::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What is not exported is local: position-independent code does not inline functions that others could replace.
namespace {

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;

HWY_INLINE int64_t lanes() { return static_cast<int64_t>(hn::Lanes(D())); }

}  // namespace

// Rows of scores, a whole number of vectors `stride` apart -> exp(scale (score - greatest)), zero from `keys` on. One over the
// sum of each goes to `shares`.
void exponentials(float* scores, int64_t rows, int64_t keys, int64_t stride, float scale, float* shares) {
  const D d;
  const V lowest = hn::Set(d, -104), factor = hn::Set(d, scale);
  for (int64_t i = 0; i < rows; ++i) {
    float* row = scores + i * stride;
    std::fill(row + keys, row + stride, -std::numeric_limits<float>::infinity());
    V most = hn::Load(d, row);
    for (int64_t j = lanes(); j < stride; j += lanes()) most = hn::Max(most, hn::Load(d, row + j));
    most = hn::MaxOfLanes(d, most);
    V sum = hn::Zero(d);
    for (int64_t j = 0; j < stride; j += lanes()) {
      const V x = hn::Mul(hn::Sub(hn::Load(d, row + j), most), factor);
      // exp is 0 at `lowest` and below; a NaN stays one.
      const V e = exponential(d, hn::IfThenElse(hn::Lt(x, lowest), lowest, x));
      hn::Store(e, d, row + j);
      sum = hn::Add(sum, e);
    }
    shares[i] = 1 / hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

// rows *= factors, one a row.
void scale_rows(float* numbers, int64_t rows, int64_t stride, const float* factors) {
  const D d;
  for (int64_t i = 0; i < rows; ++i) {
    float* row = numbers + i * stride;
    const V factor = hn::Set(d, factors[i]);
    for (int64_t j = 0; j < stride; j += lanes()) hn::Store(hn::Mul(hn::Load(d, row + j), factor), d, row + j);
  }
}

// scale P * (dP - rowsum(P * dP)) in place of dP. P is zero from `keys` on; what dP is there does not matter.
void scores_gradient(const float* probabilities, float* gradients, int64_t rows, int64_t keys, int64_t stride, float scale) {
  const D d;
  const V factor = hn::Set(d, scale);
  for (int64_t i = 0; i < rows; ++i) {
    const float* p = probabilities + i * stride;
    float* dp = gradients + i * stride;
    std::fill(dp + keys, dp + stride, 0.0F);
    V sum = hn::Zero(d);
    for (int64_t j = 0; j < stride; j += lanes()) sum = hn::MulAdd(hn::Load(d, p + j), hn::Load(d, dp + j), sum);
    const V mean = hn::SumOfLanes(d, sum);
    for (int64_t j = 0; j < stride; j += lanes()) {
      const V own = hn::Mul(hn::Load(d, p + j), factor);
      hn::Store(hn::Mul(own, hn::Sub(hn::Load(d, dp + j), mean)), d, dp + j);
    }
  }
}

}  // namespace tessera::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::host {
namespace {
HWY_EXPORT(exponentials);
HWY_EXPORT(scale_rows);
HWY_EXPORT(scores_gradient);

// The matrix unit packs both sides of a product, which takes longer than products of one head.
const Unit& unit_of(DType dtype) {
  return dtype == DType::kBF16 && vector_bf16_available() ? vector_bf16_unit() : vector_unit();
}

constexpr int64_t kAlign = 16;  // numbers: a vector
int64_t padded(int64_t count) { return (count + kAlign - 1) / kAlign * kAlign; }

// One head of one example: its tokens in the arrays, and the products of its matrices.
class Head {
 public:
  Head(const AttentionShape& shape, int64_t index) : s_(shape), index_(index), unit_(unit_of(shape.dtype)) {}

  void forward(const void* q, const void* k, const void* v, void* out) const {
    thread_local Scratch scratch;
    const int64_t keys = padded(s_.keys), width = padded(s_.width);
    const int64_t right = std::max(unit_.packed_bytes(s_.keys, s_.width), unit_.packed_bytes(s_.width, s_.keys));
    auto* scores = scratch.get<float>(s_.queries * (keys + width) + padded(s_.queries) + right / 4);
    float *mixed = scores + s_.queries * keys, *shares = mixed + s_.queries * width;
    auto* packed = reinterpret_cast<uint8_t*>(shares + padded(s_.queries));
    product(queries(q), keys_of(k), scores, keys, packed);
    HWY_DYNAMIC_DISPATCH(exponentials)(scores, s_.queries, s_.keys, keys, scale(), shares);
    product(of(scores, s_.queries, s_.keys, keys), transposed(keys_of(v)), mixed, width, packed);
    // The division by the sum of a row waits for the product: fewer numbers.
    HWY_DYNAMIC_DISPATCH(scale_rows)(mixed, s_.queries, width, shares);
    give(mixed, s_.queries, width, out, s_.heads * s_.width);
  }

  void backward(const void* q, const void* k, const void* v, const void* dout, void* dq, void* dk, void* dv) const {
    thread_local Scratch scratch;
    const int64_t keys = padded(s_.keys), width = padded(s_.width), tokens = std::max(s_.queries, s_.keys);
    const int64_t right = std::max(unit_.packed_bytes(tokens, s_.width), unit_.packed_bytes(s_.width, tokens));
    auto* p = scratch.get<float>(2 * s_.queries * keys + tokens * width + padded(s_.queries) + right / 4);
    float *dp = p + s_.queries * keys, *result = dp + s_.queries * keys, *shares = result + tokens * width;
    auto* packed = reinterpret_cast<uint8_t*>(shares + padded(s_.queries));
    product(queries(q), keys_of(k), p, keys, packed);
    HWY_DYNAMIC_DISPATCH(exponentials)(p, s_.queries, s_.keys, keys, scale(), shares);
    HWY_DYNAMIC_DISPATCH(scale_rows)(p, s_.queries, keys, shares);
    const Operand cotangents = tokens_of(dout, s_.queries, s_.heads * s_.width);
    product(transposed(of(p, s_.queries, s_.keys, keys)), transposed(cotangents), result, width, packed);
    give(result, s_.keys, width, dv, s_.stride);
    product(cotangents, keys_of(v), dp, keys, packed);
    HWY_DYNAMIC_DISPATCH(scores_gradient)(p, dp, s_.queries, s_.keys, keys, scale());
    const Operand ds = of(dp, s_.queries, s_.keys, keys);
    product(ds, transposed(keys_of(k)), result, width, packed);
    give(result, s_.queries, width, dq, s_.stride);
    product(transposed(ds), transposed(queries(q)), result, width, packed);
    give(result, s_.keys, width, dk, s_.stride);
  }

 private:
  float scale() const { return 1 / std::sqrt(static_cast<float>(s_.width)); }

  // Where the head's numbers lie, in an array whose tokens are `stride` apart.
  int64_t first(int64_t tokens, int64_t stride) const {
    return index_ / s_.heads * tokens * stride + index_ % s_.heads * s_.width;
  }
  Operand tokens_of(const void* data, int64_t tokens, int64_t stride) const {
    return {at(data, s_.dtype, first(tokens, stride)), s_.dtype, tokens, s_.width, stride, 1};
  }
  Operand queries(const void* data) const { return tokens_of(data, s_.queries, s_.stride); }
  Operand keys_of(const void* data) const { return tokens_of(data, s_.keys, s_.stride); }
  static Operand of(const float* numbers, int64_t rows, int64_t k, int64_t stride) {
    return {numbers, DType::kF32, rows, k, stride, 1};
  }
  static Operand transposed(Operand x) { return {x.data, x.dtype, x.k, x.rows, x.k_stride, x.row_stride}; }

  // c = a b^T.
  void product(const Operand& a, const Operand& b, float* c, int64_t stride, uint8_t* packed) const {
    const int64_t panels = unit_.panels(b.rows);
    unit_.pack(b, 0, panels, 0, unit_.steps(b.k), packed);
    unit_.multiply(a, unit_.part(packed, b.k, b.rows, 0, panels), c, stride, true);
  }

  void give(const float* from, int64_t tokens, int64_t from_stride, void* to, int64_t stride) const {
    for (int64_t i = 0; i < tokens; ++i, from += from_stride) {
      const int64_t number = first(tokens, stride) + i * stride;
      if (s_.dtype == DType::kF32) {
        std::copy_n(from, s_.width, static_cast<float*>(to) + number);
      } else {
        narrow(from, s_.width, static_cast<uint16_t*>(to) + number);
      }
    }
  }

  const AttentionShape& s_;
  const int64_t index_;  // of batch * heads
  const Unit& unit_;
};

// Calls of `each` for every head of the batch; heads that are soon done are taken together, those of an image as a rule.
Phase by_heads(const AttentionShape& s, std::function<void(int64_t)> each) {
  constexpr int64_t kEnough = int64_t{1} << 17;  // multiply-adds that are worth handing out
  const int64_t all = s.batch * s.heads, work = 2 * s.queries * s.keys * s.width;
  const int64_t group = std::max<int64_t>(1, kEnough / std::max<int64_t>(1, work));
  return {(all + group - 1) / group, [=, each = std::move(each)](int64_t task) {
            const int64_t last = std::min(all, (task + 1) * group);
            for (int64_t i = task * group; i < last; ++i) each(i);
          }};
}

}  // namespace

void attention(const AttentionShape& shape, const void* q, const void* k, const void* v, void* out,
               const ParallelFor& parallel) {
  parallel({by_heads(shape, [&](int64_t i) { Head(shape, i).forward(q, k, v, out); })});
}

void attention_gradient(const AttentionShape& shape, const void* q, const void* k, const void* v, const void* dout, void* dq,
                        void* dk, void* dv, const ParallelFor& parallel) {
  parallel({by_heads(shape, [&](int64_t i) { Head(shape, i).backward(q, k, v, dout, dq, dk, dv); })});
}

// ---- as calls

namespace {

using Floats = CallArray<const void>;

// q [batch, queries, heads, width] and k; nothing when they do not go together.
std::optional<AttentionShape> shape_of(const Floats& q, const Floats& k) {
  if (q.rank() != 4 || k.rank() != 4 || q.dtype != k.dtype) return std::nullopt;
  if (q.dims[0] != k.dims[0] || q.dims[2] != k.dims[2] || q.dims[3] != k.dims[3]) return std::nullopt;
  AttentionShape shape{.batch = q.dims[0], .heads = q.dims[2], .queries = q.dims[1], .keys = k.dims[1], .width = q.dims[3]};
  shape.dtype = q.dtype;
  return shape;
}

bool attention_call(const Call& call) {
  if (!call.has_floats(3, 1)) return false;
  const auto q = call.floats(0), k = call.floats(1), v = call.floats(2);
  const auto out = call.float_result(0);
  const auto shape = shape_of(q, k);
  if (!shape || !v.same_type(k) || !out.same_type(q)) return false;
  attention(*shape, q.data, k.data, v.data, out.data, call.parallel());
  return true;
}

bool attention_gradient_call(const Call& call) {
  if (!call.has_floats(4, 3)) return false;
  const auto q = call.floats(0), k = call.floats(1), v = call.floats(2), dout = call.floats(3);
  const auto dq = call.float_result(0), dk = call.float_result(1), dv = call.float_result(2);
  const auto shape = shape_of(q, k);
  if (!shape || !v.same_type(k) || !dout.same_type(q) || !dq.same_type(q) || !dk.same_type(k) || !dv.same_type(k)) return false;
  attention_gradient(*shape, q.data, k.data, v.data, dout.data, dq.data, dk.data, dv.data, call.parallel());
  return true;
}

// [batch * tokens, 3 * heads * width]; nothing when the numbers do not go together.
std::optional<AttentionShape> shape_of(const Floats& qkv, const std::optional<ir::SelfAttention>& a) {
  if (qkv.rank() != 2 || !a || a->tokens < 1 || a->heads < 1) return std::nullopt;
  if (qkv.dims[0] % a->tokens != 0 || qkv.dims[1] % (3 * a->heads) != 0) return std::nullopt;
  return AttentionShape{.batch = qkv.dims[0] / a->tokens,
                        .heads = a->heads,
                        .queries = a->tokens,
                        .keys = a->tokens,
                        .width = qkv.dims[1] / (3 * a->heads),
                        .stride = qkv.dims[1],
                        .dtype = qkv.dtype};
}

bool self_attention_call(const Call& call) {
  if (!call.has_floats(1, 1)) return false;
  const auto qkv = call.floats(0);
  const auto out = call.float_result(0);
  const auto shape = shape_of(qkv, call.attributes<ir::SelfAttention>());
  if (!shape || out.dtype != qkv.dtype || !out.has(qkv.dims[0] * qkv.dims[1] / 3)) return false;
  const int64_t features = shape->stride / 3;
  attention(*shape, qkv.data, at(qkv.data, qkv.dtype, features), at(qkv.data, qkv.dtype, 2 * features), out.data,
            call.parallel());
  return true;
}

bool self_attention_gradient_call(const Call& call) {
  if (!call.has_floats(2, 1)) return false;
  const auto qkv = call.floats(0), dout = call.floats(1);
  const auto dqkv = call.float_result(0);
  const auto shape = shape_of(qkv, call.attributes<ir::SelfAttention>());
  if (!shape || dout.dtype != qkv.dtype || !dout.has(qkv.dims[0] * qkv.dims[1] / 3) || !dqkv.same_type(qkv)) return false;
  const int64_t features = shape->stride / 3;
  const auto part = [&](const auto& array, int64_t number) { return at(array.data, array.dtype, number * features); };
  attention_gradient(*shape, qkv.data, part(qkv, 1), part(qkv, 2), dout.data, dqkv.data, part(dqkv, 1), part(dqkv, 2),
                     call.parallel());
  return true;
}

// Devices take whole examples.
bool takes(const ir::Composite& composite, const Types& operands, const Devices& devices) {
  const std::string& name = composite.name();
  if (!all_f32(operands) && !all_bf16(operands)) return false;
  if (name == "attention" || name == "attention_gradient") return devices.can_share(operands[0].dims[0]);
  if (name != "self_attention" && name != "self_attention_gradient") return false;
  return devices.can_share(operands[0].dims[0] / composite.attributes<ir::SelfAttention>().tokens);
}

constexpr Function kForward{"attention", attention_call}, kBackward{"attention_gradient", attention_gradient_call},
    kSelfForward{"self_attention", self_attention_call}, kSelfBackward{"self_attention_gradient", self_attention_gradient_call};
constexpr Entry kFunctions[] = {kEntry<kForward>, kEntry<kBackward>, kEntry<kSelfForward>, kEntry<kSelfBackward>};

}  // namespace

constinit const Kernel kAttention{.functions = kFunctions, .takes = takes};

}  // namespace tessera::host
#endif
