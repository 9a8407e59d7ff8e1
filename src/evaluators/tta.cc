#include "evaluators/tta.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text/text.h"
#include "ir/functions.h"
#include "ir/ops.h"
#include "objectives/classifier_objective.h"

namespace tessera::evaluators {

namespace {

// torchvision's center_crop: Python rounds a half to the even number.
int64_t centred(int64_t size, int64_t part) { return std::lrint(static_cast<double>(size - part) / 2); }

}  // namespace

Tta read_tta(const config::Section& section, const std::string& text) {
  static const std::vector<std::string> names = {"none", "flip", "five_crops", "ten_crops"};
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) section.fail("tta", fmt::format("is `{}`", text), suggest_name(text, names));
  return static_cast<Tta>(found - names.begin());
}

std::vector<View> tta_views(Tta tta, int64_t height, int64_t width, int64_t rows, int64_t columns) {
  if (tta == Tta::kNone) return {{}};
  if (tta == Tta::kFlip) return {{}, {0, 0, true}};
  const int64_t bottom = height - rows, right = width - columns, middle = centred(width, columns);
  std::vector<View> views = {{0, 0}, {0, right}, {bottom, 0}, {bottom, right}, {centred(height, rows), middle}};
  if (tta == Tta::kFiveCrops) return views;
  // The same crops of the mirror image, as places of the image.
  for (size_t i = 0; i < 5; ++i) views.push_back({views[i].top, right - views[i].left, true});
  return views;
}

ir::Value averaged_logits(const models::Model& model, const nn::Scope& scope, ir::Value images, Tta tta) {
  if (tta == Tta::kNone) return objectives::classify(model, scope, images);
  // Rows N b to N b + N - 1 are the views of image b, so that all lie where the image does on a mesh.
  const int64_t batch = images.dim(0), rows = model.input().height, columns = model.input().width;
  const std::vector<View> views = tta_views(tta, images.dim(1), images.dim(2), rows, columns);
  const auto count = std::ssize(views);
  ir::Values shown;
  for (const View& view : views) {
    ir::Value part = ir::slice_axis(images, 1, view.top, view.top + rows);
    part = ir::slice_axis(part, 2, view.left, view.left + columns);
    if (view.mirrored) part = ir::reverse(part, {2});
    shown.push_back(ir::expand_dims(part, 1));
  }
  const ir::Value all = ir::reshape(ir::concatenate(shown, 1), {count * batch, rows, columns, images.dim(3)});
  const ir::Value logits = ir::convert(objectives::classify(model, scope, all), DType::kF32);
  return ir::mean(ir::reshape(logits, {batch, count, logits.dim(1)}), {1});
}

}  // namespace tessera::evaluators
