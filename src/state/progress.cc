#include "state/progress.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <limits>

#include "base/error.h"
#include "base/text/json.h"

namespace tessera::state {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& what, const std::string& where) {
  throw data_error("state.json is not what this program writes: " + what, where,
                   "another version may have written the checkpoint");
}

// Runs `read` on the parsed text; anything missing or of another type is a data error.
template <class T>
T from_json(const std::string& text, const std::string& where, const std::function<T(const Json&)>& read) {
  try {
    return read(parse_ordered_json(text, where));
  } catch (const nlohmann::json::exception& error) {
    refuse(error.what(), where);
  }
}

// A whole number from 0 on; json's own conversions would cut off what is none.
int64_t count_at(const Json& object, const char* key, const std::string& where) {
  const Json& value = object.at(key);
  const bool whole = value.is_number_unsigned() && value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
  if (!whole) refuse(fmt::format("`{}` is {}, wanted a whole number", key, value.dump()), where);
  return value.get<int64_t>();
}

float measurement_of(const Json& json, const std::string& name, const std::string& where) {
  if (json == "nan") return std::numeric_limits<float>::quiet_NaN();
  if (json == "inf" || json == "-inf") return json == "inf" ? INFINITY : -INFINITY;
  const float value = json;
  if (!std::isfinite(value)) refuse(fmt::format("`{}` is {}", name, json.dump()), where);
  return value;
}

Json best_json(const BestCheckpoint& best) { return {{"metric", best.metric}, {"step", best.step}, {"value", best.value}}; }

BestCheckpoint best_of(const Json& json, const std::string& where) {
  return {json.at("metric"), count_at(json, "step", where), json.at("value")};
}

Json data_json(const DataIdentity& identity) {
  Json json = {{"samples", identity.samples}, {"hash", identity.hash}};
  if (!identity.names.empty()) json["names"] = identity.names;
  if (!identity.tokenizers.empty()) json["tokenizers"] = identity.tokenizers;
  return json;
}

DataIdentity data_of(const Json& json, const std::string& where) {
  return {count_at(json, "samples", where), json.at("hash"), json.value("names", ""), json.value("tokenizers", "")};
}

// A phase that another version did not know stays 0.
void read_times(const Json& json, RunTimes& times) {
  times.visit([&](const char* name, double& seconds) {
    if (json.contains(name)) seconds = json.at(name);
  });
}

}  // namespace

bool DataIdentity::same_as(const DataIdentity& other) const {
  if (hash.empty() || other.hash.empty()) return true;
  const auto alike = [](const std::string& a, const std::string& b) { return a.empty() || b.empty() || a == b; };
  return hash == other.hash && alike(names, other.names) && alike(tokenizers, other.tokenizers);
}

std::string to_json(const Progress& progress, const RunDescription& run) {
  Json json;
  json["step"] = progress.step;
  json["examples_seen"] = progress.examples_seen;
  json["owed"] = progress.owed;
  if (progress.metrics) {
    for (const StepMetric& metric : *progress.metrics) json["metrics"][metric.name] = json_of_float(metric.value);
  }
  json["seconds"] = progress.seconds;
  RunTimes times = progress.times;
  times.visit([&](const char* name, double& seconds) { json["times"][name] = seconds; });
  json["best"] = progress.best;
  if (progress.plateau != optim::PlateauState{}) {
    const optim::PlateauState& p = progress.plateau;
    json["plateau"] = {{"scale", p.scale}, {"bad", p.bad}, {"cooldown", p.cooldown}};
    if (p.best) json["plateau"]["best"] = *p.best;
  }
  if (const auto& best = progress.best_checkpoint) {
    json["best_checkpoint"] = best_json(*best);
  }
  for (const BestCheckpoint& one : progress.runners_up) json["runners_up"].push_back(best_json(one));
  if (const auto& stop = progress.early_stop) {
    json["early_stop"] = {{"metric", stop->metric},
                          {"best", stop->best},
                          {"best_step", stop->best_step},
                          {"last_step", stop->last_step},
                          {"worse", stop->worse}};
  }
  json["input"] = {{"height", run.input.height},   {"width", run.input.width},   {"channels", run.input.channels},
                   {"classes", run.input.classes}, {"tokens", run.input.tokens}, {"vocabulary", run.input.vocabulary}};
  json["class_names"] = run.class_names;
  if (run.multi_label) json["multi_label"] = true;
  json["eval_pp"] = run.eval_pp;
  if (!run.data.hash.empty()) json["data"] = data_json(run.data);
  for (const auto& [name, identity] : run.eval_data) json["eval_data"][name] = data_json(identity);
  json["recipe"] = run.recipe;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Progress parse_progress(const std::string& text, const std::string& where) {
  return from_json<Progress>(text, where, [&](const Json& json) {
    Progress progress;
    progress.step = count_at(json, "step", where);
    progress.examples_seen = count_at(json, "examples_seen", where);
    progress.owed = json.at("owed");
    if (json.contains("metrics")) {
      progress.metrics.emplace();
      for (const auto& [name, value] : json.at("metrics").items()) {
        progress.metrics->push_back({name, measurement_of(value, name, where)});
      }
    }
    progress.seconds = json.at("seconds");
    if (json.contains("times")) read_times(json.at("times"), progress.times);
    progress.best = json.at("best").get<std::map<std::string, double>>();
    if (json.contains("plateau")) {
      const Json& plateau = json.at("plateau");
      progress.plateau = {plateau.at("scale"), {}, count_at(plateau, "bad", where), count_at(plateau, "cooldown", where)};
      if (plateau.contains("best")) progress.plateau.best = plateau.at("best").get<double>();
    }
    if (json.contains("best_checkpoint")) progress.best_checkpoint = best_of(json.at("best_checkpoint"), where);
    if (json.contains("runners_up")) {
      for (const Json& one : json.at("runners_up")) progress.runners_up.push_back(best_of(one, where));
    }
    if (json.contains("early_stop")) {
      const Json& stop = json.at("early_stop");
      progress.early_stop = EarlyStopState{stop.at("metric"), stop.at("best"), count_at(stop, "best_step", where),
                                           count_at(stop, "last_step", where), count_at(stop, "worse", where)};
    }
    return progress;
  });
}

RunDescription parse_description(const std::string& text, const std::string& where) {
  return from_json<RunDescription>(text, where, [&](const Json& json) {
    RunDescription run;
    run.recipe = json.at("recipe");
    const Json& input = json.at("input");
    const auto count = [&](const char* key) { return count_at(input, key, where); };
    // Runs of models without texts did not always say so.
    const auto of_texts = [&](const char* key) { return input.contains(key) ? count(key) : 0; };
    run.input = {count("height"),  count("width"),     count("channels"),
                 count("classes"), of_texts("tokens"), of_texts("vocabulary")};
    run.class_names = json.at("class_names").get<std::vector<std::string>>();
    run.multi_label = json.value("multi_label", false);
    run.eval_pp = json.at("eval_pp");
    if (json.contains("data")) run.data = data_of(json.at("data"), where);
    if (json.contains("eval_data")) {
      for (const auto& [name, identity] : json.at("eval_data").items()) run.eval_data[name] = data_of(identity, where);
    }
    return run;
  });
}

}  // namespace tessera::state
