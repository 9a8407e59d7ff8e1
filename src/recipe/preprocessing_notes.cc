#include "recipe/preprocessing_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text/call.h"
#include "base/text/text.h"

namespace tessera::recipe {
namespace {

bool close(const std::array<float, 3>& a, const std::array<float, 3>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::abs(a[i] - b[i]) > 1e-5f * std::max(1.0f, std::abs(b[i]))) return false;
  }
  return true;
}

bool same_values(const data::PixelScale& a, const data::PixelScale& b) {
  return close(a.scale, b.scale) && close(a.offset, b.offset);
}

// What the chain says of values: those of its ops that scale them.
std::string values_of(const data::Pp& pp) {
  std::vector<std::string> ops;
  for (const Call& call : parse_chain(pp.text())) {
    if (call.name == "normalise" || call.name.ends_with("value_range")) ops.push_back(call.text);
  }
  return ops.empty() ? "0 to 255" : join(ops, " | ");
}

// Of the first op that resizes; empty where none does.
std::string interpolation_of(const std::string& pp) {
  for (const Call& call : parse_chain(pp)) {
    if (call.name.find("resize") == std::string::npos) continue;
    for (const CallArg& arg : call.args) {
      if (arg.key == "interpolation") return arg.value;
    }
    return "bilinear";
  }
  return "";
}

}  // namespace

std::vector<std::string> evaluation_notes(const Recipe& recipe) {
  std::vector<std::string> notes;
  const data::Pp& training = recipe.data.pp();
  for (const EvalPlan& plan : recipe.evals) {
    if (plan.sets[0].texts > 0) continue;
    const data::Pp& own = plan.sets[0].data.pp();
    if (same_values(own.pixel_scale(), training.pixel_scale())) continue;
    notes.push_back(
        fmt::format("`eval.{}.data.pp` scales values otherwise than `data.pp`: {} and {}; the model sees other numbers "
                    "than it learns from",
                    plan.name, values_of(own), values_of(training)));
  }
  return notes;
}

std::optional<std::string> weights_note(const Recipe& recipe, const std::string& weights_pp) {
  if (weights_pp.empty()) return std::nullopt;
  const data::Pp theirs(weights_pp, data::PpUse::kEval, "the weights' preprocessing");
  const data::Pp& ours = recipe.data.pp();
  std::vector<std::string> differences;
  if (!same_values(theirs.pixel_scale(), ours.pixel_scale()))
    differences.push_back(fmt::format("values ({} there, {} here)", values_of(theirs), values_of(ours)));
  if (theirs.width() != ours.width() || theirs.height() != ours.height()) {
    differences.push_back(
        fmt::format("size ({} x {} there, {} x {} here)", theirs.height(), theirs.width(), ours.height(), ours.width()));
  }
  if (!recipe.evals.empty() && recipe.evals[0].sets[0].texts == 0) {
    const std::string there = interpolation_of(weights_pp), here = interpolation_of(recipe.evals[0].sets[0].data.pp().text());
    if (!there.empty() && !here.empty() && there != here)
      differences.push_back(fmt::format("interpolation ({} there, {} here)", there, here));
  }
  if (differences.empty()) return std::nullopt;
  return fmt::format("the weights are used to other images, in {}; theirs for evaluation: \"{}\"", join(differences, ", "),
                     weights_pp);
}

}  // namespace tessera::recipe
