#pragma once
// Matrix products on this processor's fastest unit (unit.h), of f32 or bf16 numbers, with sums in f32. The result does not depend
// on the number of threads.

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "host/units/parallel_for.h"
#include "host/units/scratch.h"
#include "host/units/unit.h"

namespace tessera::host {

// c[i] = a[i] b[i] for i < batch: dense, row-major matrices [m, k] x [k, n] -> [m, n].
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

// An array of f32 or bf16 numbers. `packed`: a right side as pack_right() left it, of numbers of that dtype.
struct Source {
  const void* data;
  DType dtype;
  bool packed = false;
};
struct Destination {
  void* data;
  DType dtype;
};

// `c` does not overlap `a` or `b`. On the unit for the dtype of `a`, or on a given one.
void multiply(const Product& product, Source a, Source b, Destination c, const ParallelFor& parallel);
void multiply_on(const Unit& unit, const Product& product, Source a, Source b, Destination c, const ParallelFor& parallel);

// The left side of a product: a matrix in memory, or rows that are gathered block by block when they are needed.
struct LeftSide {
  int64_t rows, k;
  // Rows [row, row + rows) over [k, k + length): where they lie, or in `scratch`.
  std::function<Operand(int64_t row, int64_t rows, int64_t k, int64_t length, Scratch& scratch)> block;
  std::optional<Operand> whole;  // all of it, where it lies in memory

  LeftSide(const Operand& operand);  // NOLINT(google-explicit-constructor): an operand is one
  LeftSide(int64_t all_rows, int64_t all_k, decltype(block) gather) : rows(all_rows), k(all_k), block(std::move(gather)) {}
};

// The right side of one product, packed once for many products with it. Both depend on its sizes, its dtype and the unit alone; a
// left side of the same dtype is multiplied with it. `to` is aligned to Scratch::kAlign bytes.
int64_t packed_right_bytes(const Unit& unit, const Product& product, DType dtype);
void pack_right(const Unit& unit, const Product& product, Source b, uint8_t* to, const ParallelFor& parallel);

// The same as an operand of ProductPhases: how many bytes, and what packs it.
int64_t packed_operand_bytes(const Unit& unit, int64_t columns, int64_t k);
Phase pack_operand(const Unit& unit, const Operand& b, uint8_t* to);

// The right side of a product: a matrix in memory, or one that pack_operand() has packed. The operand has its sizes either way.
struct RightSide {
  Operand operand;
  const uint8_t* packed = nullptr;

  // NOLINTNEXTLINE(google-explicit-constructor): an operand is one
  RightSide(const Operand& side, const uint8_t* packed_side = nullptr) : operand(side), packed(packed_side) {}
};

// What makes the result of a block, once it is summed up: rows [row, row + rows) and columns [column, column + columns), the first
// number at `sums` and the rows `stride` numbers apart. Where c is f32 the sums are c's own numbers; else it writes c as well.
using Finish = std::function<void(int64_t row, int64_t rows, int64_t column, int64_t columns, float* sums, int64_t stride)>;

// The phases of one product. What they share lives in the object, and in `scratch` of the calling thread, which stay as they are
// until the phases are done.
class ProductPhases {
 public:
  // `finish` may be null.
  ProductPhases(const Unit& unit, LeftSide a, const RightSide& b, Destination c, Finish finish = nullptr);

  // Appends them.
  void add_to(std::vector<Phase>& phases, Scratch& scratch);

 private:
  void pack(int64_t task, int64_t k, int64_t length) const;
  void multiply(int64_t task, int64_t k, int64_t length) const;
  int64_t left_panels() const;
  int64_t right_panels_to_pack() const;
  const uint8_t* right_at(int64_t k) const;
  float* sums_at(int64_t row, int64_t column) const;

  const Unit& unit_;
  const LeftSide a_;
  const Operand b_;
  const uint8_t* const packed_before_;  // all of b, or null
  const Destination c_;
  const Finish finish_;
  int64_t chunk_;                      // of k: packed at a time
  int64_t group_rows_, group_panels_;  // of the result that a task computes …
  int64_t row_groups_, column_groups_;
  bool packs_left_;  // so that not each group of columns does
  uint8_t *packed_ = nullptr, *packed_left_ = nullptr;
  float* sums_ = nullptr;  // of the whole result, where chunks are added up and it is not f32
};

}  // namespace tessera::host
