#pragma once
// A run on MLflow's server, through its REST interface (https://mlflow.org/docs/latest/rest-api.html, version 2.0).

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "http/web_client.h"
#include "monitor/mlflow/answers.h"

namespace tessera::monitor {

// How the server is reached, as MLflow's own programs read it from the environment: MLFLOW_TRACKING_URI, _USERNAME, _PASSWORD,
// _TOKEN, _INSECURE_TLS, _SERVER_CERT_PATH, _CLIENT_CERT_PATH, and MLFLOW_HTTP_REQUEST_TIMEOUT in seconds.
struct MlflowServer {
  std::string uri;
  http::WebOptions http;
};
// Throws a data Error where the variables name no server.
MlflowServer mlflow_server();

using MlflowPairs = std::vector<std::pair<std::string, std::string>>;

// The server takes so many in one request (mlflow/utils/validation.py).
constexpr size_t kMlflowMaxPoints = 1000;
struct MlflowPoint {
  std::string key;
  double value = 0;
  int64_t time = 0;  // milliseconds since 1970
  int64_t step = 0;
};

// For one thread. All functions throw a data Error where the server is not reached or refuses.
class MlflowClient {
 public:
  explicit MlflowClient(const MlflowServer& server) : uri_(server.uri), http_(server.http) {}

  // The experiment that MLFLOW_EXPERIMENT_ID or _NAME says, which is made where there is none; else the default one, "0".
  std::string experiment();
  // Its id. Time in seconds since 1970.
  std::string create_run(const std::string& experiment, const std::string& name, double time, const MlflowPairs& tags);
  // Nothing where the server does not know it.
  std::optional<MlflowRunInfo> find_run(const std::string& id);
  // Its points of a key: values by step, the last that came where a step has several.
  std::map<int64_t, double> points(const std::string& run, const std::string& key);

  // As many requests as the server's limits ask for.
  void log_params(const std::string& run, const MlflowPairs& params);
  // One request, of at most kMlflowMaxPoints.
  void log_metrics(const std::string& run, std::span<const MlflowPoint> points);
  // "RUNNING", "FINISHED", "FAILED" or "KILLED"; with a time it has ended then.
  void set_status(const std::string& run, const std::string& status, std::optional<double> end = std::nullopt);

 private:
  struct Reply;
  Reply call(const std::string& path, const std::string& json = {});
  void tell(const std::string& path, const std::string& json);

  const std::string uri_;
  http::WebClient http_;
};

}  // namespace tessera::monitor
