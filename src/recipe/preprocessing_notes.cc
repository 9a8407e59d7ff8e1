#include "recipe/preprocessing_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

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

bool scales_values(const Call& call) { return call.name == "normalise" || call.name.ends_with("value_range"); }

// What the chain says of values: those of its ops that scale them.
std::string values_of(const data::Pp& pp) {
  std::vector<std::string> ops;
  for (const Call& call : parse_chain(pp.text())) {
    if (scales_values(call)) ops.push_back(call.text);
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

// Of part(SOURCE, valid, 20 %, seed=1): SOURCE, valid and the rest. Of another source itself alone.
struct PartWords {
  std::string source, part;
  std::vector<std::string> how;  // share, fold, seed, by; empty where one is not given
};

PartWords part_words(const std::string& text) {
  const Call call = parse_call(text);
  if (call.name != "part") return {text, "", {}};
  CallReader reader(call);
  PartWords out{reader.text("source"), reader.text("part"), {}};
  for (const char* name : {"share", "fold", "seed", "by"}) out.how.push_back(reader.text(name, ""));
  return out;
}

// How many images of the evaluator are training's, where it has a part that is held out of the same source.
int64_t images_of_training(const Data& training, const Data& own) {
  constexpr int64_t kMaxNames = 2'000'000;
  if (training.options.source.empty() || training.options.fold || own.options.fold) return 0;
  const PartWords theirs = part_words(training.options.source), ours = part_words(own.options.source);
  if (ours.part != "valid" || ours.source != theirs.source) return 0;
  if (theirs.part.empty()) return own.size();
  if (theirs.part == "train" && theirs.how == ours.how) return 0;
  if (training.size() > kMaxNames || own.size() > kMaxNames) return 0;
  std::unordered_set<std::string> names;
  for (int64_t i = 0; i < training.size(); ++i) names.insert(training.source().id(i));
  int64_t count = 0;
  for (int64_t i = 0; i < own.size(); ++i) count += names.contains(own.source().id(i)) ? 1 : 0;
  return count;
}

}  // namespace

std::vector<std::string> evaluation_notes(const Recipe& recipe) {
  std::vector<std::string> notes;
  const data::Pp& training = recipe.data.pp();
  for (const EvalPlan& plan : recipe.evals) {
    if (plan.sets[0].texts > 0) continue;
    if (const int64_t shared = images_of_training(recipe.data, plan.sets[0].data); shared > 0) {
      notes.push_back(
          fmt::format("`eval.{0}` is scored on {1} images that training has too; to keep them apart, `data.source` is "
                      "part(SOURCE, train, …) with the share or fold, by and seed of `eval.{0}.data.source`",
                      plan.name, human_count(shared)));
    }
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

std::string size_and_values(const Recipe& recipe) {
  const models::InputShape& input = recipe.model->input();
  std::string chain = input.width == input.height ? fmt::format("decode | resize({})", input.width)
                                                  : fmt::format("decode | resize({}, {})", input.width, input.height);
  for (const Call& call : parse_chain(recipe.data.options.pp)) {
    if (scales_values(call) || call.name == "grayscale") chain += " | " + call.text;
  }
  return chain;
}

}  // namespace tessera::recipe
