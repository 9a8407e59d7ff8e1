// tessera help --markdown: docs/keys.md.
#include <fmt/format.h>

#include "cli/help.h"
#include "recipe/keys.h"

namespace tessera::cli {
namespace {

// In a cell of a table, where | ends it and < begins a tag.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '<') out += '\\';
    out += c;
  }
  return out;
}

std::string code(const std::string& text) { return text.empty() ? "" : fmt::format("`{}`", text); }

std::string table_of(const recipe::SectionKeys& section) {
  std::string text =
      section.name.empty() ? "## The recipe's own keys\n\n" : fmt::format("## `[{}]`: {}\n\n", section.name, section.help);
  text += "| key | type | default | may change | meaning |\n|---|---|---|---|---|\n";
  for (const config::KeyDoc& doc : section.keys) {
    text += fmt::format("| `{}` | {} | {} | {} | {} |\n", doc.key, cell(doc.type), code(doc.default_value),
                        doc.may_change ? "yes" : "", cell(doc.help));
  }
  return text + "\n";
}

// What key_help() says of a topic, as it is.
std::string list_of(const std::string& title, const std::string& topic) {
  return fmt::format("## {}\n\n```\n{}\n```\n\n", title, key_help(topic));
}

}  // namespace

std::string keys_page() {
  std::string text;
  for (const recipe::SectionKeys& section : recipe::recipe_keys()) text += table_of(section);
  text += list_of("Sources", "sources");
  text += list_of("Preprocessing", "pp");
  text += list_of("Models", "model");
  text += list_of("Optimizers", "optimizers");
  text += list_of("Schedules", "schedules");
  text.pop_back();  // print() ends the line
  text.pop_back();
  return text;
}

}  // namespace tessera::cli
