#include "monitor/mlflow/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/system/environment.h"
#include "base/text/json.h"
#include "monitor/mlflow/names.h"

namespace tessera::monitor {
namespace {

// mlflow/utils/validation.py
constexpr size_t kMaxPairs = 100;
constexpr int64_t kPage = 25'000;
constexpr size_t kShownReason = 300;  // characters of what a server says

int64_t milliseconds(double seconds) { return std::llround(seconds * 1000); }

// JSON's own texts for what is no number in JSON, as protobuf's mapping has them.
nlohmann::json number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

nlohmann::json pairs_of(const MlflowPairs& pairs) {
  nlohmann::json out = nlohmann::json::array();
  for (const auto& [key, value] : pairs) out.push_back({{"key", key}, {"value", value}});
  return out;
}

std::string text_of(const nlohmann::json& json) { return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); }

bool is_true(const std::string& value) { return value == "true" || value == "True" || value == "TRUE" || value == "1"; }

// What a page or a proxy in the place of the server says is of no use in a message.
std::string reason_of(long status, const nlohmann::json& body) {
  std::string text = fmt::format("the server says {}", status);
  if (body.is_object() && body.contains("message") && body["message"].is_string()) {
    text += ": " + mlflow_text(one_line(body["message"].get<std::string>()), kShownReason);
  } else if (status == 401 || status == 403) {
    text += ": MLFLOW_TRACKING_USERNAME and _PASSWORD, or MLFLOW_TRACKING_TOKEN, let nobody in";
  }
  return text;
}

}  // namespace

MlflowServer mlflow_server() {
  MlflowServer server;
  server.uri = environment_variable("MLFLOW_TRACKING_URI");
  while (server.uri.ends_with('/')) server.uri.pop_back();
  if (!server.uri.starts_with("http://") && !server.uri.starts_with("https://")) {
    throw data_error(server.uri.empty() ? "MLFLOW_TRACKING_URI is not set: it names the server, as http://host:5000"
                                        : "MLFLOW_TRACKING_URI names no server, as http://host:5000 does");
  }
  server.http.user = environment_variable("MLFLOW_TRACKING_USERNAME");
  server.http.password = environment_variable("MLFLOW_TRACKING_PASSWORD");
  server.http.token = environment_variable("MLFLOW_TRACKING_TOKEN");
  server.http.verify = !is_true(environment_variable("MLFLOW_TRACKING_INSECURE_TLS"));
  server.http.authorities = environment_variable("MLFLOW_TRACKING_SERVER_CERT_PATH");
  server.http.own_certificate = environment_variable("MLFLOW_TRACKING_CLIENT_CERT_PATH");
  const std::string limit = environment_variable("MLFLOW_HTTP_REQUEST_TIMEOUT");
  int seconds = 0;
  std::from_chars(limit.data(), limit.data() + limit.size(), seconds);
  if (seconds > 0) server.http.timeout = std::chrono::seconds(seconds);
  return server;
}

struct MlflowClient::Reply {
  nlohmann::json body;
  bool there = true;  // false: the server has no such thing
};

MlflowClient::Reply MlflowClient::call(const std::string& path, const std::string& json) {
  const http::WebReply reply = http_.request(uri_ + "/api/2.0/mlflow/" + path, json);
  nlohmann::json body = read_json(reply.body).value;
  if (mlflow_has_none(reply.status, body)) return {nlohmann::json(), false};
  if (reply.status != 200) throw data_error(reason_of(reply.status, body));
  if (!body.is_object()) throw data_error("what answers at MLFLOW_TRACKING_URI is no MLflow server");
  return {std::move(body), true};
}

// Something of a run.
void MlflowClient::tell(const std::string& path, const std::string& json) {
  if (!call(path, json).there) throw data_error("the server does not know the run any more");
}

std::string MlflowClient::experiment() {
  if (std::string id = environment_variable("MLFLOW_EXPERIMENT_ID"); !id.empty()) return id;
  const std::string name = environment_variable("MLFLOW_EXPERIMENT_NAME");
  if (name.empty()) return "0";
  const nlohmann::json::json_pointer place("/experiment/experiment_id");
  const std::string query = "experiments/get-by-name?experiment_name=" + http_.escaped(name);
  Reply found = call(query);
  if (found.there) return mlflow_text_at(found.body, place);
  try {
    return mlflow_text_at(call("experiments/create", text_of({{"name", name}})).body,
                          nlohmann::json::json_pointer("/experiment_id"));
  } catch (const Error&) {
    // Another run may have made it meanwhile.
    found = call(query);
    if (!found.there) throw;
    return mlflow_text_at(found.body, place);
  }
}

std::string MlflowClient::create_run(const std::string& experiment, const std::string& name, double time,
                                     const MlflowPairs& tags) {
  const nlohmann::json request = {
      {"experiment_id", experiment}, {"run_name", name}, {"start_time", milliseconds(time)}, {"tags", pairs_of(tags)}};
  const Reply reply = call("runs/create", text_of(request));
  if (!reply.there) throw data_error(fmt::format("the server has no experiment {}", experiment));
  return mlflow_text_at(reply.body, nlohmann::json::json_pointer("/run/info/run_id"));
}

std::optional<MlflowRunInfo> MlflowClient::find_run(const std::string& id) {
  const Reply reply = call("runs/get?run_id=" + http_.escaped(id));
  if (!reply.there) return std::nullopt;
  return mlflow_run(reply.body, id);
}

std::map<int64_t, double> MlflowClient::points(const std::string& run, const std::string& key) {
  std::map<int64_t, double> points;
  std::string token;
  do {
    std::string query = fmt::format("metrics/get-history?run_id={}&metric_key={}&max_results={}", http_.escaped(run),
                                    http_.escaped(key), kPage);
    if (!token.empty()) query += "&page_token=" + http_.escaped(token);
    const Reply reply = call(query);
    if (!reply.there) break;
    MlflowPointPage page = mlflow_points(reply.body, token);
    for (const auto& [step, value] : page.points) points[step] = value;
    token = std::move(page.next);
  } while (!token.empty());
  return points;
}

void MlflowClient::log_params(const std::string& run, const MlflowPairs& params) {
  for (size_t begin = 0; begin < params.size(); begin += kMaxPairs) {
    const size_t end = std::min(params.size(), begin + kMaxPairs);
    const MlflowPairs some(params.begin() + static_cast<ptrdiff_t>(begin), params.begin() + static_cast<ptrdiff_t>(end));
    tell("runs/log-batch", text_of({{"run_id", run}, {"params", pairs_of(some)}}));
  }
}

void MlflowClient::log_metrics(const std::string& run, std::span<const MlflowPoint> points) {
  nlohmann::json metrics = nlohmann::json::array();
  for (const MlflowPoint& point : points) {
    metrics.push_back({{"key", point.key}, {"value", number(point.value)}, {"timestamp", point.time}, {"step", point.step}});
  }
  tell("runs/log-batch", text_of({{"run_id", run}, {"metrics", std::move(metrics)}}));
}

void MlflowClient::set_status(const std::string& run, const std::string& status, std::optional<double> end) {
  nlohmann::json request = {{"run_id", run}, {"status", status}};
  if (end) request["end_time"] = milliseconds(*end);
  tell("runs/update", text_of(request));
}

}  // namespace tessera::monitor
