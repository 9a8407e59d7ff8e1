#pragma once
// The ops as functions on values. Functions of two values broadcast as NumPy does and take plain numbers on either side; dtypes
// must agree (write convert). Axes may be negative. A shape that does not fit throws a usage Error naming op, shapes and scope.
// Semantics are StableHLO's (github.com/openxla/stablehlo, docs/spec.md) unless said otherwise.

#include <optional>
#include <utility>

#include "ir/graph.h"
#include "mesh/partition.h"

namespace tessera::ir {

// ---- constants
Value constant(double value, DType dtype = DType::kF32, const Dims& dims = {});
// Raw elements in row-major order.
Value constant_array(const TensorType& type, std::span<const std::byte> bytes);
Value constant_f32(const Dims& dims, const std::vector<float>& values);
Value zeros(const TensorType& type);
Value zeros_like(Value x);
Value ones_like(Value x);
Value iota(const TensorType& type, int64_t axis);

// ---- elementwise, one operand
Value abs(Value x);
Value negate(Value x);
Value sign(Value x);
Value exp(Value x);
Value expm1(Value x);
Value log(Value x);
Value log1p(Value x);
Value sqrt(Value x);
Value rsqrt(Value x);
Value cbrt(Value x);
Value tanh(Value x);
Value sin(Value x);
Value cos(Value x);
Value erf(Value x);  // chlo.erf
Value floor(Value x);
Value round_nearest_even(Value x);
Value is_finite(Value x);                     // -> bool
Value convert(Value x, DType dtype);          // no node when the dtype is already that
Value widen(Value x);                         // floats of 16 bits become f32; anything else stays
Value bitcast_convert(Value x, DType dtype);  // same element size

// ---- elementwise, two operands (broadcasting)
Value add(Value a, Value b);
Value subtract(Value a, Value b);
Value multiply(Value a, Value b);
Value divide(Value a, Value b);
Value maximum(Value a, Value b);  // gradient: half to each on a tie
Value minimum(Value a, Value b);
Value power(Value a, Value b);
Value remainder(Value a, Value b);
Value logical_and(Value a, Value b);  // of integers: bit by bit
Value logical_or(Value a, Value b);
Value logical_xor(Value a, Value b);
Value shift_left(Value a, Value b);
Value shift_right_logical(Value a, Value b);

enum class Compare { kEq, kNe, kLt, kLe, kGt, kGe };
Value compare(Compare direction, Value a, Value b);            // -> bool
Value select(Value condition, Value on_true, Value on_false);  // broadcasting
Value clamp(Value low, Value x, Value high);                   // low and high: scalars or x's shape

inline Value operator+(Value a, Value b) { return add(a, b); }
inline Value operator-(Value a, Value b) { return subtract(a, b); }
inline Value operator*(Value a, Value b) { return multiply(a, b); }
inline Value operator/(Value a, Value b) { return divide(a, b); }
inline Value operator-(Value x) { return negate(x); }
// A plain number takes the value's dtype.
Value operator+(Value a, double b);
Value operator+(double a, Value b);
Value operator-(Value a, double b);
Value operator-(double a, Value b);
Value operator*(Value a, double b);
Value operator*(double a, Value b);
Value operator/(Value a, double b);
Value operator/(double a, Value b);

// ---- shape
// Operand dimension i becomes result dimension `dims_map[i]`; sizes equal or 1.
Value broadcast_in_dim(Value x, const Dims& dims, const Dims& dims_map);
Value broadcast_to(Value x, const Dims& dims);  // NumPy rule: aligned at the end; no node when already that shape
Value reshape(Value x, Dims dims);              // one size may be -1
Value transpose(Value x, const Dims& permutation);
Value slice(Value x, const Dims& start, const Dims& limit, const Dims& strides = {});
Value slice_axis(Value x, int64_t axis, int64_t start, int64_t limit, int64_t stride = 1);
Value dynamic_slice(Value x, const Values& starts, const Dims& sizes);  // starts: one integer scalar a dimension
Value dynamic_update_slice(Value x, Value update, const Values& starts);
Value pad(Value x, Value value, const Dims& low, const Dims& high, const Dims& interior = {});  // negative low/high crop
Value concatenate(const Values& xs, int64_t axis);
Value reverse(Value x, const Dims& axes);
Value squeeze(Value x, int64_t axis);      // drops an axis of size 1
Value expand_dims(Value x, int64_t axis);  // inserts an axis of size 1

// ---- indexing
Value gather(Value operand, Value indices, const GatherDims& dims, const Dims& slice_sizes, bool indices_are_sorted = false);
enum class ScatterKind { kAdd, kReplace };  // kReplace is differentiable when indices are unique
Value scatter(Value operand, Value indices, Value updates, const ScatterDims& dims, ScatterKind kind = ScatterKind::kAdd,
              bool unique_indices = false);

// ---- products
Value dot_general(Value lhs, Value rhs, const DotDims& dims, std::optional<DType> result = {});
// The same product, with the gradient of its right side summed in f32 whatever the dtype, over devices too where the summed
// dimension is split, and rounded to the dtype afterwards.
Value widen_rhs_gradient(Value product);
// The product of two matrices, where the rows of the left one follow the batch, so that devices which hold rows of the batch may
// each multiply their own, here and in its gradients.
Value rows_of_batch(Value product);
Value matmul(Value lhs, Value rhs);  // [.., m, k] x [k, n], or equal leading batch dimensions on both

struct ConvOptions {
  Dims strides;                                      // per spatial dimension; empty = 1
  std::vector<std::pair<int64_t, int64_t>> padding;  // empty = none; may be negative
  Dims lhs_dilation, rhs_dilation;                   // empty = 1
  int64_t feature_groups = 1, batch_groups = 1;
};
Value convolution(Value input, Value kernel, const ConvDims& dims, const ConvOptions& options = {});
// NHWC input, HWIO kernel, NHWC output.
Value conv2d_nhwc(Value input, Value kernel, const ConvOptions& options = {});

// ---- reductions
enum class Reduce { kSum, kProduct, kMax, kMin, kAnd, kOr };
Value reduce(Reduce kind, Value x, const Dims& axes, bool keep_dims = false);
// Sums and means of 16-bit floats are computed in f32 and rounded once: plugins add up in the type they are given, and in bf16
// 300 ones make 256.
Value sum(Value x, const Dims& axes, bool keep_dims = false);
Value mean(Value x, const Dims& axes, bool keep_dims = false);
Value reduce_max(Value x, const Dims& axes, bool keep_dims = false);
Value reduce_min(Value x, const Dims& axes, bool keep_dims = false);
Value sum_all(Value x);  // to a scalar

struct WindowOptions {
  Dims dimensions, strides;  // one for each dimension of the operand; empty strides = 1
  Dims base_dilations, window_dilations;
  std::vector<std::pair<int64_t, int64_t>> padding;
};
// kSum, kMax, kMin or kProduct over windows; padding counts as the reduction's identity.
Value reduce_window(Reduce kind, Value x, const WindowOptions& options);
// For each window of `operand` the place of its maximum (kGe) or minimum (kLe) receives the window's element of `source`, added
// up.
Value select_and_scatter(Value operand, Value source, const WindowOptions& options, Compare selection = Compare::kGe);

// Sorts all operands along `axis` by the first one, stably; ascending unless `descending`. All operands have the same shape.
Values sort(const Values& operands, int64_t axis, bool descending = false);

// ---- control
using LoopFn = std::function<Values(const Values&)>;
// Not reverse-differentiable: use scan.
Values while_loop(const Values& init, const std::function<Value(const Values&)>& condition, const LoopFn& body);
Values optimization_barrier(const Values& xs);

// What the gradient of a scan keeps of each iteration besides the carries that enter it (which are always kept).
struct RematPolicy {
  enum class Kind { kSaveNothing, kSaveNamed, kSaveAll } kind = Kind::kSaveNothing;
  std::vector<std::string> names;  // for kSaveNamed: names given by checkpoint_name
  bool automatic = false;          // layers take kSaveAll in its place for targets that keep all (Target::keeps_activations)
};
struct ScanOptions {
  RematPolicy remat;
  bool reverse = false;
  // The body is written out for each iteration, here and in the gradient: nothing saved is stacked and taken apart again, and
  // the program grows with the length.
  bool unroll = false;
  // Where it is unrolled: the gradient computes again what the policy does not keep. Without this the compiler would keep it, since
  // the forward pass has computed the same. A loop needs no such barrier.
  bool prevent_cse = false;
};
struct ScanResult {
  Values carry;  // after the last iteration
  Values ys;     // stacked: [length, …]
};
// body(carry, x) -> {carry, y}, `length` times. The body sees one slice of each of the stacked arrays xs, [length, …], at a time.
// Arrays of the outer graph used inside are constants of the loop; Graph::slice_of adds further stacked arrays from within.
ScanResult scan(int64_t length, const Values& init, const Values& xs,
                const std::function<ScanResult(const Values& carry, const Values& x)>& body, const ScanOptions& options = {});

// ---- gradients, names
Value stop_gradient(Value x);
// The same value, laid out over the mesh as `spec` says, and its cotangent as `gradient` says. A parameter at rest as S and
// used whole is reshard(p, whole, S): an all-gather forward, a reduce-scatter backward. Needs EmitOptions::mesh.
Value reshard(Value x, const mesh::PartitionSpec& spec, const mesh::PartitionSpec& gradient);
Value checkpoint_name(Value x, const std::string& name);  // names a value for RematPolicy::kSaveNamed
// `outputs`, with the gradient with respect to `inputs` given by `vjp` instead of by how they were computed.
Values custom_gradient(const Values& inputs, const Values& outputs, CustomVjp vjp);

// ---- functions of the host
// A typed-FFI custom call (api version 4), without a gradient. Layers emit composites (ir/composite.h) instead. One with a side
// effect is neither merged with an equal one nor left out. The scope that is being traced travels with the attributes.
Values ffi_call(const std::string& target, const Values& operands, const std::vector<TensorType>& results,
                AttrDict attributes = {}, bool has_side_effect = false);
// A call that the plugin's compiler itself knows by this name, with its configuration as text without line ends. Operands are
// row-major; `layouts`: the dimensions of each result from minor to major.
Values compiler_call(const std::string& target, const Values& operands, const std::vector<TensorType>& results,
                     const std::string& configuration, const std::vector<Dims>& layouts);
// The attributes of such a call, as ffi_call was given them.
AttrDict call_attributes(const Node& call);

}  // namespace tessera::ir
