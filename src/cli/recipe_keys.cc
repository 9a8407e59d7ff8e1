// Documentation of a recipe's keys, from the structs that read them.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/text/text.h"
#include "cli/help.h"
#include "cli/other_flags.h"
#include "config/other_words.h"
#include "data/source.h"
#include "data/transform/pp.h"
#include "evaluators/evaluator.h"
#include "models/family.h"
#include "models/model.h"
#include "objectives/objective.h"
#include "optim/schedule/schedule.h"
#include "optim/update_rule.h"
#include "recipe/keys.h"

namespace tessera::cli {
namespace {

using config::KeyDoc;
using recipe::SectionKeys;

// The recipe's own keys, which are in no section.
constexpr std::string_view kTop = "(top)";

std::string key_line(const KeyDoc& doc) {
  const std::string value = doc.default_value.empty() || doc.default_value == "\"\"" ? "" : " = " + doc.default_value;
  return fmt::format("  {}{}\n      {}: {}\n", doc.key, value, doc.type, doc.help);
}

std::string section_list(const std::vector<SectionKeys>& all) {
  std::string text = "Sections of a recipe:\n";
  for (const SectionKeys& section : all) {
    text += fmt::format("  {:<12} {}\n", section.name.empty() ? kTop : section.name, section.help);
  }
  return text +
         "\nMore: tessera help optimizer, tessera help model.patch, tessera help seed, tessera help pp, tessera help sources,\n"
         "      tessera help optimizers, tessera help schedules; and any name of theirs: tessera help vit, tessera help cosine";
}

std::string pp_list() {
  std::string text = "Preprocessing, a chain \"decode | op | op …\" (data.pp):\n";
  for (const data::PpOpInfo& op : data::pp_ops()) text += fmt::format("  {}\n      {}\n", op.usage, op.help);
  return text + fmt::format("METHOD is {}.", data::kPpMethod);
}

// "b1 = 0.9, b2 = 0.999": what an optimizer has beside the keys of all.
std::string own_keys(const optim::OptimizerKind& kind) {
  std::vector<std::string> own;
  for (const KeyDoc& doc : kind.keys("")) {
    own.push_back(doc.default_value.empty() ? doc.key : fmt::format("{} = {}", doc.key, doc.default_value));
  }
  return join(own, ", ");
}

std::string optimizer_list() {
  std::string text = "Optimizers (optimizer.name), with the keys that are their own:\n";
  for (const optim::OptimizerKind* kind : optim::optimizer_kinds()) {
    text += fmt::format("  {}\n      {}\n      {}\n", kind->name, kind->help, own_keys(*kind));
  }
  return text +
         "What they mean: tessera help adamw. Keys of all optimizers: tessera help optimizer. Schedules of the learning rate: "
         "tessera help schedules.";
}

std::string schedule_list() { return "Schedules (optimizer.lr, optimizer.schedules):\n" + optim::schedule_help(); }

std::string source_list() {
  std::string text = "Sources (data.source):\n";
  for (const data::SourceUsage& kind : data::source_usages()) text += fmt::format("  {}\n      {}\n", kind.usage, kind.meaning);
  return text +
         "Those with labels and texts also take label=none, labels=NAME (several an image),\n"
         "label_offset=-1, classes=1000 or classes=FILE (a name a line),\n"
         "text=NAME or text=[NAME, NAME]. Patterns may hold * and {000..127}. Relative paths start from the working directory.";
}

// Families with what they are; their keys are the help of each.
std::string model_list() {
  std::string text = "Models (model.name):\n";
  for (const models::Family* family : models::families()) text += fmt::format("  {:<12} {}\n", family->name, family->title);
  return text + "Keys of one: tessera help vit. One key in all: tessera help model.patch. Named variants: tessera models.";
}

// The entry of a list whose usage is `name` or begins with `name(` or `name[`: lines from there to the next entry.
std::string entry_of(const std::string& list, const std::string& name) {
  std::string text;
  bool inside = false;
  for (const std::string& line : split(list, '\n')) {
    const std::string_view left = trim(line);
    const bool begins = line.starts_with("  ") && !line.starts_with("   ");
    if (begins)
      inside = left.starts_with(name) && (left.size() == name.size() || left[name.size()] == '(' || left[name.size()] == '[');
    if (!begins && !line.starts_with("      ")) inside = false;
    if (inside) text += line + "\n";
  }
  return text;
}

std::string with_title(const std::string& title, const std::string& text) { return text.empty() ? text : title + "\n" + text; }

// Whether it is a component's own: its help begins with "(name) ".
bool is_own_key(const KeyDoc& doc) { return doc.help.starts_with('('); }

std::string own_keys_of(const std::string& section, const std::string& name) {
  std::string text;
  for (const SectionKeys& keys : recipe::recipe_keys()) {
    if (keys.name != section) continue;
    for (KeyDoc doc : keys.keys) {
      if (!doc.help.starts_with("(" + name + ") ")) continue;
      doc.help.erase(0, name.size() + 3);
      text += key_line(doc);
    }
  }
  return text;
}

// An objective, an evaluator or an optimizer.
template <class Kind>
std::string kind_help(const std::vector<const Kind*>& kinds, const std::string& key, const std::string& section,
                      const std::string& name) {
  for (const Kind* kind : kinds) {
    if (name == kind->name) return fmt::format("{} = \"{}\": {}\n{}", key, name, kind->help, own_keys_of(section, name));
  }
  return "";
}

// What is called so besides keys: a model, an objective, an optimizer, a schedule, a step of preprocessing, a source; all that
// are. Empty where nothing is.
std::string component_help(const std::string& name) {
  std::string text;
  for (const models::Family* family : models::families()) {
    if (name == family->name)
      text += fmt::format("model.name = \"{}\": {}\n{}", name, family->title, own_keys_of("model", name));
  }
  if (const models::NamedModel named = models::find_named(name); named.family) {
    text += fmt::format(
        "model = {{ name = \"{}\", variant = \"{}\" }}\n  What else can be set: tessera help {}. Its size: tessera "
        "models {}.\n",
        named.family->name, name, named.family->name, name);
  }
  text += kind_help(objectives::objective_kinds(), "objective.name", "objective", name);
  text += kind_help(evaluators::evaluator_kinds(), "eval.NAME.type", "eval", name);
  text += kind_help(optim::optimizer_kinds(), "optimizer.name", "optimizer", name);
  text += with_title("A schedule, optimizer.lr:", entry_of(schedule_list(), name));
  if (const std::string step = entry_of(pp_list(), name); !step.empty()) {
    text += "A step of preprocessing, data.pp:\n" + step;
    if (step.find("METHOD") != std::string::npos) text += fmt::format("      METHOD is {}\n", data::kPpMethod);
  }
  text += with_title("A source, data.source:", entry_of(source_list(), name));
  return text;
}

// The names that begin the entries of a list.
void add_entries(const std::string& list, std::vector<std::string>& names) {
  for (const std::string& line : split(list, '\n')) {
    if (!line.starts_with("  ") || line.starts_with("   ")) continue;
    const std::string_view entry = trim(line);
    names.emplace_back(entry.substr(0, entry.find_first_of(" ([")));
  }
}

// All that component_help() knows, for suggestions.
std::vector<std::string> component_names() {
  std::vector<std::string> names = models::model_names();
  for (const objectives::ObjectiveKind* kind : objectives::objective_kinds()) names.push_back(kind->name);
  for (const evaluators::EvaluatorKind* kind : evaluators::evaluator_kinds()) names.push_back(kind->name);
  for (const optim::OptimizerKind* kind : optim::optimizer_kinds()) names.push_back(kind->name);
  add_entries(schedule_list(), names);
  for (const data::PpOpInfo& op : data::pp_ops()) names.push_back(op.name);
  add_entries(source_list(), names);
  return names;
}

bool is_or_below(const std::string& key, const std::string& wanted) {
  return key == wanted || (key.starts_with(wanted) && key[wanted.size()] == '.');
}

}  // namespace

std::vector<std::string> help_topics() {
  std::vector<std::string> topics = {"pp", "sources", "optimizers", "schedules"};
  for (const SectionKeys& section : recipe::recipe_keys()) {
    topics.emplace_back(section.name.empty() ? kTop : section.name);
    for (const KeyDoc& doc : section.keys) topics.push_back(doc.key);
  }
  for (std::string& name : component_names()) topics.push_back(std::move(name));
  std::vector<std::string> once;
  for (std::string& topic : topics) {
    if (std::ranges::find(once, topic) == once.end()) once.push_back(std::move(topic));
  }
  return once;
}

namespace {

// Whether `text` has `word` between characters that are no letters or digits.
bool mentions(const std::string& text, const std::string& word) {
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_letter(text[at - 1])) && (end == text.size() || !is_letter(text[end]))) return true;
  }
  return false;
}

