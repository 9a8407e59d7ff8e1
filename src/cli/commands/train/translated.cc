#include "cli/commands/train/translated.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/text/shell.h"
#include "cli/other_flags.h"
#include "cli/rate_setting.h"

namespace tessera::cli {

void TranslatedCommand::declare(Flags& flags) {
  flags.pass_unknown();
  flags.add("--print-recipe", &print_, "print the recipe, and do not train");
  flags.add("--list", &list_, "list the arguments and what becomes of each");
  training_.declare(flags);
}

Exit TranslatedCommand::run(const std::vector<std::string>& words, const train::DeviceOptions& device) {
  if (list_) {
    print(lists());
    return Exit::kDone;
  }
  const translate::Translation made = translate(words, device.devices.value_or(1) * training_.processes());
  const auto read = [&made] {
    return read_with_rate(made.overrides, [&](const std::vector<std::string>& settings) {
      return config::parse_recipe(made.recipe, "the recipe of these arguments", settings);
    });
  };
  if (print_) {
    refuse_unknown_settings(made.overrides);
    print(made.overrides.empty() ? made.recipe : translate::leading_comments(made.recipe) + read().dump());
    return Exit::kDone;
  }
  for (const std::string& note : made.notes) log_line(note);
  training_.set_workdir(made.workdir);
  std::string command = "tessera " + page().name;
  for (const std::string& word : words) command += " " + shell_quoted(word);
  return training_.run({read, made.name, command}, device);
}

}  // namespace tessera::cli
