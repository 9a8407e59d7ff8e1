#include "optim/updates/rectify.h"

#include <cmath>

#include "ir/functions.h"
#include "ir/ops.h"

namespace tessera::optim {

using ir::Value;

namespace {

// 1 - x / (e^x - 1). For small x the plain form loses all digits, so that the series takes its place.
Value one_minus_bernoulli(Value x) {
  const Value x2 = ir::square(x);
  const Value series = x * 0.5 - x2 * (1.0 / 12 - x2 * (1.0 / 720 - x2 * (1.0 / 30240)));
  return ir::select(ir::compare(ir::Compare::kLt, x, ir::constant(0.5)), series, 1.0 - x / ir::expm1(x));
}

}  // namespace

Rectification rectify(double b2, Value step) {
  const double limit = 2 / (1 - b2) - 1, rate = -std::log(b2);
  const Value length = (limit - 2 / rate) + one_minus_bernoulli(step * rate) * (2 / rate);
  const Value known = ir::maximum(length, ir::constant(4.5));  // keeps the root real where it isn't used
  const double at_limit = limit / ((limit - 4) * (limit - 2));
  return {length, ir::sqrt((known - 4.0) * (known - 2.0) / known * at_limit)};
}

}  // namespace tessera::optim
