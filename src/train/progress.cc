#include "train/progress.h"

#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tessera::train {
namespace {

using Json = nlohmann::ordered_json;

// Runs `read` on the parsed text; anything missing or of another type is a data error.
template <class T>
T read_json(const std::string& text, const std::string& where, const std::function<T(const Json&)>& read) {
  try {
    return read(Json::parse(text));
  } catch (const nlohmann::json::exception& error) {
    throw data_error(std::string("state.json is not what this program writes: ") + error.what(), where,
                     "another version may have written the checkpoint");
  }
}

}  // namespace

std::string to_json(const Progress& progress, const RunDescription& run) {
  Json json;
  json["step"] = progress.step;
  json["examples_seen"] = progress.examples_seen;
  json["owed"] = progress.owed;
  if (progress.metrics) {
    for (const StepMetric& metric : *progress.metrics) json["metrics"][metric.name] = metric.value;
  }
  json["seconds"] = progress.seconds;
  json["best"] = progress.best;
  if (progress.plateau != optim::PlateauState{}) {
    const optim::PlateauState& p = progress.plateau;
    json["plateau"] = {{"scale", p.scale}, {"bad", p.bad}, {"cooldown", p.cooldown}};
    if (p.best) json["plateau"]["best"] = *p.best;
  }
  json["input"] = {{"height", run.input.height},   {"width", run.input.width},   {"channels", run.input.channels},
                   {"classes", run.input.classes}, {"tokens", run.input.tokens}, {"vocabulary", run.input.vocabulary}};
  json["class_names"] = run.class_names;
  json["eval_pp"] = run.eval_pp;
  json["recipe"] = run.recipe;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Progress parse_progress(const std::string& text, const std::string& where) {
  return read_json<Progress>(text, where, [](const Json& json) {
    Progress progress;
    progress.step = json.at("step");
    progress.examples_seen = json.at("examples_seen");
    progress.owed = json.at("owed");
    if (json.contains("metrics")) {
      progress.metrics.emplace();
      for (const auto& [name, value] : json.at("metrics").items()) progress.metrics->push_back({name, value});
    }
    progress.seconds = json.at("seconds");
    progress.best = json.at("best").get<std::map<std::string, double>>();
    if (json.contains("plateau")) {
      const Json& plateau = json.at("plateau");
      progress.plateau = {plateau.at("scale"), {}, plateau.at("bad"), plateau.at("cooldown")};
      if (plateau.contains("best")) progress.plateau.best = plateau.at("best").get<double>();
    }
    return progress;
  });
}

RunDescription parse_description(const std::string& text, const std::string& where) {
  return read_json<RunDescription>(text, where, [](const Json& json) {
    RunDescription run;
    run.recipe = json.at("recipe");
    const Json& input = json.at("input");
    run.input = {input.at("height"),  input.at("width"),        input.at("channels"),
                 input.at("classes"), input.value("tokens", 0), input.value("vocabulary", 0)};
    run.class_names = json.at("class_names").get<std::vector<std::string>>();
    run.eval_pp = json.at("eval_pp");
    return run;
  });
}

}  // namespace tessera::train