// The first three keys whose help has the word: "f1_weighted" gives eval.NAME.metrics.
std::vector<std::string> keys_that_mention(const std::string& word) {
  constexpr size_t kMaxKeys = 3;
  std::vector<std::string> keys;
  for (const SectionKeys& section : recipe::recipe_keys()) {
    for (const KeyDoc& doc : section.keys) {
      if (keys.size() == kMaxKeys) return keys;
      if (mentions(lower(doc.help), word) && std::ranges::find(keys, doc.key) == keys.end()) keys.push_back(doc.key);
    }
  }
  return keys;
}

std::string help_for_unknown(const std::string& word) {
  const std::vector<std::string> topics = help_topics();
  // A word that texts have is no slip of the keyboard.
  const std::vector<std::string> keys = word.size() < 3 ? std::vector<std::string>{} : keys_that_mention(lower(word));
  if (!keys.empty()) return fmt::format("`{}` is in the help of {}: tessera help {}", word, join(keys, ", "), keys[0]);
  const auto near = nearest_name(word, topics);
  return near ? fmt::format("did you mean `{}`?", *near) : "tessera help lists the sections";
}

// Of what people call by a name of their own: AdamW, epochs, ema, cross_entropy.
std::string help_for_other_word(std::string word) {
  std::ranges::replace_if(
      word, [](char c) { return c == '-' || c == ' '; }, '_');
  if (std::string text = component_help(word); !text.empty()) return text;
  if (const std::string key = key_called(word); !key.empty()) return key_help(key) + "\n";
  if (const std::string name = config::same_key(word, component_names()); !name.empty()) return component_help(name);
  const std::string help = config::other_help(word);
  return help.empty() ? help : help + "\n";
}

}  // namespace

