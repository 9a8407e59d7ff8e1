#pragma once
// Matrix products in f32 on the host's matrix unit (Intel AMX), several times as fast as its vector units.
//
// AMX multiplies bf16 and adds in f32. An f32 number is exactly the sum of three bf16 numbers (8 + 8 + 8 bits), so a product of
// two matrices is the sum of nine bf16 products; the three smallest, below 2^-24 of the result, are left out. What remains is
// as exact as f32 products with f32 sums (H. Henry, P. Tang, A. Heinecke: Leveraging the bfloat16 Artificial Intelligence
// Datatype For Higher-Precision Computations, 2019; XLA calls it BF16_BF16_F32_X6). The result does not depend on the number of
// threads.

#include <cstdint>

#include "host/parallel_for.h"

namespace tessera::host {

// c[i] = a[i] b[i] for i < batch: dense, row-major f32 matrices [m, k] x [k, n] -> [m, n].
struct Product {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool a_transposed = false;  // a[i] is stored as [k, m]
  bool b_transposed = false;  // b[i] is stored as [n, k]

  // The attributes of a call.
  template <class Visitor>
  void visit(Visitor&& field) {
    field("batch", batch, "products");
    field("m", m, "rows of a and c");
    field("n", n, "columns of b and c");
    field("k", k, "what is summed over");
    field("a_transposed", a_transposed, "a is [k, m]");
    field("b_transposed", b_transposed, "b is [n, k]");
  }
};

// Whether this machine has the unit and the kernel lets this process use it. The answer does not change.
bool product_f32_available();

// `c` does not overlap `a` or `b`. An operand that is not finite gives NaN; subnormal operands count as zero.
void product_f32(const Product& product, const float* a, const float* b, float* c, const ParallelFor& parallel);

}  // namespace tessera::host
