#pragma once
// A subcommand. To add one, write a file in commands/ with a `const CommandEntry` and a line in commands.def.

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/flags.h"
#include "config/section.h"
#include "train/process/device.h"

namespace tessera::cli {

struct Example {
  std::string command, meaning;
};

// The contents of its help page.
struct Page {
  std::string name;     // "data check"
  std::string words;    // after the name: "RECIPE [key=value …]"
  std::string summary;  // one line, no full stop
  std::vector<Example> examples;
  std::string more;  // text below the flags; may be empty
};

class Command {
 public:
  virtual ~Command() = default;
  virtual Page page() const = 0;
  // Declares the command's own flags; called once, before run().
  virtual void declare(Flags&) {}
  // `words`: what is not a flag. Results go to stdout, messages through base/log.h.
  virtual Exit run(const std::vector<std::string>& words, const train::DeviceOptions& device) = 0;
};

struct CommandEntry {
  std::string_view name;
  std::unique_ptr<Command> (*make)();
};
template <class Kind>
constexpr CommandEntry command_entry(std::string_view name) {
  return {name, []() -> std::unique_ptr<Command> { return std::make_unique<Kind>(); }};
}
// commands.def, in its order.
const std::vector<CommandEntry>& commands();

#define COMMAND(object) extern const CommandEntry object;
#include "cli/commands.def"
#undef COMMAND

// The words of a command that takes a recipe: exactly one path, and overrides `key=value`, in any order.
struct RecipeWords {
  std::string path;
  std::vector<std::string> overrides;
};
RecipeWords recipe_words(const std::vector<std::string>& words, std::string_view command);
// The same, read; `lr=RATE` is the rate of the recipe's schedule (cli/rate_setting.h). The recipe's text goes into the crash file,
// should there be one.
config::Section load_recipe(const RecipeWords& words);

// A flag that must be given.
void require_flag(const std::string& value, std::string_view flag, std::string_view example);
// For commands that take no words beyond `count`.
void reject_extra(const std::vector<std::string>& words, size_t count, std::string_view command);

// Writes a result: the text and a line end, to stdout. A reader that went away ends the process quietly. Names of others in it
// are made printable (base/printable.h), also where stdout is no terminal: what is piped is shown in the end, by a pager or in
// a log, and output that depends on where it goes is a trap. Who needs names byte by byte has --json.
void print(std::string_view text);
// The same, but a stdout that is gone changes nothing.
void print_if_read(std::string_view text);
// print() for JSON, whose values stay what they are. What is no UTF-8 becomes U+FFFD.
void print_json(const nlohmann::ordered_json& json);
void print_json_text(std::string_view dumped);

}  // namespace tessera::cli
