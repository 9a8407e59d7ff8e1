#include "monitor/wandb/place.h"

#include <fmt/chrono.h>

#include <array>
#include <ctime>
#include <optional>

#include "base/system/environment.h"
#include "base/system/process.h"
#include "base/text/text.h"
#include "store/encoding/digest.h"

namespace tessera::monitor {
namespace {

constexpr std::string_view kOfflineRun = "offline-run-";

std::string file_name(const std::string& id) { return fmt::format("run-{}.wandb", id); }

// As W&B makes them.
std::string random_id() {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::array<std::byte, 8> random{};
  store::fill_random(random);
  std::string id;
  for (const std::byte byte : random) id += kLetters[std::to_integer<size_t>(byte) % kLetters.size()];
  return id;
}

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  for (const std::string& word : split(list, ',')) {
    if (!trim(word).empty()) words.emplace_back(trim(word));
  }
  return words;
}

// The last of them by name that has the file.
std::optional<WandbPlace> earlier_place(store::FileSystem& files, const std::string& root) {
  std::optional<WandbPlace> found;
  for (const store::FileInfo& info : files.list(root)) {
    if (!info.directory || info.symlink || !info.name.starts_with(kOfflineRun)) continue;  // a link's is another run's
    const size_t id = info.name.find('-', kOfflineRun.size());                             // <time>-<id>
    if (id == std::string::npos) continue;
    const WandbPlace place{store::join_path(root, info.name), info.name.substr(id + 1), true};
    if (files.info(store::join_path(place.directory, file_name(place.id)))) found = place;
  }
  return found;
}

}  // namespace

std::string WandbPlace::file() const { return store::join_path(directory, file_name(id)); }

WandbPlace wandb_place(store::FileSystem& files, const RunStart& start) {
  const std::string root = store::join_path(start.workdir, "wandb");
  files.make_directories(root);
  if (const auto earlier = earlier_place(files, root)) return *earlier;
  const std::string wanted = environment_variable("WANDB_RUN_ID");
  const std::string id = wanted.empty() || wandb_plain(wanted) != wanted ? random_id() : wanted;
  const auto now = static_cast<std::time_t>(start.time);
  return {store::join_path(root, fmt::format("{}{:%Y%m%d_%H%M%S}-{}", kOfflineRun, fmt::localtime(now), id)), id};
}

WandbRun wandb_run_of(const RunStart& start, const std::string& id) {
  WandbRun run;
  run.id = id;
  run.entity = environment_variable("WANDB_ENTITY");
  run.project = environment_variable("WANDB_PROJECT", "tessera");
  run.group = environment_variable("WANDB_RUN_GROUP");
  run.job_type = environment_variable("WANDB_JOB_TYPE");
  run.name = environment_variable("WANDB_NAME", std::string(store::last_part(start.workdir)));
  run.notes = environment_variable("WANDB_NOTES");
  run.tags = words_of(environment_variable("WANDB_TAGS"));
  run.host = host_name();
  run.start_time = start.time - start.uptime;
  run.command = start.command;
  run.version = start.version;
  return run;
}

std::string wandb_plain(std::string name) {
  for (char& c : name) {
    const bool safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (!safe) c = '_';
  }
  return name;
}

}  // namespace tessera::monitor
