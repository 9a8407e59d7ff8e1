// Highway compiles this file once for each instruction set and picks one when the program runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "host/attention.cc"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "host/attention.h"
#include "host/call.h"
#include "host/kernel.h"
#include "ir/composites.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::host::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What is not exported is local: position-independent code does not inline functions that others could replace.
namespace {

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;

// The sums of kRows x kVectors vectors stay in registers: most of them, with some left for a row of the right side.
constexpr int kRows = 6, kVectors = HWY_TARGET <= HWY_AVX3 ? 4 : 2;

HWY_INLINE int64_t lanes() { return static_cast<int64_t>(hn::Lanes(D())); }
int64_t padded(int64_t columns) { return (columns + lanes() - 1) / lanes() * lanes(); }

// A left side: element (i, k) at data[i * row + k * step].
struct Left {
  const float* data;
  int64_t row, step;
};
// Row-major, rows `stride` apart, and a whole number of vectors in a row.
struct Rows {
  float* data;
  int64_t stride;
};

template <int kR, int kV>
HWY_INLINE void multiply_block(Left a, Rows b, Rows c, int64_t inner) {
  const D d;
  V sums[kR][kV];
  for (int i = 0; i < kR; ++i) {
    for (int j = 0; j < kV; ++j) sums[i][j] = hn::Zero(d);
  }
  for (int64_t k = 0; k < inner; ++k) {
    V right[kV];
    for (int j = 0; j < kV; ++j) right[j] = hn::Load(d, b.data + k * b.stride + j * lanes());
    for (int i = 0; i < kR; ++i) {
      const V left = hn::Set(d, a.data[i * a.row + k * a.step]);
      for (int j = 0; j < kV; ++j) sums[i][j] = hn::MulAdd(left, right[j], sums[i][j]);
    }
  }
  for (int i = 0; i < kR; ++i) {
    for (int j = 0; j < kV; ++j) hn::Store(sums[i][j], d, c.data + i * c.stride + j * lanes());
  }
}

template <int kV>
void multiply_columns(Left a, Rows b, Rows c, int64_t rows, int64_t inner) {
  int64_t i = 0;
  const auto block = [&]<int kR>() {
    multiply_block<kR, kV>({a.data + i * a.row, a.row, a.step}, b, {c.data + i * c.stride, c.stride}, inner);
    i += kR;
  };
  while (i + kRows <= rows) block.template operator()<kRows>();
  if (i + 4 <= rows) block.template operator()<4>();
  if (i + 2 <= rows) block.template operator()<2>();
  if (i < rows) block.template operator()<1>();
}

// c [rows, columns] = a [rows, inner] b [inner, columns]; columns a whole number of vectors.
void multiply(Left a, Rows b, Rows c, int64_t rows, int64_t inner, int64_t columns) {
  const int64_t vectors = columns / lanes(), blocks = (vectors + kVectors - 1) / kVectors;
  for (int64_t block = 0, j = 0; block < blocks; ++block) {
    // 13 vectors are 4 + 3 + 3 + 3: a block of one would wait for its left side.
    const int64_t count = (vectors - j + blocks - block - 1) / (blocks - block);
    const Rows part_b{b.data + j * lanes(), b.stride}, part_c{c.data + j * lanes(), c.stride};
    if (count == 1) multiply_columns<1>(a, part_b, part_c, rows, inner);
    if (count == 2) multiply_columns<2>(a, part_b, part_c, rows, inner);
    if constexpr (kVectors > 2) {
      if (count == 3) multiply_columns<3>(a, part_b, part_c, rows, inner);
      if (count == 4) multiply_columns<4>(a, part_b, part_c, rows, inner);
    }
    j += count;
  }
}

// `rows` rows of `width` numbers, `from_stride` apart, times `scale`; the rest of each row is zero.
void copy_rows(const float* from, int64_t from_stride, int64_t rows, int64_t width, float scale, Rows to) {
  for (int64_t i = 0; i < rows; ++i) {
    float* out = to.data + i * to.stride;
    for (int64_t x = 0; x < width; ++x) out[x] = from[i * from_stride + x] * scale;
    std::fill(out + width, out + to.stride, 0.0F);
  }
}

// The transpose of that: to [width, rows].
void copy_columns(const float* from, int64_t from_stride, int64_t rows, int64_t width, float scale, Rows to) {
  for (int64_t x = 0; x < width; ++x) {
    float* out = to.data + x * to.stride;
    for (int64_t i = 0; i < rows; ++i) out[i] = from[i * from_stride + x] * scale;
    std::fill(out + rows, out + to.stride, 0.0F);
  }
}

// A row of scores -> exp(score - greatest), zero from `keys` on; gives the sum.
HWY_INLINE float exponentials(float* row, int64_t keys, int64_t stride) {
  const D d;
  std::fill(row + keys, row + stride, -std::numeric_limits<float>::infinity());
  V most = hn::Load(d, row);
  for (int64_t j = lanes(); j < stride; j += lanes()) most = hn::Max(most, hn::Load(d, row + j));
  most = hn::MaxOfLanes(d, most);
  V sum = hn::Zero(d);
  for (int64_t j = 0; j < stride; j += lanes()) {
    // Far below: exp is 0 there, and must not see -inf.
    const V x = hn::Max(hn::Sub(hn::Load(d, row + j), most), hn::Set(d, -104.0F));
    const V e = hn::IfThenElseZero(hn::Gt(x, hn::Set(d, -104.0F)), hn::Exp(d, x));
    hn::Store(e, d, row + j);
    sum = hn::Add(sum, e);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

HWY_INLINE void scale_row(float* row, float factor, int64_t stride) {
  const D d;
  for (int64_t j = 0; j < stride; j += lanes()) hn::Store(hn::Mul(hn::Load(d, row + j), hn::Set(d, factor)), d, row + j);
}

// Where a head's numbers lie: those of token t at `t * stride` from its first.
struct Head {
  const AttentionShape& shape;
  int64_t index;  // of batch * heads
  int64_t first(int64_t tokens, int64_t stride) const {
    return index / shape.heads * tokens * stride + index % shape.heads * shape.width;
  }
};

// A thread's memory, handed out piece by piece.
class Pieces {
 public:
  explicit Pieces(float* memory) : next_(memory) {}
  Rows take(int64_t rows, int64_t stride) {
    const Rows piece{next_, stride};
    next_ += rows * stride;
    return piece;
  }

 private:
  float* next_;
};

void forward_head(const Head& head, const float* q, const float* k, const float* v, float* out) {
  thread_local Scratch scratch;
  const AttentionShape& s = head.shape;
  const int64_t keys = padded(s.keys), width = padded(s.width), stride = s.stride, out_stride = s.heads * s.width;
  const int64_t queries_at = head.first(s.queries, stride), keys_at = head.first(s.keys, stride);
  Pieces pieces(scratch.get<float>(s.width * keys + s.keys * width + s.queries * keys + s.queries * width));
  const Rows k_columns = pieces.take(s.width, keys), v_rows = pieces.take(s.keys, width);
  const Rows scores = pieces.take(s.queries, keys), mixed = pieces.take(s.queries, width);
  copy_columns(k + keys_at, stride, s.keys, s.width, 1 / std::sqrt(static_cast<float>(s.width)), k_columns);
  copy_rows(v + keys_at, stride, s.keys, s.width, 1, v_rows);

  multiply({q + queries_at, stride, 1}, k_columns, scores, s.queries, s.width, keys);
  float* to = out + head.first(s.queries, out_stride);
  // The division by the sum of a row waits for the product: fewer numbers.
  for (int64_t i = 0; i < s.queries; ++i) to[i * out_stride] = 1 / exponentials(scores.data + i * keys, s.keys, keys);
  multiply({scores.data, keys, 1}, v_rows, mixed, s.queries, s.keys, width);
  for (int64_t i = 0; i < s.queries; ++i) {
    const float factor = to[i * out_stride];
    for (int64_t x = 0; x < s.width; ++x) to[i * out_stride + x] = mixed.data[i * width + x] * factor;
  }
}

// dS in place of dP; P and dP hold `keys` columns, zero (P) or finite (dP) in the padding.
void scores_gradient(Rows p, Rows dp, int64_t queries) {
  const D d;
  for (int64_t i = 0; i < queries; ++i) {
    const float* row = p.data + i * p.stride;
    float* gradient = dp.data + i * dp.stride;
    V sum = hn::Zero(d);
    for (int64_t j = 0; j < p.stride; j += lanes()) sum = hn::MulAdd(hn::Load(d, row + j), hn::Load(d, gradient + j), sum);
    const V mean = hn::SumOfLanes(d, sum);
    for (int64_t j = 0; j < p.stride; j += lanes()) {
      hn::Store(hn::Mul(hn::Load(d, row + j), hn::Sub(hn::Load(d, gradient + j), mean)), d, gradient + j);
    }
  }
}

void backward_head(const Head& head, const float* q, const float* k, const float* v, const float* dout, float* dq, float* dk,
                   float* dv) {
  thread_local Scratch scratch;
  const AttentionShape& s = head.shape;
  const int64_t keys = padded(s.keys), width = padded(s.width), stride = s.stride, out_stride = s.heads * s.width;
  const int64_t queries_at = head.first(s.queries, stride), keys_at = head.first(s.keys, stride);
  const int64_t out_at = head.first(s.queries, out_stride);
  const int64_t tokens = std::max(s.queries, s.keys);
  const float scale = 1 / std::sqrt(static_cast<float>(s.width));
  Pieces pieces(
      scratch.get<float>(2 * s.width * keys + s.keys * width + 2 * s.queries * width + tokens * width + 2 * s.queries * keys));
  const Rows k_columns = pieces.take(s.width, keys), v_columns = pieces.take(s.width, keys),
             k_rows = pieces.take(s.keys, width);
  const Rows q_rows = pieces.take(s.queries, width), dout_rows = pieces.take(s.queries, width);
  const Rows result = pieces.take(tokens, width), p = pieces.take(s.queries, keys), dp = pieces.take(s.queries, keys);
  copy_columns(k + keys_at, stride, s.keys, s.width, scale, k_columns);
  copy_columns(v + keys_at, stride, s.keys, s.width, 1, v_columns);
  copy_rows(k + keys_at, stride, s.keys, s.width, scale, k_rows);
  copy_rows(q + queries_at, stride, s.queries, s.width, scale, q_rows);
  copy_rows(dout + out_at, out_stride, s.queries, s.width, 1, dout_rows);
  const auto give = [&](float* to, int64_t rows) {
    for (int64_t i = 0; i < rows; ++i) std::copy_n(result.data + i * width, s.width, to + i * stride);
  };

  multiply({q + queries_at, stride, 1}, k_columns, p, s.queries, s.width, keys);
  for (int64_t i = 0; i < s.queries; ++i) {
    scale_row(p.data + i * keys, 1 / exponentials(p.data + i * keys, s.keys, keys), keys);
  }
  multiply({p.data, 1, keys}, dout_rows, result, s.keys, s.queries, width);
  give(dv + keys_at, s.keys);
  multiply({dout + out_at, out_stride, 1}, v_columns, dp, s.queries, s.width, keys);
  scores_gradient(p, dp, s.queries);
  multiply({dp.data, keys, 1}, k_rows, result, s.queries, s.keys, width);
  give(dq + queries_at, s.queries);
  multiply({dp.data, 1, keys}, q_rows, result, s.keys, s.queries, width);
  give(dk + keys_at, s.keys);
}

}  // namespace

void forward(const AttentionShape& shape, int64_t index, const float* q, const float* k, const float* v, float* out) {
  forward_head({shape, index}, q, k, v, out);
}

void backward(const AttentionShape& shape, int64_t index, const float* q, const float* k, const float* v, const float* dout,
              float* dq, float* dk, float* dv) {
  backward_head({shape, index}, q, k, v, dout, dq, dk, dv);
}

}  // namespace tessera::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::host {
namespace {
HWY_EXPORT(forward);
HWY_EXPORT(backward);

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

void attention_f32(const AttentionShape& shape, const float* q, const float* k, const float* v, float* out,
                   const ParallelFor& parallel) {
  parallel({by_heads(shape, [&](int64_t i) { HWY_DYNAMIC_DISPATCH(forward)(shape, i, q, k, v, out); })});
}

void attention_gradient_f32(const AttentionShape& shape, const float* q, const float* k, const float* v, const float* dout,
                            float* dq, float* dk, float* dv, const ParallelFor& parallel) {
  parallel({by_heads(shape, [&](int64_t i) { HWY_DYNAMIC_DISPATCH(backward)(shape, i, q, k, v, dout, dq, dk, dv); })});
}

// ---- as calls

namespace {

// q [batch, queries, heads, width] and k; nothing when they do not go together.
std::optional<AttentionShape> shape_of(const CallArray<const float>& q, const CallArray<const float>& k) {
  if (q.rank() != 4 || k.rank() != 4) return std::nullopt;
  if (q.dims[0] != k.dims[0] || q.dims[2] != k.dims[2] || q.dims[3] != k.dims[3]) return std::nullopt;
  return AttentionShape{.batch = q.dims[0], .heads = q.dims[2], .queries = q.dims[1], .keys = k.dims[1], .width = q.dims[3]};
}

bool attention(const Call& call) {
  if (!call.has(3, 1)) return false;
  const auto q = call.argument(0), k = call.argument(1), v = call.argument(2);
  const auto out = call.result(0);
  const auto shape = shape_of(q, k);
  if (!shape || !v.same_shape(k) || !out.same_shape(q)) return false;
  attention_f32(*shape, q.data, k.data, v.data, out.data, call.parallel());
  return true;
}

bool attention_gradient(const Call& call) {
  if (!call.has(4, 3)) return false;
  const auto q = call.argument(0), k = call.argument(1), v = call.argument(2), dout = call.argument(3);
  const auto dq = call.result(0), dk = call.result(1), dv = call.result(2);
  const auto shape = shape_of(q, k);
  if (!shape || !v.same_shape(k) || !dout.same_shape(q) || !dq.same_shape(q) || !dk.same_shape(k) || !dv.same_shape(k)) {
    return false;
  }
  attention_gradient_f32(*shape, q.data, k.data, v.data, dout.data, dq.data, dk.data, dv.data, call.parallel());
  return true;
}

// [batch * tokens, 3 * heads * width]; nothing when the numbers do not go together.
std::optional<AttentionShape> shape_of(const CallArray<const float>& qkv, const std::optional<ir::SelfAttention>& a) {
  if (qkv.rank() != 2 || !a || a->tokens < 1 || a->heads < 1) return std::nullopt;
  if (qkv.dims[0] % a->tokens != 0 || qkv.dims[1] % (3 * a->heads) != 0) return std::nullopt;
  return AttentionShape{.batch = qkv.dims[0] / a->tokens,
                        .heads = a->heads,
                        .queries = a->tokens,
                        .keys = a->tokens,
                        .width = qkv.dims[1] / (3 * a->heads),
                        .stride = qkv.dims[1]};
}

bool self_attention(const Call& call) {
  if (!call.has(1, 1)) return false;
  const auto qkv = call.argument(0);
  const auto out = call.result(0);
  const auto shape = shape_of(qkv, call.attributes<ir::SelfAttention>());
  if (!shape || !out.has(qkv.dims[0] * qkv.dims[1] / 3)) return false;
  const int64_t features = shape->stride / 3;
  attention_f32(*shape, qkv.data, qkv.data + features, qkv.data + 2 * features, out.data, call.parallel());
  return true;
}

bool self_attention_gradient(const Call& call) {
  if (!call.has(2, 1)) return false;
  const auto qkv = call.argument(0), dout = call.argument(1);
  const auto dqkv = call.result(0);
  const auto shape = shape_of(qkv, call.attributes<ir::SelfAttention>());
  if (!shape || !dout.has(qkv.dims[0] * qkv.dims[1] / 3) || !dqkv.same_shape(qkv)) return false;
  const int64_t features = shape->stride / 3;
  const float* q = qkv.data;
  float* dq = dqkv.data;
  attention_gradient_f32(*shape, q, q + features, q + 2 * features, dout.data, dq, dq + features, dq + 2 * features,
                         call.parallel());
  return true;
}

// Devices take whole examples.
bool takes(const ir::Composite& composite, const Types& operands, const Devices& devices) {
  const std::string& name = composite.name();
  if (!all_f32(operands)) return false;
  if (name == "attention" || name == "attention_gradient") return devices.can_share(operands[0].dims[0]);
  if (name != "self_attention" && name != "self_attention_gradient") return false;
  return devices.can_share(operands[0].dims[0] / composite.attributes<ir::SelfAttention>().tokens);
}

constexpr Function kForward{"attention", attention}, kBackward{"attention_gradient", attention_gradient},
    kSelfForward{"self_attention", self_attention}, kSelfBackward{"self_attention_gradient", self_attention_gradient};
constexpr Entry kFunctions[] = {kEntry<kForward>, kEntry<kBackward>, kEntry<kSelfForward>, kEntry<kSelfBackward>};

}  // namespace

constinit const Kernel kAttention{.functions = kFunctions, .takes = takes, .takes_bf16_as_f32 = true};

}  // namespace tessera::host
#endif