std::string key_help(const std::string& key) {
  const std::vector<SectionKeys>& all = recipe::recipe_keys();
  if (key.empty()) return section_list(all);
  if (key == "model" || key == "models" || key == "model.name") return model_list();
  if (key == "pp" || key == "data.pp") return pp_list();
  if (key == "optimizers" || key == "optimizer.name") return optimizer_list();
  if (key == "schedules" || key == "optimizer.lr") return schedule_list();
  if (key == "sources" || key == "data.source") return source_list();
  const std::string wanted = recipe::with_placeholder(key);
  std::string text;
  for (const SectionKeys& section : all) {
    for (const KeyDoc& doc : section.keys) {
      if (wanted == "optimizer" && is_own_key(doc)) continue;  // too many
      if (section.name.empty() ? doc.key == wanted || wanted == kTop : is_or_below(doc.key, wanted)) text += key_line(doc);
    }
  }
  if (text.empty()) text = component_help(key);
  if (text.empty()) text = help_for_other_word(lower(key));
  if (text.empty()) {
    throw usage_error(fmt::format("no key `{}` in a recipe", key), {}, help_for_unknown(key));
  }
  if (wanted == "optimizer") text += "  Each optimizer's own keys, as b1: tessera help optimizers, tessera help adamw.\n";
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
