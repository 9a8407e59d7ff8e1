#include <fmt/format.h>

#include <charconv>

#include "base/text.h"
#include "launch/launcher.h"

namespace tessera::launch {
namespace {

constexpr int64_t kMostProcesses = 4096;

}  // namespace

const std::vector<const Launcher*>& launchers() {
  static const std::vector<const Launcher*> table = {
#define LAUNCHER(object) &object,
#include "launch/launchers.def"
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

int64_t process_count(const Request& request, const Launcher& launcher) {
  int64_t count = 0;
  const char* end = request.where.data() + request.where.size();
  const auto [stopped, error] = std::from_chars(request.where.data(), end, count);
  if (error == std::errc() && stopped == end && count >= 1 && count <= kMostProcesses) return count;
  throw usage_error(fmt::format("`{}:{}` names no number of processes", launcher.name, request.where), {},
                    fmt::format("{} takes a number from 1 to {}: {}", launcher.words, kMostProcesses, example_of(launcher)));
}

}  // namespace tessera::launch
