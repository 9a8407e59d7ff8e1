#pragma once
// What layers emit as composites (ir/composite.h), by name: attributes, operands and results. Each has its gradient under the
// name <name>_gradient, with the same attributes: (operands, cotangents of the results) -> cotangents of the operands.
//
//   attention       NoAttributes. (q [batch, queries, heads, width], k, v [batch, keys, heads, width]) -> as q:
//                   softmax(q k^T / sqrt(width)) v
//   self_attention  SelfAttention. (qkv [batch * tokens, 3 * heads * width]) -> [batch * tokens, heads * width]: the same where
//                   queries, keys and values are one array, side by side
//   convolution     Window. (x [batch, h, w, in], kernel [window, window, in / groups, features]) -> [batch, h', w', features]
//   depthwise       Window. (x [batch, h, w, channels], kernel [window, window, 1, channels]) -> [batch, h', w', channels]: a
//                   convolution of as many groups as channels
//   batch_norm      BatchNorm. (x [rows, channels], scale, bias [channels][, residual [rows, channels]]) -> (y, mean [channels],
//                   variance [channels]): y = relu((x - mean) / sqrt(variance + epsilon) * scale + bias + residual), the
//                   variance being the biased one of the rows. What has rows is f32 or bf16, the rest f32
//   batch_norm_inference  BatchNorm. (x [rows, channels], scale, bias, mean, variance [channels][, residual [rows, channels]]) ->
//                   [rows, channels]: as y above, with a mean and a variance that are given
//   batch_norm_backward  BatchNorm. (dy, x, scale, mean, variance[, y]) -> (dx, dscale, dbias[, dresidual]): its gradient where
//                   nothing but y has a cotangent; y with a ReLU
//   max_pool        Window. (x [batch, h, w, c]) -> [batch, h', w', c]: the largest number that a window sees; backward, the
//                   first of several largest gets all
//   dense           DenseLayer. (x [rows, in], kernel [in, out], bias [out][, scale, offset [in]][, residual [rows, out]]) ->
//                   [rows, out]: f(x) kernel + bias + residual; scale and offset with a norm. What has rows is f32 or bf16, the
//                   rest f32; the product is of f(x) and kernel in the dtype of x, the rest is computed in f32
//   sum_of_squares  SumOfSquares. (any number of arrays of f32) -> scalar: of all their numbers
//   dense_backward  DenseLayer. (dy, x, kernel[, scale, offset[, add [rows, in]]]) -> (dx + add, dkernel, dbias[, dscale,
//                   doffset]): the gradient of `dense` where there is something to add to it, and no residual

#include <cstdint>
#include <vector>

#include "mesh/partition.h"

namespace tessera::ir {

struct SelfAttention {
  int64_t heads = 1, tokens = 1;

  template <class Visitor>
  void visit(Visitor&& field) {
    field("heads", heads, "they divide a third of the width");
    field("tokens", tokens, "of an example: they divide the rows");
  }
};

// A square window that goes over pictures. What the padding adds on every side is zeros for a convolution, and nothing for a
// maximum.
struct Window {
  int64_t window = 1, stride = 1, padding = 0;

  template <class Visitor>
  void visit(Visitor&& field) {
    field("window", window, "pixels of a side");
    field("stride", stride, "pixels from one place of the window to the next");
    field("padding", padding, "pixels on every side");
  }

  // Places of the window along a side of so many pixels.
  int64_t places(int64_t size) const { return (size + 2 * padding - window) / stride + 1; }
};

struct SumOfSquares {
  std::vector<mesh::PartitionSpec> specs;  // where each array lies on the mesh; empty where that is not known

  template <class Visitor>
  void visit(Visitor&&) {}  // a call needs none of it
};

struct BatchNorm {
  double epsilon = 0;
  bool relu = false, residual = false;

  template <class Visitor>
  void visit(Visitor&& field) {
    field("epsilon", epsilon, "added to the variance");
    field("relu", relu, "what is below 0 becomes 0");
    field("residual", residual, "something is added to the norm");
  }
};

// What is done to a dense layer's input first: nothing, layer norm over each row, the exact GELU, or its approximation by tanh.
enum class DenseInput : int64_t { kPlain, kNorm, kGelu, kGeluTanh };

struct DenseLayer {
  DenseInput input = DenseInput::kPlain;
  double epsilon = 0;  // of the norm

  template <class Visitor>
  void visit(Visitor&& field) {
    field("input", input, "what is done to x first");
    field("epsilon", epsilon, "of the norm");
  }
};

}  // namespace tessera::ir
