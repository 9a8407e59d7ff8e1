#include "launch/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/shell.h"

namespace tessera::launch {

std::vector<Variable> place_variables(int64_t process, int64_t count, const std::string& coordinator, const std::string& run) {
  return {{"TESSERA_NUM_PROCESSES", std::to_string(count)},
          {"TESSERA_PROCESS_ID", std::to_string(process)},
          {"TESSERA_COORDINATOR_ADDRESS", coordinator},
          {"TESSERA_RUN_ID", run}};
}

std::string command_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += fmt::format("{}{}", line.empty() ? "" : " ", shell_quoted(word));
  return line;
}

namespace {

std::string process_line(const ProcessPlan& process) {
  std::string line;
  for (const Variable& variable : process.environment) {
    line += fmt::format("{}={} ", variable.name, shell_quoted(variable.value));
  }
  line += command_line(process.command);
  if (process.shell.empty()) return line;
  std::vector<std::string> words = process.shell;
  words.back() += fmt::format("cd {} && {}", shell_quoted(process.directory), line);
  return command_line(words);
}

}  // namespace

std::string to_text(const Plan& plan) {
  std::string text;
  for (const std::string& note : plan.notes) text += fmt::format("# {}\n", note);
  size_t width = 0;
  bool libraries = false;
  for (const CopiedFile& file : plan.files) {
    if (file.name.starts_with("lib/")) {
      libraries = true;
    } else {
      width = std::max(width, file.name.size());
    }
  }
  for (const CopiedFile& file : plan.files) {
    if (!file.name.starts_with("lib/")) text += fmt::format("#   {:<{}}  {}\n", file.name, width, file.from);
  }
  if (libraries) text += fmt::format("#   {:<{}}  the libraries that they use\n", "lib", width);
  for (const WrittenFile& file : plan.written) text += fmt::format("# {}:\n{}\n", file.name, file.text);
  for (const ProcessPlan& process : plan.processes) {
    if (!process.host.empty()) text += fmt::format("# {}\n", process.host);
    text += process_line(process) + "\n";
  }
  if (!text.empty()) text.pop_back();
  return text;
}

}  // namespace tessera::launch
