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
  double pos_weight = 1;
};

class Binary final : public ClassifierObjective {
 public:
  Binary(const BinaryConfig& config, int64_t classes) : ClassifierObjective(classes), config_(config) {}

  Value loss(const Values& outputs, const Batch& batch) const override {
    Value targets = class_targets(batch, classes(), config_.smoothing);
    if (config_.target_threshold) {
      targets = ir::convert(ir::compare(ir::Compare::kGt, targets, ir::constant(*config_.target_threshold)), DType::kF32);
    }
    const Value each = binary_cross_entropy(outputs[0], targets, config_.pos_weight);
    return config_.sum_classes ? ir::sum(each, {1}) : ir::mean(each, {1});
  }

 private:
  BinaryConfig config_;
};

// A target's value, in [0, 1].
double check_target(const config::Section& section, const char* key, double value) {
  if (!(value >= 0 && value <= 1)) section.fail(key, fmt::format("must lie in [0, 1], and is {}", value));
  return value;
}

}  // namespace

std::shared_ptr<const Objective> make_sigmoid(config::Section section, const DataInputs& data) {
  SigmoidOptions options;
  section.bind(options);
  BinaryConfig config;
  config.smoothing = {check_target(section, "on", options.on), check_target(section, "off", options.off)};
  return std::make_shared<Binary>(config, data.classes);
}

std::shared_ptr<const Objective> make_bce(config::Section section, const DataInputs& data) {
  BceOptions options;
  section.bind(options);
  BinaryConfig config;
  config.smoothing = read_smoothing(section, options.label_smoothing, "timm", data.classes);
  if (options.target_threshold) config.target_threshold = check_target(section, "target_threshold", *options.target_threshold);
  config.sum_classes = options.sum_classes;
  if (!(options.pos_weight > 0)) section.fail("pos_weight", fmt::format("must be above 0, and is {}", options.pos_weight));
  config.pos_weight = options.pos_weight;
  return std::make_shared<Binary>(config, data.classes);
}

Value binary_cross_entropy(Value logits, Value targets, double pos_weight) {
  const Value x = ir::convert(logits, DType::kF32);
  return targets * ir::softplus(-x) * pos_weight + (1.0 - targets) * ir::softplus(x);
}

const ObjectiveKind kBce = {"bce", "timm's binary cross-entropy over classes", make_bce, config::keys_of<BceOptions>};
const ObjectiveKind kSigmoid = {"sigmoid", "big_vision's sigmoid cross-entropy, the sum over classes", make_sigmoid,
                                config::keys_of<SigmoidOptions>};

}  // namespace tessera::objectives
