#include "recipe/weights_chain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/call.h"
#include "base/text/text.h"
#include "data/transform/pp.h"
#include "state/model_source.h"

namespace tessera::recipe {
namespace {

// A chain cut where it changes the size of images.
struct Parts {
  std::vector<std::string> before, after;
  std::string interpolation = "bilinear";
};

Parts cut(const std::string& pp) {
  const std::vector<Call> ops = parse_chain(pp);
  const auto sizes = [](const Call& op) { return op.name.starts_with("resize") || op.name.find("crop") != std::string::npos; };
  Parts out;
  const auto first = std::ranges::find_if(ops, sizes);
  const auto last = std::find_if(ops.rbegin(), ops.rend(), sizes).base();
  for (auto op = ops.begin(); op != ops.end(); ++op) {
    if (op < first || first == ops.end()) out.before.push_back(op->text);
    if (op >= last && first != ops.end()) out.after.push_back(op->text);
    for (const CallArg& argument : op->args) {
      if (sizes(*op) && argument.key == "interpolation") out.interpolation = argument.value;
    }
  }
  return out;
}

std::string chain_of_weights(config::Section& recipe, const std::string& where) {
  if (!recipe.has("model_init"))
    throw usage_error("the chain is `from_weights`, and the recipe begins with no weights", where,
                      "model_init.from says with which; or write the chain: tessera help pp");
  const std::string from = recipe.section("model_init").text("from", "");
  std::string chain = state::preprocessing_of(from);
  if (chain.empty())
    throw usage_error(fmt::format("nothing beside the weights `{}` says how their images are prepared", one_line(from)), where,
                      "write the chain: tessera help pp");
  return chain;
}

}  // namespace

std::string training_chain(const std::string& pp, const std::string& where) {
  const data::Pp evaluation(pp, data::PpUse::kEval, where);
  if (evaluation.height() != evaluation.width())
    throw usage_error(
        fmt::format("the weights' images are of {} x {}, and random crops are square", evaluation.height(), evaluation.width()),
        where, "write the chain: tessera help pp");
  Parts parts = cut(pp);
  std::vector<std::string> ops = std::move(parts.before);
  // No smaller than a third of the image: few images bear no more.
  ops.push_back(
      fmt::format("random_resized_crop({}, scale=[0.35, 1], interpolation={})", evaluation.height(), parts.interpolation));
  ops.emplace_back("flip_lr");
  ops.insert(ops.end(), parts.after.begin(), parts.after.end());
  return fmt::format("{}", fmt::join(ops, " | "));
}

void take_weights_chains(config::Section recipe) {
  struct Place {
    std::string path, where;
    std::string* chain;
  };
  std::vector<Place> places;
  recipe.visit_texts("pp", [&](const std::string& path, const std::string& where, std::string& chain) {
    if (trim(chain) == kFromWeights) places.push_back({path, where, &chain});
  });
  for (const Place& place : places) {
    const std::string where = fmt::format("`{}`, {}", place.path, place.where), chain = chain_of_weights(recipe, where);
    *place.chain = place.path.starts_with("data.") ? training_chain(chain, where) : chain;
  }
}

}  // namespace tessera::recipe
