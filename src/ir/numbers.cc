#include "ir/numbers.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tessera::ir {
namespace {

thread_local NumbersScope* t_numbers = nullptr;
constexpr float kOfFormulas[] = {-1, 0, 0.5, 1, 2};

}  // namespace

NumbersScope::NumbersScope(Graph& graph) : graph_(graph) {
  TESSERA_CHECK(!t_numbers, "numbers become parameters of one graph at a time");
  t_numbers = this;
}

NumbersScope::~NumbersScope() { t_numbers = nullptr; }

NumbersScope* NumbersScope::current() { return t_numbers; }

Value NumbersScope::parameter(double number) {
  const auto value = static_cast<float>(number);
  if (!std::isfinite(value) || std::ranges::count(kOfFormulas, value) > 0) return {};
  Value& known = known_[number];
  if (!known) {
    known = graph_.add_parameter({DType::kF32, {}}, "number");
    values_.push_back(value);
  }
  return current_graph().adopt(known);
}

}  // namespace tessera::ir
