#include "train/objective.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"
#include "ir/functions.h"
#include "ir/ops.h"

namespace tessera::train {

using ir::Value;

ObjectiveOptions read_objective(config::Section section) {
  const std::string name = section.name("softmax");
  if (name != "softmax") {
    section.fail("name", fmt::format("is \"{}\", which is no objective", name), suggest_name(name, {"softmax"}));
  }
  ObjectiveOptions options;
  section.bind(options);
  if (!(options.label_smoothing >= 0 && options.label_smoothing < 1)) {
    section.fail("label_smoothing", fmt::format("must lie in [0, 1), and is {}", options.label_smoothing));
  }
  return options;
}

Value softmax_cross_entropy(Value logits, Value labels, double label_smoothing) {
  const Value log_p = ir::log_softmax(ir::convert(logits, DType::kF32));
  const Value target = ir::one_hot(labels, log_p.dim(-1), DType::kF32);
  const Value loss = -ir::sum(log_p * target, {1});
  if (label_smoothing == 0) return loss;
  return loss * (1 - label_smoothing) - ir::mean(log_p, {1}) * label_smoothing;
}

Value top_k_correct(Value logits, Value labels, int64_t k) {
  // The label's place is how many classes stand before it, so that no sort is needed.
  const Value x = ir::convert(logits, DType::kF32);
  const Value target = ir::one_hot(labels, x.dim(-1), DType::kF32);
  const Value own =
      ir::sum(ir::select(ir::compare(ir::Compare::kNe, target, ir::zeros_like(target)), x, ir::zeros_like(x)), {1}, true);
  const Value classes = ir::iota({DType::kI32, x.dims()}, 1);
  const Value column = ir::expand_dims(labels, 1);
  const Value tie = ir::logical_and(ir::compare(ir::Compare::kEq, x, own), ir::compare(ir::Compare::kLt, classes, column));
  const Value before = ir::logical_or(ir::compare(ir::Compare::kGt, x, own), tie);
  const Value place = ir::sum(ir::convert(before, DType::kF32), {1});
  const Value correct = ir::compare(ir::Compare::kLt, place, ir::constant(static_cast<double>(k)));
  return ir::convert(ir::logical_and(correct, ir::is_finite(ir::sum(x, {1}))), DType::kF32);
}

}  // namespace tessera::train
