#include "objectives/jsd.h"

#include <fmt/format.h>

#include "ir/functions.h"
#include "ir/ops.h"
#include "objectives/softmax.h"

namespace tessera::objectives {

using ir::Value;
using ir::Values;

namespace {

class Jsd final : public ClassifierObjective {
 public:
  Jsd(double alpha, const Smoothing& smoothing, const DataInputs& available)
      : ClassifierObjective(available.classes), alpha_(alpha), smoothing_(smoothing), views_(available.views) {}

  int64_t views() const override { return views_; }

  // An image's loss stands at each of its rows.
  Value loss(const Values& outputs, const Batch& batch) const override {
    const Value labels = ir::slice_axis(batch.labels, 0, 0, batch.labels.dim(0) / views_);
    const Value loss = jsd_cross_entropy(outputs[0], labels, views_, alpha_, smoothing_);
    return ir::concatenate(Values(static_cast<size_t>(views_), loss), 0);
  }

 private:
  double alpha_;
  Smoothing smoothing_;
  int64_t views_;
};

}  // namespace

std::shared_ptr<const Objective> make_jsd(config::Section section, const DataInputs& available) {
  JsdOptions options;
  section.bind(options);
  if (available.views < 2) {
    section.fail("name", "is jsd, which compares views of an image, and data.pp makes one",
                 "split it before what augments: \"… | flip_lr | split(3) | auto_augment(augmix-m3-w3) | normalise\"");
  }
  if (!(options.alpha >= 0)) section.fail("alpha", fmt::format("must be at least 0, and is {}", options.alpha));
  const Smoothing smoothing = read_smoothing(section, options.label_smoothing, "timm", available.classes);
  return std::make_shared<Jsd>(options.alpha, smoothing, available);
}

Value jsd_cross_entropy(Value logits, Value labels, int64_t views, double alpha, const Smoothing& smoothing) {
  const int64_t images = logits.dim(0) / views, classes = logits.dim(1);
  const Value x = ir::reshape(ir::convert(logits, DType::kF32), {views, images, classes});
  const Value clean = softmax_cross_entropy(ir::squeeze(ir::slice_axis(x, 0, 0, 1), 0), labels, smoothing);
  const Value log_p = ir::log_softmax(x), p = ir::exp(log_p);
  const Value log_mixture = ir::log(ir::maximum(ir::mean(p, {0}, true), ir::constant(1e-7)));
  return clean + ir::sum(p * (log_p - log_mixture), {0, 2}) * (alpha / static_cast<double>(views));
}

const ObjectiveKind kJsd = {"jsd", "cross-entropy of clean images and how much answers to their augmented views differ",
                            make_jsd, config::keys_of<JsdOptions>};

}  // namespace tessera::objectives
