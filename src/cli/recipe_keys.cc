// Documentation of a recipe's keys, from the structs that read them.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "cli/help.h"
#include "data/source.h"
#include "data/transform/pp.h"
#include "optim/optimizer.h"
#include "optim/update_rule.h"
#include "recipe/keys.h"

namespace tessera::cli {
namespace {

using config::KeyDoc;
using recipe::SectionKeys;

std::string key_line(const KeyDoc& doc) {
  const std::string value = doc.default_value.empty() || doc.default_value == "\"\"" ? "" : " = " + doc.default_value;
  return fmt::format("  {}{}\n      {}: {}\n", doc.key, value, doc.type, doc.help);
}

std::string section_list(const std::vector<SectionKeys>& all) {
  std::string text = "Sections of a recipe:\n";
  for (const SectionKeys& section : all) {
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
  for (const optim::OptimizerKind* kind : optim::optimizer_kinds()) {
    text += fmt::format("  {}\n      {}\n      {}\n", kind->name, kind->help, own_keys(kind->name));
  }
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

}  // namespace

std::string key_help(const std::string& key) {
  const std::vector<SectionKeys>& all = recipe::recipe_keys();
  if (key.empty()) return section_list(all);
  if (key == "pp" || key == "data.pp") return pp_list();
  if (key == "optimizers" || key == "optimizer.name") return optimizer_list();
  if (key == "schedules" || key == "optimizer.lr") return schedule_list();
  if (key == "sources" || key == "data.source") return source_list();
  const std::string wanted = recipe::with_placeholder(key);
  std::string text;
  std::vector<std::string> known = {"pp", "sources", "optimizers", "schedules"};
  for (const SectionKeys& section : all) {
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
