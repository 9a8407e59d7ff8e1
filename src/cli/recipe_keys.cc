// Documentation of a recipe's keys, from the structs that read them.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "cli/help.h"
#include "data/source.h"
#include "data/transform/pp.h"
#include "evaluators/caption_scoring.h"
#include "evaluators/classification.h"
#include "evaluators/few_shot.h"
#include "evaluators/knn.h"
#include "evaluators/linear_probe.h"
#include "evaluators/mean.h"
#include "evaluators/perplexity.h"
#include "evaluators/retrieval.h"
#include "evaluators/zero_shot.h"
#include "mesh/sharding_rules.h"
#include "models/model.h"
#include "objectives/binary.h"
#include "objectives/captioning.h"
#include "objectives/contrastive.h"
#include "objectives/distillation.h"
#include "objectives/jsd.h"
#include "objectives/softmax.h"
#include "optim/average.h"
#include "optim/optimizer.h"
#include "recipe/recipe.h"

namespace tessera::cli {
namespace {

using config::KeyDoc;

struct SectionDoc {
  std::string name, help;
  std::vector<KeyDoc> keys;
};

KeyDoc text_key(const std::string& key, const std::string& value, const std::string& help) {
  return {key, "text", value, help};
}

template <class T>
void append(std::vector<KeyDoc>& keys, const std::string& prefix) {
  for (KeyDoc& doc : config::describe<T>({}, prefix)) keys.push_back(std::move(doc));
}

// Keys of one component, which their help names.
void append_docs(std::vector<KeyDoc>& keys, std::vector<KeyDoc> docs, const std::string& component) {
  for (KeyDoc& doc : docs) {
    doc.help = fmt::format("({}) {}", component, doc.help);
    keys.push_back(std::move(doc));
  }
}
template <class T>
void append_of(std::vector<KeyDoc>& keys, const std::string& prefix, const std::string& component) {
  append_docs(keys, config::describe<T>({}, prefix), component);
}

std::vector<SectionDoc> sections() {
  std::vector<SectionDoc> out;
  out.push_back({"", "the recipe's own keys", config::describe<recipe::RunOptions>()});
  out.push_back({"sharding", "how the state is split over a mesh", config::describe<mesh::ShardingOptions>({}, "sharding")});
  out.push_back({"checkpoint", "when the state is saved", config::describe<recipe::CheckpointOptions>({}, "checkpoint")});
  out.push_back({"data", "training images", {}});
  append<recipe::TrainDataOptions>(out.back().keys, "data");
  append<recipe::DataOptions>(out.back().keys, "data");
  append<recipe::MixOptions>(out.back().keys, "data.mix.NAME");
  append<image::MixupOptions>(out.back().keys, "data.mixup");
  out.push_back({"model", "the network", {text_key("model.name", "", join(models::model_names(), ", "))}});
  for (const models::Family* family : models::families()) {
    append_docs(out.back().keys, family->keys("model"), family->name);
  }
  std::vector<std::string> names;
#define OBJECTIVE(name, Options, factory, help) names.push_back(fmt::format("{} ({})", name, help));
#include "objectives/objectives.def"
#undef OBJECTIVE
  out.push_back({"objective", "what is minimised", {text_key("objective.name", "\"softmax\"", join(names, ", "))}});
#define OBJECTIVE(name, Options, factory, help) append_of<objectives::Options>(out.back().keys, "objective", name);
#include "objectives/objectives.def"
#undef OBJECTIVE
  std::vector<std::string> optimizers;
#define TESSERA_OPTIMIZER(name, factory, help) optimizers.push_back(name);
#include "optim/optimizers.def"
#undef TESSERA_OPTIMIZER
  out.push_back(
      {"optimizer", "how weights follow gradients", {text_key("optimizer.name", "\"adamw\"", join(optimizers, ", "))}});
  append<optim::OptimizerOptions>(out.back().keys, "optimizer");
  out.push_back({"average", "a moving average of the weights, evaluated beside them (as NAME_ema)",
                 config::describe<optim::AverageOptions>({}, "average")});
  out.push_back({"model_init", "weights to begin with", config::describe<state::ModelInit>({}, "model_init")});
  out.push_back({"eval", "evaluators, each of a NAME: [eval.val]", config::describe<recipe::EvalOptions>({}, "eval.NAME")});
  names.clear();
#define EVALUATOR(name, Options, factory, help) names.push_back(fmt::format("{} ({})", name, help));
#include "evaluators/evaluators.def"
#undef EVALUATOR
  out.back().keys.front().help = join(names, ", ");
#define EVALUATOR(name, Options, factory, help) append_of<evaluators::Options>(out.back().keys, "eval.NAME", name);
#include "evaluators/evaluators.def"
#undef EVALUATOR
  append<recipe::DataOptions>(out.back().keys, "eval.NAME.data");
  out.back().keys.push_back(
      {"eval.NAME.train", "a table", "",
       "(few_shot, knn, linear_probe) what they learn from, with the keys of eval.NAME.data; any classes"});
  return out;
}

std::string key_line(const KeyDoc& doc) {
  const std::string value = doc.default_value.empty() || doc.default_value == "\"\"" ? "" : " = " + doc.default_value;
  return fmt::format("  {}{}\n      {}: {}\n", doc.key, value, doc.type, doc.help);
}

std::string section_list(const std::vector<SectionDoc>& all) {
  std::string text = "Sections of a recipe:\n";
  for (const SectionDoc& section : all) {
    text += fmt::format("  {:<12} {}\n", section.name.empty() ? "(top)" : section.name, section.help);
  }
  return text +
         "\nMore: tessera help optimizer, tessera help model.patch, tessera help seed, tessera help pp, tessera help sources,\n"
         "      tessera help optimizers, tessera help schedules";
}

std::string pp_list() {
  std::string text = "Preprocessing, a chain \"decode | op | op …\" (data.pp):\n";
  for (const data::PpOpInfo& op : data::pp_ops()) text += fmt::format("  {}\n      {}\n", op.usage, op.help);
  return text + fmt::format("METHOD is {}.", data::kPpMethod);
}

// "b1 = 0.9, b2 = 0.999": what an optimizer has beside the keys of all.
std::string own_keys(const std::string& optimizer) {
  config::Section recipe = config::parse_recipe(fmt::format("optimizer = {{ name = \"{}\", lr = 1 }}", optimizer));
  config::Section section = recipe.section("optimizer");
  const optim::Optimizer bound(section, {});
  std::vector<std::string> shared = {"name"}, own;
  for (const KeyDoc& doc : config::describe<optim::OptimizerOptions>()) shared.push_back(doc.key);
  for (const std::string& line : split(section.dump(), '\n')) {
    const std::string key(trim(line.substr(0, line.find('='))));
    if (!key.empty() && std::find(shared.begin(), shared.end(), key) == shared.end()) own.push_back(line);
  }
  return join(own, ", ");
}

std::string optimizer_list() {
  std::string text = "Optimizers (optimizer.name), with the keys that are their own:\n";
#define TESSERA_OPTIMIZER(name, factory, help) text += fmt::format("  {}\n      {}\n      {}\n", name, help, own_keys(name));
#include "optim/optimizers.def"
#undef TESSERA_OPTIMIZER
  return text + "Keys of all optimizers: tessera help optimizer. Schedules of the learning rate: tessera help schedules.";
}

std::string schedule_list() { return "Schedules (optimizer.lr, optimizer.schedules):\n" + optim::schedule_help(); }

std::string source_list() {
  std::string text = "Sources (data.source):\n";
  for (const data::SourceKind& kind : data::source_kinds()) text += fmt::format("  {}\n      {}\n", kind.usage, kind.meaning);
  return text +
         "Those with labels and texts also take label=none, label_offset=-1, classes=1000 or classes=FILE (a name a line),\n"
         "text=NAME or text=[NAME, NAME]. Patterns may hold * and {000..127}. Relative paths start from the working directory.";
}

bool is_or_below(const std::string& key, const std::string& wanted) {
  return key == wanted || (key.starts_with(wanted) && key[wanted.size()] == '.');
}

// eval.val.every -> eval.NAME.every, so that a key can be asked for as it stands in a recipe.
std::string with_placeholder(const std::string& key) {
  std::vector<std::string> parts = split(key, '.');
  if (parts.size() > 1 && parts[0] == "eval") parts[1] = "NAME";
  if (parts.size() > 2 && parts[0] == "data" && parts[1] == "mix") parts[2] = "NAME";
  return join(parts, ".");
}

}  // namespace

std::string key_help(const std::string& key) {
  const std::vector<SectionDoc> all = sections();
  if (key.empty()) return section_list(all);
  if (key == "pp" || key == "data.pp") return pp_list();
  if (key == "optimizers" || key == "optimizer.name") return optimizer_list();
  if (key == "schedules" || key == "optimizer.lr") return schedule_list();
  if (key == "sources" || key == "data.source") return source_list();
  const std::string wanted = with_placeholder(key);
  std::string text;
  std::vector<std::string> known = {"pp", "sources", "optimizers", "schedules"};
  for (const SectionDoc& section : all) {
    if (!section.name.empty()) known.push_back(section.name);
    for (const KeyDoc& doc : section.keys) {
      known.push_back(doc.key);
      if (is_or_below(doc.key, wanted)) text += key_line(doc);
    }
  }
  if (text.empty()) {
    const auto near = nearest_name(key, known);
    throw usage_error(fmt::format("no key `{}` in a recipe", key), {},
                      near ? fmt::format("did you mean `{}`?", *near) : "tessera help lists the sections");
  }
  if (wanted == "optimizer") text += "  Each optimizer's own keys, as b1: tessera help optimizers.\n";
  if (wanted == "sharding") {
    text +=
        "  Rules: replicate, fsdp(axis=fsdp, min_size=512), tensor(dim), spec(_, fsdp, replica+tensor); names are those of "
        "the\n"
        "  state, as params/blocks/mlp/fc1/kernel and opt/mu/blocks/mlp/fc1/kernel. First match wins, the preset comes last.\n";
  }
  text.pop_back();
  return text;
}

}  // namespace tessera::cli
