#include "cli/cli.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/system/file_calls.h"
#include "base/text/shell.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "cli/common_flags.h"
#include "cli/crash.h"
#include "cli/exhausted.h"
#include "cli/help.h"
#include "cli/version.h"
#include "pjrt/plugin/stderr_filter.h"
#include "store/file.h"
#include "store/servers/egress.h"

namespace tessera::cli {
namespace {

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const CommandEntry& entry : commands()) names.emplace_back(entry.name);
  return names;
}

const CommandEntry* find_command(const std::string& name) {
  for (const CommandEntry& entry : commands()) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

// What was meant by a command that there is none of.
std::string help_for_command(const std::string& name) {
  static constexpr std::pair<const char*, const char*> kOthers[] = {
      {"validate", "eval"},     {"val", "eval"},      {"test", "eval"},         {"evaluate", "eval"},
      {"fit", "train"},         {"infer", "predict"}, {"inference", "predict"}, {"dashboard", "board"},
      {"tensorboard", "board"}, {"plot", "report"},   {"summary", "report"}};
  for (const auto& [other, own] : kOthers) {
    if (name == other) return fmt::format("did you mean `{}`?", own);
  }
  for (const std::string& command : command_names()) {  // without its group
    if (command.ends_with(" " + name)) return fmt::format("did you mean `{}`?", command);
  }
  return suggest_name(name, command_names());
}

// The command that `args` names at `position`, which is moved behind its words.
const CommandEntry* take_command(const std::vector<std::string>& args, size_t& position) {
  const std::string& first = args[position];
  const std::string both = position + 1 < args.size() ? first + " " + args[position + 1] : first;
  for (const auto& [name, words] : {std::pair{both, size_t{2}}, std::pair{first, size_t{1}}}) {
    if (const CommandEntry* entry = find_command(name)) {
      position += words;
      return entry;
    }
  }
  if (!group_help(first).empty()) {
    if (position + 1 == args.size() || args[position + 1].starts_with("-")) return nullptr;
    throw usage_error(fmt::format("unknown command `{}`", both), {}, suggest_name(both, command_names()));
  }
  throw usage_error(fmt::format("unknown command `{}`", first), {}, help_for_command(first));
}

Exit run_version(const std::vector<std::string>& args, const CommonFlags& common) {
  const bool json = std::find(args.begin(), args.end(), "--json") != args.end();
  json ? print_json_text(version_json(common.device.plugin)) : print(version_line());
  return Exit::kDone;
}

Exit dispatch(const std::vector<std::string>& args) {
  CommonFlags common;
  Flags before;
  declare_common_flags(before, common);
  bool json = false, version = false;
  before.add("--version", &version, "").environment.clear();
  before.add("-V", &version, "").environment.clear();
  before.add("--json", &json, "").environment.clear();
  before.read_environment();
  size_t position = 0;
  before.parse(args, position, /*first_word=*/true);
  if (version) return run_version(args, common);
  if (common.help || position == args.size()) {
    print(short_help());
    return Exit::kDone;
  }
  const CommandEntry* entry = take_command(args, position);
  if (entry == nullptr) {
    print(group_help(args[position]));
    return Exit::kDone;
  }
  const std::unique_ptr<Command> command = entry->make();
  Flags flags;
  command->declare(flags);
  declare_common_flags(flags, common);
  flags.read_environment();
  const std::vector<std::string> words = flags.parse(args, position);
  if (common.quiet) set_quiet_log(true);
  if (common.allow_egress) store::allow_egress();
  if (common.help) {
    print(command_help(command->page(), flags));
    return Exit::kDone;
  }
  choose_platform(common);
  const FileWatch watch;
  return command->run(words, common.device);
}

// Of the current exception.
Exit tell_exhausted() {
  log_status("");
  log_error(exhausted().value());
  return Exit::kDevice;
}

}  // namespace

// Whatever is no Error must reach the crash handler with its stack whole, so that it is not caught here.
int run(int argc, char** argv) {
  pjrt::capture_stderr();
  install_crash_handler();
  const std::vector<std::string> args(argv + std::min(argc, 1), argv + argc);
  crash_context().command = "tessera";
  for (const std::string& word : args) crash_context().command += " " + shell_quoted(word);
  Exit exit = Exit::kDone;
  try {
    exit = dispatch(args);
  } catch (const Error& error) {
    log_status("");
    log_error_once(error.what());
    exit = error.code();
  } catch (const std::bad_alloc&) {
    exit = tell_exhausted();
  } catch (const store::OutOfFiles&) {
    exit = tell_exhausted();
  }
  return static_cast<int>(exit);
}

}  // namespace tessera::cli
