#include "train/sweep/record.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text/json.h"
#include "config/section.h"
#include "recipe/run_identity.h"
#include "store/file.h"
#include "store/small_file.h"

namespace tessera::sweep {
namespace {

constexpr const char* kFile = "sweep.json";

nlohmann::ordered_json json_of(const HalvingRecord& halving) {
  nlohmann::ordered_json rungs = nlohmann::ordered_json::array();
  for (const DecidedRung& rung : halving.rungs) {
    nlohmann::ordered_json failed = nlohmann::ordered_json::object();
    for (const auto& [name, failure] : rung.failed)
      failed[name] = {{"exit", static_cast<int>(failure.exit)}, {"problem", failure.problem}};
    rungs.push_back({{"kept", rung.kept}, {"failed", failed}});
  }
  return {{"eta", halving.eta},
          {"min_budget", halving.min_budget},
          {"metric", halving.metric},
          {"steps", halving.steps},
          {"rungs", rungs}};
}

HalvingRecord halving_of(const nlohmann::json& json) {
  HalvingRecord halving;
  halving.eta = json.at("eta").get<int64_t>();
  halving.min_budget = json.at("min_budget").get<std::string>();
  halving.metric = json.at("metric").get<std::string>();
  halving.steps = json.at("steps").get<std::map<std::string, std::vector<int64_t>>>();
  for (const nlohmann::json& one : json.at("rungs")) {
    DecidedRung& rung = halving.rungs.emplace_back();
    rung.kept = one.at("kept").get<std::vector<std::string>>();
    for (const auto& [name, failure] : one.at("failed").items())
      rung.failed[name] = {static_cast<Exit>(failure.at("exit").get<int>()), failure.at("problem").get<std::string>()};
  }
  return halving;
}

}  // namespace

std::string recipe_changes(const SweepRecord& before, const SweepRecord& now) {
  if (before.recipe.empty() || before.recipe == now.recipe) return "";
  std::string text;
  for (const config::Difference& change : config::difference(before.recipe, now.recipe)) {
    text +=
        fmt::format("\n  {} = {}   there: {}", change.key, recipe::shown_value(change.right), recipe::shown_value(change.left));
  }
  return text;
}

std::optional<SweepRecord> read_record(const std::string& directory) {
  store::FileSystem& files = store::local_files();
  const std::string path = store::join_path(directory, kFile);
  if (!files.info(path)) return std::nullopt;
  const nlohmann::json json = parse_json(store::read_small_file(files, path), path);
  try {
    SweepRecord record{json.at("words").get<std::vector<std::string>>(), "", json.at("finished").get<bool>(), std::nullopt};
    const std::string recipe = store::join_path(directory, kSweepRecipe);
    if (files.info(recipe)) record.recipe = store::read_small_file(files, recipe);
    if (json.contains("halving")) record.halving = halving_of(json.at("halving"));
    return record;
  } catch (const nlohmann::json::exception&) {
    throw data_error(fmt::format("`{}` is not what this program writes", path), {}, "give the sweep another --workdir");
  }
}

void write_record(const std::string& directory, const SweepRecord& record) {
  store::write_atomic(store::local_files(), store::join_path(directory, kSweepRecipe), record.recipe);
  nlohmann::ordered_json json{{"words", record.words}, {"finished", record.finished}};
  if (record.halving) json["halving"] = json_of(*record.halving);
  store::write_atomic(store::local_files(), store::join_path(directory, kFile),
                      json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace tessera::sweep
