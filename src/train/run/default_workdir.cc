#include "train/run/default_workdir.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "base/error.h"
#include "base/text/digits.h"
#include "config/section.h"
#include "recipe/keys.h"
#include "store/small_file.h"
#include "train/control/control_socket.h"
#include "train/workdir/run_facts.h"

namespace tessera::train {
namespace {

constexpr const char* kRuns = "runs";

// The N of runs/<name>-N, greatest first.
std::vector<int64_t> numbers_of(const std::string& name, store::FileSystem& files) {
  std::vector<int64_t> out;
  if (!files.info(kRuns)) return out;
  for (const store::FileInfo& entry : files.list(kRuns)) {
    if (!entry.name.starts_with(name + "-")) continue;
    const auto number = parse_digits(std::string_view(entry.name).substr(name.size() + 1));
    if (number && *number > 0) out.push_back(*number);
  }
  std::ranges::sort(out, std::greater{});
  return out;
}

// A run that is made longer or shorter has another schedule: whoever wants that of a run names it.
bool same_run(const std::string& there, const std::string& recipe) {
  return std::ranges::all_of(recipe::changed_keys(there, recipe), [](const config::Difference& one) {
    return recipe::key_may_change(one.key) && one.key != "total";
  });
}

// What can't be read is no run to go on with: whoever means it names it.
bool is_unfinished(const std::string& path, const std::string& recipe, store::FileSystem& files) {
  try {
    const std::string there = store::join_path(path, "recipe.toml"), facts = store::join_path(path, "run.json");
    if (!files.info(there) || !same_run(store::read_small_file(files, there), recipe) || is_training(path)) return false;
    if (!files.info(facts)) return true;  // it ended before its first step
    const std::string state = parse_run_facts(store::read_small_file(files, facts), facts).state;
    return state != "done" && state != "diverged";
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

DefaultWorkdir default_workdir(const std::string& recipe_path, const std::string& recipe, bool fresh,
                               store::FileSystem& files) {
  std::string name = store::last_part(recipe_path);
  if (name.ends_with(".toml")) name.resize(name.size() - 5);
  const std::vector<int64_t> numbers = numbers_of(name, files);
  const auto path_of = [&](int64_t number) { return fmt::format("{}/{}-{}", kRuns, name, number); };
  for (const int64_t number : numbers) {
    if (!fresh && is_unfinished(path_of(number), recipe, files)) return {path_of(number), true};
  }
  return {path_of(numbers.empty() ? 1 : numbers[0] + 1), false};
}

}  // namespace tessera::train
