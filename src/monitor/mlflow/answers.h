#pragma once
// What MLflow's server answers (https://mlflow.org/docs/latest/rest-api.html), as client.cc reads it. All functions throw a
// data Error for what no such server says.

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tessera::monitor {

// What the server has of a run.
struct MlflowRunInfo {
  std::string id;
  bool active = true;  // nobody deleted it
  std::map<std::string, std::string> params;
  std::vector<std::string> metrics;  // their keys
};

// A page of a metric's points.
struct MlflowPointPage {
  std::map<int64_t, double> points;  // by step, the last that came where a step has several
  std::string next;                  // token of the next page; empty: none
};

// Of an answer that has it there: {"run": {"info": {"run_id": …}}}.
std::string mlflow_text_at(const nlohmann::json& answer, const nlohmann::json::json_pointer& place);
MlflowRunInfo mlflow_run(const nlohmann::json& answer, const std::string& id);
// `token`: of this page, which cannot lead to itself.
MlflowPointPage mlflow_points(const nlohmann::json& answer, const std::string& token = {});
// Whether the server says that it has no such thing.
bool mlflow_has_none(long status, const nlohmann::json& answer);

}  // namespace tessera::monitor
