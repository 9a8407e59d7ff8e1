#include "objectives/contrastive.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text/text.h"
#include "ir/functions.h"
#include "ir/ops.h"
#include "objectives/classifier_objective.h"

namespace tessera::objectives {

using ir::Value;
using ir::Values;

namespace {

class Contrastive final : public Objective {
 public:
  Contrastive(const TokenInput& texts, bool sigmoid) : inputs_{false, {texts}}, sigmoid_(sigmoid) {}

  const Inputs& inputs() const override { return inputs_; }
  bool per_example() const override { return false; }
  void check(const models::Model& model, const config::Section& section) const override {
    check_image_text(model, section);
    if (!sigmoid_ || has_bias(as_image_text(model))) return;
    section.fail("bias_init", "is not given, and the loss siglip needs a bias: nearly every pair is a negative one",
                 "-10 as SigLIP, or the loss softmax");
  }

  Values outputs(const models::Model& model, const nn::Scope& scope, const Batch& batch) const override {
    const models::ImageText& towers = as_image_text(model);
    return {towers.embed_images(scope, batch.images), towers.embed_texts(scope, batch.tokens[0])};
  }
  Values combine_batch(const models::Model& model, const nn::Scope& scope, const Values& vectors) const override {
    return {models::similarities(as_image_text(model), scope, vectors[0], vectors[1])};
  }
  Value loss(const Values& outputs, const Batch&) const override {
    return sigmoid_ ? sigmoid_contrast(outputs[0]) : softmax_contrast(outputs[0]);
  }

  std::vector<std::string> metrics() const override { return {"prec@1"}; }
  Value metric(size_t, const Values& outputs, const Batch&) const override {
    return top_k_correct(outputs[0], ir::iota({DType::kI32, {outputs[0].dim(0)}}, 0), 1);
  }

 private:
  static bool has_bias(const models::ImageText& model) {
    ir::Graph graph;
    const ir::GraphScope scope(graph);
    nn::ParamStore store(graph);
    return static_cast<bool>(model.bias(nn::Scope(store, {})));
  }

  Inputs inputs_;
  bool sigmoid_;
};

// 1 on the diagonal, else 0.
Value identity(Value square) {
  const TensorType type{DType::kI32, square.dims()};
  return ir::convert(ir::compare(ir::Compare::kEq, ir::iota(type, 0), ir::iota(type, 1)), DType::kF32);
}

}  // namespace

std::shared_ptr<const Objective> make_contrastive(config::Section section, const DataInputs& available) {
  ContrastiveOptions options;
  section.bind(options);
  const std::vector<std::string> losses = {"siglip", "softmax"};
  if (options.loss != losses[0] && options.loss != losses[1]) {
    section.fail("loss", fmt::format("is \"{}\"", options.loss), suggest_name(options.loss, losses));
  }
  return std::make_shared<Contrastive>(find_tokens(available, options.tokens, section, "tokens"), options.loss == losses[0]);
}

void check_image_text(const models::Model& model, const config::Section& section) {
  if (model.image_text() != nullptr) return;
  section.fail("name", "does not compare images and texts", "take two_tower, or another objective");
}

const models::ImageText& as_image_text(const models::Model& model) {
  const auto* towers = model.image_text();
  TESSERA_CHECK(towers != nullptr, "{} does not compare images and texts", model.describe());
  return *towers;
}

Value sigmoid_contrast(Value similarities) {
  const Value sign = identity(similarities) * 2.0 - 1.0;
  return ir::sum(ir::softplus(-(sign * similarities)), {1});
}

Value softmax_contrast(Value similarities) {
  const Value own = identity(similarities);
  const auto nll = [&](int64_t axis) { return -ir::sum(own * ir::log_softmax(similarities, axis), {axis}); };
  return (nll(1) + nll(0)) * 0.5;
}

const ObjectiveKind kContrastive = {"contrastive",
                                    "an image and its own text against all others of the batch, as SigLIP or CLIP",
                                    make_contrastive, config::keys_of<ContrastiveOptions>};

}  // namespace tessera::objectives
