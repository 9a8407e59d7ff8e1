#include "objectives/softmax.h"

#include "ir/functions.h"
#include "ir/ops.h"

namespace tessera::objectives {

using ir::Value;
using ir::Values;

namespace {

class Softmax final : public ClassifierObjective {
 public:
  Softmax(const Smoothing& smoothing, std::vector<float> weights, int64_t classes)
      : ClassifierObjective(classes), smoothing_(smoothing), weights_(std::move(weights)) {}

  Value loss(const Values& outputs, const Batch& batch) const override {
    return softmax_cross_entropy(outputs[0], batch, smoothing_, weights_.empty() ? Value() : row_of(weights_));
  }
  bool weighs_examples() const override { return !weights_.empty(); }
  Value example_weights(const Batch& batch) const override {
    if (weights_.empty() || batch.partner_labels) return {};
    return ir::sum(ir::one_hot(batch.labels, classes(), DType::kF32) * row_of(weights_), {1});
  }

 private:
  Smoothing smoothing_;
  std::vector<float> weights_;  // of the classes; empty: all 1
};

}  // namespace

std::shared_ptr<const Objective> make_softmax(config::Section section, const DataInputs& available) {
  SoftmaxOptions options;
  section.bind(options);
  const Smoothing smoothing = read_smoothing(section, options.label_smoothing, options.style, available.classes);
  std::vector<float> weights;
  if (options.class_weights) weights = read_class_weights(section, *options.class_weights, available);
  return std::make_shared<Softmax>(smoothing, std::move(weights), available.classes);
}

Value softmax_cross_entropy(Value logits, Value labels, const Smoothing& smoothing, Value weights) {
  Value log_p = ir::log_softmax(ir::convert(logits, DType::kF32));
  if (weights) log_p = log_p * weights;
  const Value target = ir::one_hot(labels, log_p.dim(-1), DType::kF32);
  const Value loss = -ir::sum(log_p * target, {1});
  if (smoothing.on == 1 && smoothing.off == 0) return loss;
  return loss * (smoothing.on - smoothing.off) - ir::sum(log_p, {1}) * smoothing.off;
}

Value softmax_cross_entropy(Value logits, const Batch& batch, const Smoothing& smoothing, Value weights) {
  const Value own = softmax_cross_entropy(logits, batch.labels, smoothing, weights);
  if (!batch.partner_labels) return own;
  const Value partner = softmax_cross_entropy(logits, batch.partner_labels, smoothing, weights);
  return own * batch.own_share + partner * (1.0 - batch.own_share);
}

const ObjectiveKind kSoftmax = {"softmax", "cross-entropy over classes", make_softmax, config::keys_of<SoftmaxOptions>};

}  // namespace tessera::objectives
