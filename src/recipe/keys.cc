#include "recipe/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text/text.h"
#include "evaluators/evaluator.h"
#include "mesh/sharding_rules.h"
#include "models/model.h"
#include "objectives/objective.h"
#include "optim/average.h"
#include "optim/optimizer.h"
#include "optim/update_rule.h"
#include "recipe/recipe.h"

namespace tessera::recipe {
namespace {

using config::KeyDoc;

KeyDoc text_key(const std::string& key, const std::string& value, const std::string& help) {
  return {key, "text", value, help};
}

template <class T>
void append(std::vector<KeyDoc>& keys, const std::string& prefix) {
  for (KeyDoc& doc : config::describe<T>({}, prefix)) keys.push_back(std::move(doc));
}

// Keys of one component, which their help names.
void append_of(std::vector<KeyDoc>& keys, std::vector<KeyDoc> docs, const std::string& component) {
  for (KeyDoc& doc : docs) {
    doc.help = fmt::format("({}) {}", component, doc.help);
    keys.push_back(std::move(doc));
  }
}

// A section whose `choice` names a component of `kinds`: "softmax (cross-entropy over classes), …", and the keys of each.
template <class Kind>
std::string append_kinds(std::vector<KeyDoc>& keys, const std::vector<const Kind*>& kinds, const std::string& prefix) {
  std::vector<std::string> names;
  for (const Kind* kind : kinds) {
    names.push_back(fmt::format("{} ({})", kind->name, kind->help));
    append_of(keys, kind->keys(prefix), kind->name);
  }
  return join(names, ", ");
}

SectionKeys data_keys() {
  SectionKeys out{"data", "training images", {}};
  append<TrainDataOptions>(out.keys, "data");
  append<DataOptions>(out.keys, "data");
  append<MixOptions>(out.keys, "data.mix.NAME");
  append<image::MixupOptions>(out.keys, "data.mixup");
  return out;
}

SectionKeys model_section() {
  SectionKeys out{"model", "the network", {text_key("model.name", "", join(models::model_names(), ", "))}};
  for (const models::Family* family : models::families()) append_of(out.keys, family->keys("model"), family->name);
  return out;
}

SectionKeys objective_section() {
  SectionKeys out{"objective", "what is minimised", {text_key("objective.name", "\"softmax\"", "")}};
  const std::string names = append_kinds(out.keys, objectives::objective_kinds(), "objective");
  out.keys.front().help = names;
  return out;
}

SectionKeys optimizer_section() {
  std::vector<std::string> names;
  for (const optim::OptimizerKind* kind : optim::optimizer_kinds()) names.push_back(kind->name);
  SectionKeys out{"optimizer", "how weights follow gradients", {text_key("optimizer.name", "\"adamw\"", join(names, ", "))}};
  append<optim::OptimizerOptions>(out.keys, "optimizer");
  for (const optim::OptimizerKind* kind : optim::optimizer_kinds()) append_of(out.keys, kind->keys("optimizer"), kind->name);
  return out;
}

SectionKeys eval_section() {
  SectionKeys out{"eval", "evaluators, each of a NAME: [eval.val]", config::describe<EvalOptions>({}, "eval.NAME")};
  const std::string names = append_kinds(out.keys, evaluators::evaluator_kinds(), "eval.NAME");
  out.keys.front().help = names;
  append<DataOptions>(out.keys, "eval.NAME.data");
  out.keys.push_back({"eval.NAME.train", "a table", "",
                      "(few_shot, knn, linear_probe) what they learn from, with the keys of eval.NAME.data; any classes"});
  return out;
}

std::vector<SectionKeys> all_sections() {
  return {
      {"", "the recipe's own keys", config::describe<RunOptions>()},
      {"sharding", "how the state is split over a mesh", config::describe<mesh::ShardingOptions>({}, "sharding")},
      {"checkpoint", "when the state is saved", config::describe<CheckpointOptions>({}, "checkpoint")},
      {"monitor", "where measurements go", config::describe<MonitorOptions>({}, "monitor")},
      data_keys(),
      model_section(),
      objective_section(),
      optimizer_section(),
      {"average", "a moving average of the weights, evaluated beside them (as NAME_ema)",
       config::describe<optim::AverageOptions>({}, "average")},
      {"guard", "updates that are not made, because of what they measure; without it the first one ends the run",
       config::describe<GuardOptions>({}, "guard")},
      {"model_init", "weights to begin with", config::describe<state::ModelInit>({}, "model_init")},
      eval_section(),
  };
}

}  // namespace

const std::vector<SectionKeys>& recipe_keys() {
  static const std::vector<SectionKeys> sections = all_sections();
  return sections;
}

std::string with_placeholder(const std::string& key) {
  std::vector<std::string> parts = split(key, '.');
  if (parts.size() > 1 && parts[0] == "eval") parts[1] = "NAME";
  if (parts.size() > 2 && parts[0] == "data" && parts[1] == "mix") parts[2] = "NAME";
  return join(parts, ".");
}

bool is_key(const std::string& key) {
  const std::string known = with_placeholder(key);
  const auto is_below = [](const std::string& one, const std::string& table) { return one.starts_with(table + "."); };
  for (const SectionKeys& section : recipe_keys()) {
    for (const KeyDoc& doc : section.keys) {
      if (doc.key == known || is_below(doc.key, known) || is_below(known, doc.key)) return true;
    }
  }
  return false;
}

std::vector<std::string> parts_below(const std::string& table) {
  const std::string before = table.empty() ? "" : with_placeholder(table) + ".";
  std::vector<std::string> parts;
  for (const SectionKeys& section : recipe_keys()) {
    for (const KeyDoc& doc : section.keys) {
      if (!doc.key.starts_with(before)) continue;
      const std::string part = split(doc.key.substr(before.size()), '.')[0];
      if (std::ranges::find(parts, part) == parts.end()) parts.push_back(part);
    }
  }
  return parts;
}

namespace {

std::string table_of(const std::string& key) {
  const size_t dot = key.rfind('.');
  return dot == std::string::npos ? "" : key.substr(0, dot);
}

// Of keys that several components share, each with its own meaning, only where all agree.
bool is_default(const std::string& key, const std::string& value) {
  const std::string known = with_placeholder(key);
  bool found = false;
  for (const SectionKeys& section : recipe_keys()) {
    for (const KeyDoc& doc : section.keys) {
      if (doc.key != known) continue;
      if (doc.default_value != value) return false;
      found = true;
    }
  }
  return found;
}

}  // namespace

std::vector<config::Difference> changed_keys(const std::string& before, const std::string& now) {
  std::set<std::string> tables{""};
  for (const config::Difference& there : config::difference("", before)) tables.insert(table_of(there.key));
  std::vector<config::Difference> changes = config::difference(before, now);
  std::erase_if(changes, [&](const config::Difference& one) {
    return one.left.empty() && tables.contains(table_of(one.key)) && is_default(one.key, one.right);
  });
  return changes;
}

bool key_may_change(const std::string& key) {
  static const std::set<std::string> keys = [] {
    std::set<std::string> found;
    for (const SectionKeys& section : recipe_keys()) {
      for (const KeyDoc& doc : section.keys) {
        if (doc.may_change) found.insert(doc.key);
      }
    }
    return found;
  }();
  const std::string known = with_placeholder(key);
  if (keys.contains(known)) return true;
  std::vector<std::string> parts = split(known, '.');
  if (parts.size() < 4 || parts[0] != "eval") return false;
  parts[2] = "data";
  return keys.contains(join(parts, "."));
}

}  // namespace tessera::recipe
