#include "evaluators/tta.h"

#include <fmt/format.h>

#include "base/text.h"
#include "ir/functions.h"
#include "ir/ops.h"
#include "objectives/classifier_objective.h"

namespace tessera::evaluators {

Tta read_tta(const config::Section& section, const std::string& text) {
  if (text == "none") return Tta::kNone;
  if (text == "flip") return Tta::kFlip;
  section.fail("tta", fmt::format("is `{}`", text), suggest_name(text, {"none", "flip"}));
}

ir::Value averaged_logits(const models::Model& model, const nn::Scope& scope, ir::Value images, Tta tta) {
  if (tta == Tta::kNone) return objectives::classify(model, scope, images);
  // Row 2 b is image b and row 2 b + 1 its mirror image, so that both lie where the image does on a mesh.
  const int64_t batch = images.dim(0);
  Dims one = images.dims(), both = images.dims();
  one.insert(one.begin() + 1, 1);
  both[0] = 2 * batch;
  const ir::Value shown = ir::concatenate({ir::reshape(images, one), ir::reshape(ir::reverse(images, {2}), one)}, 1);
  const ir::Value logits = ir::convert(objectives::classify(model, scope, ir::reshape(shown, both)), DType::kF32);
  return ir::mean(ir::reshape(logits, {batch, 2, logits.dim(1)}), {1});
}

}  // namespace tessera::evaluators
