#include "objectives/distillation.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text/text.h"
#include "ir/functions.h"
#include "ir/ops.h"
#include "objectives/softmax.h"

namespace tessera::objectives {

using ir::Value;
using ir::Values;

namespace {

class Distillation final : public ClassifierObjective {
 public:
  Distillation(DistillationOptions options, const Smoothing& smoothing, int64_t classes)
      : ClassifierObjective(classes), options_(std::move(options)), smoothing_(smoothing) {}

  std::optional<TeacherSource> teacher() const override { return TeacherSource{options_.teacher, options_.weights}; }

  // Of each head: the first learns from the labels, the last from the teacher.
  Values outputs(const models::Model& model, const nn::Scope& scope, const Batch& batch) const override {
    return as_classifier(model).head_logits(scope, batch.images);
  }
  Value loss(const Values& outputs, const Batch& batch) const override {
    const Value task = softmax_cross_entropy(outputs[0], batch, smoothing_);
    return task * (1 - options_.alpha) + distillation(outputs, batch) * options_.alpha;
  }

  std::vector<std::string> metrics() const override { return {"prec@1", "distillation"}; }
  Value metric(size_t index, const Values& outputs, const Batch& batch) const override {
    return index == 0 ? ClassifierObjective::metric(0, outputs, batch) : distillation(outputs, batch);
  }

 private:
  Value distillation(const Values& outputs, const Batch& batch) const {
    TESSERA_CHECK(batch.teacher, "a batch without the teacher's logits");
    if (options_.kind == "hard") return hard_distillation(outputs.back(), batch.teacher);
    return soft_distillation(outputs.back(), batch.teacher, options_.temperature);
  }

  DistillationOptions options_;
  Smoothing smoothing_;
};

}  // namespace

std::shared_ptr<const Objective> make_distillation(config::Section section, const DataInputs& available) {
  DistillationOptions options;
  section.bind(options);
  if (options.teacher.empty()) section.fail_missing("teacher", "for example teacher = \"runs/vit_l16\"");
  const std::vector<std::string> kinds = {"soft", "hard"};
  if (options.kind != kinds[0] && options.kind != kinds[1]) {
    section.fail("kind", fmt::format("is \"{}\"", options.kind), suggest_name(options.kind, kinds));
  }
  if (!(options.temperature > 0)) section.fail("temperature", fmt::format("must be above 0, and is {}", options.temperature));
  if (!(options.alpha >= 0 && options.alpha <= 1)) {
    section.fail("alpha", fmt::format("must lie in [0, 1], and is {}", options.alpha));
  }
  const Smoothing smoothing = read_smoothing(section, options.label_smoothing, options.style, available.classes);
  return std::make_shared<Distillation>(options, smoothing, available.classes);
}

Value soft_distillation(Value logits, Value teacher, double temperature) {
  const Value log_p = ir::log_softmax(ir::convert(logits, DType::kF32) / temperature);
  const Value log_q = ir::log_softmax(ir::convert(teacher, DType::kF32) / temperature);
  return ir::sum(ir::exp(log_q) * (log_q - log_p), {1}) * (temperature * temperature);
}

Value hard_distillation(Value logits, Value teacher) { return softmax_cross_entropy(logits, ir::argmax(teacher, 1)); }

const ObjectiveKind kDistillation = {"distillation", "cross-entropy of the labels and of a second model's answers",
                                     make_distillation, config::keys_of<DistillationOptions>};

}  // namespace tessera::objectives
