// How a recipe's state lies on its mesh.

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/text/text.h"
#include "recipe/recipe.h"

namespace tessera::recipe {
namespace {

// Of the state, what stays whole on every device though the recipe splits the rest: above this share it is worth a word.
constexpr double kWholeShare = 0.1;

// Large arrays that could not be cut, because no dimension is divisible. (The optimizer's: presets split those of parameters
// too.)
void warn_about_whole_arrays(const state::StateLayout& layout) {
  const int64_t fsdp = layout.mesh.size("fsdp");
  if (fsdp == 1) return;
  const state::StateEntry* largest = nullptr;
  double whole = 0, all = 0;
  for (const state::StateEntry& entry : layout.entries) {
    const auto bytes = static_cast<double>(byte_count(entry.type));
    all += bytes;
    if (!entry.name.starts_with("opt/") || !entry.spec.replicated()) continue;
    whole += bytes;
    if (!largest || byte_count(entry.type) > byte_count(largest->type)) largest = &entry;
  }
  if (!largest || whole < kWholeShare * all) return;
  const Dims& dims = largest->type.dims;
  const int64_t widest = *std::max_element(dims.begin() + (largest->stacked() ? 1 : 0), dims.end());
  std::vector<std::string> sizes;
  for (int64_t size = 2; size <= fsdp; ++size) {
    if (fsdp % size == 0 && widest % size == 0) sizes.push_back(std::to_string(size));
  }
  log_warning(
      fmt::format("{} of optimizer state stay whole on every device: `fsdp={}` divides no dimension of `{}` {}{}",
                  human_bytes(whole), fsdp, largest->name, to_string(dims),
                  sizes.empty() ? "" : fmt::format("; fsdp sizes that do, the rest as replica: {}", join(sizes, ", "))));
}

}  // namespace

state::StateLayout recipe_layout(const Recipe& recipe) {
  state::StateLayout layout =
      state::state_layout(recipe.specs, *recipe.optimizer, recipe.average.has_value(), recipe.guard.has_value());
  if (recipe.mesh.devices() == 1) return layout;
  const mesh::ShardingRules rules(recipe.sharding, "sharding");
  lay_out(layout, recipe.mesh, recipe.sharding);
  std::vector<std::string> names;
  for (const state::StateEntry& entry : layout.entries) names.push_back(entry.name);
  for (const std::string& message : rules.unmatched(names)) log_warning("`sharding.rules`: " + message);
  if (recipe.sharding.preset != "replicated") warn_about_whole_arrays(layout);
  return layout;
}

}  // namespace tessera::recipe
