// The manual, made from the tables that help is made from.
#include <fmt/format.h>

#include "base/text/text.h"
#include "cli/common_flags.h"
#include "cli/help.h"
#include "cli/version.h"
#include "recipe/keys.h"

namespace tessera::cli {
namespace {

// Text as roff takes it: no escapes, and no line that begins with a request.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string entry(std::string_view term, std::string_view text) {
  return fmt::format(".TP\n.B {}\n{}\n", roff(term), roff(text));
}

std::string flag_entries(const Flags& flags, bool common) {
  std::string text;
  for (const Flag& flag : flags.all()) {
    if (flag.common != common) continue;
    const std::string gap = flag.placeholder.empty() || flag.placeholder[0] == '[' ? "" : " ";
    text += entry(flag.name + gap + flag.placeholder,
                  flag.help + (flag.environment.empty() ? "" : fmt::format(" [{}]", flag.environment)));
  }
  return text;
}

std::string commands_section() {
  std::string text = ".SH COMMANDS\n", common_flags;
  for (const CommandEntry& one : commands()) {
    const auto command = one.make();
    Flags flags;
    CommonFlags common;
    command->declare(flags);
    declare_common_flags(flags, common);
    const Page page = command->page();
    text += fmt::format(".SS {}\n{}\n.PP\n.B tessera {}\n{}\n", roff(page.name), roff(page.summary + "."), roff(page.name),
                        roff(page.words));
    for (const Example& example : page.examples) text += entry(example.command, example.meaning);
    text += flag_entries(flags, false);
    if (!page.more.empty()) text += ".PP\n" + roff(page.more) + "\n";
    common_flags = flag_entries(flags, true);
  }
  return text + ".SH FLAGS OF EVERY COMMAND\n" + common_flags;
}

std::string keys_section() {
  std::string text = ".SH KEYS OF A RECIPE\n";
  for (const recipe::SectionKeys& section : recipe::recipe_keys()) {
    text += fmt::format(".SS {}\n{}\n", roff(section.name.empty() ? "(top)" : section.name), roff(section.help + "."));
    for (const config::KeyDoc& doc : section.keys) {
      const bool bare = doc.default_value.empty() || doc.default_value == "\"\"";
      text += entry(doc.key + (bare ? "" : " = " + doc.default_value), doc.type + ": " + doc.help);
    }
  }
  return text;
}

}  // namespace

std::string man_page() {
  std::string text = fmt::format(
      ".TH TESSERA 1 \"\" \"{}\"\n.SH NAME\ntessera \\- train vision models on any XLA device\n"
      ".SH SYNOPSIS\n.B tessera\nCOMMAND [words and flags, in any order]\n",
      version_line());
  text += commands_section() + keys_section() + ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] :
       {std::pair{"0", "done"},
        {"1", "a bug of tessera's; a crash file is written"},
        {"2", "the recipe or the command line"},
        {"3", "data"},
        {"4", "the device, a compilation, or a limit of the machine"},
        {"5", "the run diverged"},
        {"75", "stopped by SIGTERM, SIGHUP or SIGXCPU after saving, or another process of the run was lost: start it again"},
        {"130", "stopped by Ctrl-C after saving"}}) {
    text += entry(code, meaning);
  }
  text.pop_back();
  return text;
}

}  // namespace tessera::cli
