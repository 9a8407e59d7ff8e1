#include "cluster/launch/processes/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text/shell.h"

namespace tessera::launch {

std::vector<Variable> place_variables(int64_t process, int64_t count, const Coordinator& coordinator, const std::string& run) {
  std::vector<Variable> all = {{"TESSERA_NUM_PROCESSES", std::to_string(count)},
                               {"TESSERA_PROCESS_ID", std::to_string(process)}};
  for (Variable& variable : meeting_variables(coordinator, run)) all.push_back(std::move(variable));
  return all;
}

Coordinator shown(Coordinator coordinator) {
  if (!coordinator.key.empty()) coordinator.key = kKey;
  return coordinator;
}

std::vector<Variable> meeting_variables(const Coordinator& coordinator, const std::string& run) {
  std::vector<Variable> all = {{"TESSERA_COORDINATOR_ADDRESS", coordinator.address}, {"TESSERA_RUN_ID", run}};
  if (!coordinator.key.empty()) all.push_back({"TESSERA_COORDINATOR_KEY", coordinator.key});
  return all;
}

std::string command_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += fmt::format("{}{}", line.empty() ? "" : " ", shell_quoted(word));
  return line;
}

namespace {

constexpr size_t kShownProcesses = 8;  // of more the first two and the last are shown

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
  text += plan.written;
  if (!plan.submit.empty()) text += fmt::format("# launch gives this to: {}\n", command_line(plan.submit));
  for (size_t i = 0; i < plan.processes.size(); ++i) {
    const size_t left = plan.processes.size() - 1 - i;
    if (plan.processes.size() > kShownProcesses && i == 2) {
      text += fmt::format("# … {} more like these\n", left);
      i += left;  // the last
    }
    const ProcessPlan& process = plan.processes[i];
    if (!process.host.empty()) text += fmt::format("# {}\n", process.host);
    text += process_line(process) + "\n";
  }
  if (!text.empty()) text.pop_back();
  return text;
}

}  // namespace tessera::launch
