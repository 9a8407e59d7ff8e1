#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <filesystem>
#include <utility>

#include "base/text/text.h"
#include "cluster/launch/launcher.h"
#include "cluster/launch/processes/child.h"

namespace tessera::launch {
namespace {

constexpr int64_t kMaxProcesses = 4096;

}  // namespace

const std::vector<const Launcher*>& launchers() {
  static const std::vector<const Launcher*> table = {
#define LAUNCHER(object) &object,
#include "cluster/launch/launchers.def"
#undef LAUNCHER
  };
  return table;
}

const Launcher& find_launcher(const std::string& place, std::string& where) {
  const size_t colon = place.find(':');
  const std::string name = place.substr(0, colon);
  where = colon == std::string::npos ? "" : place.substr(colon + 1);
  std::vector<std::string> names;
  for (const Launcher* launcher : launchers()) {
    if (launcher->name == name) return *launcher;
    names.emplace_back(launcher->name);
  }
  std::string known;
  for (const Launcher* launcher : launchers()) known += fmt::format("{}{}", known.empty() ? "" : ", ", launcher->words);
  const auto nearest = nearest_name(name, names);
  throw usage_error(fmt::format("`{}` is no place to launch", place), {},
                    nearest ? fmt::format("did you mean `{}`? Places: {}", *nearest, known) : "places: " + known);
}

std::string example_of(const Launcher& launcher) {
  return fmt::format("tessera launch {} -- train recipes/digits.toml", launcher.example);
}

std::vector<std::string> program_words(const Request& request) {
  std::vector<std::string> words = {request.program};
  if (request.program.empty()) words[0] = std::filesystem::read_symlink("/proc/self/exe");
  words.insert(words.end(), request.command.begin(), request.command.end());
  return words;
}

std::string run_name(const Request& request) {
  std::string name;
  for (const std::string& word : request.command) {
    if (!word.ends_with(".toml")) continue;
    for (const char c : std::filesystem::path(word).stem().string()) {
      const bool plain = std::isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'z');
      name += plain ? c : std::isupper(static_cast<unsigned char>(c)) ? static_cast<char>(std::tolower(c)) : '-';
    }
    break;
  }
  name = name.substr(0, 40);
  const size_t first = name.find_first_of("abcdefghijklmnopqrstuvwxyz"), last = name.find_last_not_of('-');
  return first == std::string::npos ? "tessera" : name.substr(first, last - first + 1);
}

Exit submit(const Plan& plan, std::vector<Variable> environment) {
  ChildOptions options;
  options.name = plan.submit[0];
  options.command = plan.submit;
  options.environment = std::move(environment);
  options.input = plan.written;
  Child child(std::move(options));
  child.close_input();
  child.wait();
  if (child.exit_code() == 127) {
    throw device_error(fmt::format("`{}` is not installed here", plan.submit[0]), {},
                       "--dry-run prints what it would get, for a machine that has it");
  }
  if (child.exit_code() != 0) {
    throw device_error(fmt::format("`{}` did not take the run; what it said stands above", plan.submit[0]), {},
                       "--dry-run prints what it got");
  }
  return Exit::kDone;
}

int64_t process_count(const Request& request, const Launcher& launcher) {
  int64_t count = 0;
  const char* end = request.where.data() + request.where.size();
  const auto [stopped, error] = std::from_chars(request.where.data(), end, count);
  if (error == std::errc() && stopped == end && count >= 1 && count <= kMaxProcesses) return count;
  throw usage_error(fmt::format("`{}:{}` names no number of processes", launcher.name, request.where), {},
                    fmt::format("{} takes a number from 1 to {}: {}", launcher.words, kMaxProcesses, example_of(launcher)));
}

}  // namespace tessera::launch
