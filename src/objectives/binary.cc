#include "objectives/binary.h"

#include <fmt/format.h>

#include "ir/functions.h"
#include "ir/ops.h"

namespace tessera::objectives {

using ir::Value;
using ir::Values;

namespace {

struct BinaryConfig {
  Smoothing smoothing;
  std::optional<double> target_threshold;
  bool sum_classes = true;
  std::vector<float> pos_weight, class_weights;  // of each class; empty: all 1
};

class Binary final : public ClassifierObjective {
 public:
  Binary(BinaryConfig config, const DataInputs& available)
      : ClassifierObjective(available.classes, available.multi_hot()), config_(std::move(config)) {}

  Value loss(const Values& outputs, const Batch& batch) const override {
    Value targets = class_targets(batch, classes(), config_.smoothing);
    if (config_.target_threshold) {
      targets = ir::convert(ir::compare(ir::Compare::kGt, targets, ir::constant(*config_.target_threshold)), DType::kF32);
    }
    Value each = binary_cross_entropy(outputs[0], targets, row(config_.pos_weight));
    if (!config_.class_weights.empty()) each = each * row(config_.class_weights);
    return config_.sum_classes ? ir::sum(each, {1}) : ir::mean(each, {1});
  }

 private:
  static Value row(const std::vector<float>& numbers) { return numbers.empty() ? Value() : row_of(numbers); }
  BinaryConfig config_;
};

// A target's value, in [0, 1].
double check_target(const config::Section& section, const char* key, double value) {
  if (!(value >= 0 && value <= 1)) section.fail(key, fmt::format("must lie in [0, 1], and is {}", value));
  return value;
}

}  // namespace

std::shared_ptr<const Objective> make_sigmoid(config::Section section, const DataInputs& available) {
  SigmoidOptions options;
  section.bind(options);
  BinaryConfig config;
  config.smoothing = {check_target(section, "on", options.on), check_target(section, "off", options.off)};
  return std::make_shared<Binary>(std::move(config), available);
}

std::shared_ptr<const Objective> make_bce(config::Section section, const DataInputs& available) {
  BceOptions options;
  if (available.multi_label) options.label_smoothing = 0;  // timm's loss takes dense targets as they are
  section.bind(options);
  BinaryConfig config;
  config.smoothing = read_smoothing(section, options.label_smoothing, "timm", available.classes);
  if (options.target_threshold) config.target_threshold = check_target(section, "target_threshold", *options.target_threshold);
  config.sum_classes = options.sum_classes;
  if (options.pos_weight != config::NumbersOrText(1.0))
    config.pos_weight = read_pos_weight(section, options.pos_weight, available);
  if (options.class_weights) config.class_weights = read_class_weights(section, *options.class_weights, available);
  return std::make_shared<Binary>(std::move(config), available);
}

Value binary_cross_entropy(Value logits, Value targets, Value pos_weight) {
  const Value x = ir::convert(logits, DType::kF32);
  const Value of_ones = targets * ir::softplus(-x);
  return (pos_weight ? of_ones * pos_weight : of_ones) + (1.0 - targets) * ir::softplus(x);
}

const ObjectiveKind kBce = {"bce", "timm's binary cross-entropy over classes", make_bce, config::keys_of<BceOptions>};
const ObjectiveKind kSigmoid = {"sigmoid", "big_vision's sigmoid cross-entropy, the sum over classes", make_sigmoid,
                                config::keys_of<SigmoidOptions>};

}  // namespace tessera::objectives
