#include "objectives/objective.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text/text.h"
#include "config/other_words.h"
#include "ir/functions.h"
#include "ir/ops.h"

namespace tessera::objectives {

const std::vector<const ObjectiveKind*>& objective_kinds() {
  static const std::vector<const ObjectiveKind*> kinds = {
#define OBJECTIVE(object) &object,
#include "objectives/objectives.def"
#undef OBJECTIVE
  };
  return kinds;
}

ir::Values Objective::combine_batch(const models::Model&, const nn::Scope&, const ir::Values& outputs) const { return outputs; }

ir::Value Objective::metric(size_t index, const ir::Values&, const Batch&) const {
  TESSERA_CHECK(false, "metric {} of an objective without", index);
  return {};
}

ir::Value loss_scale(const Objective& objective, const Batch& batch, const ir::Processes& processes) {
  const ir::Value weights = objective.example_weights(batch);
  if (!weights) return {};
  const int64_t rows = weights.dim(0);
  const ir::Value sum = ir::sum_over_processes(processes, ir::sum_all(weights));
  // A batch of classes whose weights are all 0 has a loss of 0.
  const ir::Value scale = static_cast<double>(rows * processes.count) / ir::maximum(sum, ir::constant(1e-30));
  return ir::broadcast_to(scale, {rows});
}

std::vector<std::string> objective_names() {
  std::vector<std::string> names;
  for (const ObjectiveKind* kind : objective_kinds()) names.push_back(kind->name);
  return names;
}

std::shared_ptr<const Objective> make_objective(config::Section section, const DataInputs& available) {
  const std::string name = section.name("softmax");
  for (const ObjectiveKind* kind : objective_kinds()) {
    if (kind->name != name) continue;
    std::shared_ptr<const Objective> objective = kind->make(section, available);
    const Inputs& inputs = objective->inputs();
    if (available.multi_label && inputs.labels && inputs.multi_hot == 0) {
      section.fail("name", fmt::format("is {}, which takes one label an image, and the data has any number", name),
                   "objective = \"bce\"; or label=… in the source, where an image has one");
    }
    return objective;
  }
  section.fail("name", fmt::format("is \"{}\", which is no objective", name), config::suggest_value(name, objective_names()));
}

const TokenInput& find_tokens(const DataInputs& available, const std::string& name, const config::Section& section,
                              const char* key) {
  std::vector<std::string> names;
  for (const TokenInput& input : available.tokens) {
    if (input.name == name || (name.empty() && available.tokens.size() == 1)) return input;
    names.push_back(input.name);
  }
  if (names.empty()) section.fail(key, "names tokens, and the data has none", "end data.pp with tokenize(…)");
  const std::string help = fmt::format("the data has {}", join(names, ", "));
  if (name.empty()) section.fail_missing(key, help);
  section.fail(key, fmt::format("is \"{}\", and the data has no such tokens", name), help);
}

}  // namespace tessera::objectives
