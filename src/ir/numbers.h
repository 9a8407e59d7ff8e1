#pragma once
// Numbers that a program takes as arguments instead of having them in its text, so that programs which differ in them alone are
// compiled once.

#include <cstdint>
#include <map>
#include <vector>

#include "ir/graph.h"

namespace tessera::ir {

// While one lives, on its thread, the f32 numbers that operations are given as constants become scalar parameters of `graph`,
// which come after those it has; equal ones are one parameter (which numbers are equal shows in the text). -1, 0, 0.5, 1 and 2 stay constants: they belong to formulas, and
// compilers know what to do with them. One at a time.
class NumbersScope {
 public:
  explicit NumbersScope(Graph& graph);
  ~NumbersScope();
  NumbersScope(const NumbersScope&) = delete;
  NumbersScope& operator=(const NumbersScope&) = delete;

  // Of the parameters that were added, in their order.
  const std::vector<float>& values() const { return values_; }

  // The scope of this thread; null where there is none.
  static NumbersScope* current();
  // As seen from the current graph; none where the number stays a constant.
  Value parameter(double number);

 private:
  Graph& graph_;
  std::vector<float> values_;
  std::map<double, Value> known_;  // 1e-3 and 1 - 0.999 are two
};

}  // namespace tessera::ir
