#include "monitor/mlflow/answers.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/error.h"

namespace tessera::monitor {
namespace {

Error no_server() { return data_error("what answers at MLFLOW_TRACKING_URI is no MLflow server"); }

// What nlohmann throws for a value of another kind is an Error here.
template <class Read>
auto reading(Read&& read) {
  try {
    return read();
  } catch (const nlohmann::json::exception&) {
    throw no_server();
  }
}

// Some servers write 64-bit numbers as texts, as protobuf's mapping has it; what is left out is 0.
double number_at(const nlohmann::json& json, const char* key) {
  const nlohmann::json value = json.value(key, nlohmann::json(0));
  return value.is_string() ? std::strtod(value.get<std::string>().c_str(), nullptr) : value.get<double>();
}

int64_t step_of(const nlohmann::json& point) {
  const nlohmann::json value = point.value("step", nlohmann::json(0));
  int64_t step = 0;
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), step);
    if (failed != std::errc() || end != text.data() + text.size()) throw no_server();
    return step;
  }
  constexpr double kExact = 0x1p53;
  const auto number = value.get<double>();
  if (!(std::abs(number) <= kExact)) throw no_server();
  return static_cast<int64_t>(number);
}

}  // namespace

std::string mlflow_text_at(const nlohmann::json& answer, const nlohmann::json::json_pointer& place) {
  return reading([&] { return answer.at(place).get<std::string>(); });
}

MlflowRunInfo mlflow_run(const nlohmann::json& answer, const std::string& id) {
  return reading([&] {
    MlflowRunInfo out{id, true, {}, {}};
    const nlohmann::json& run = answer.at("run");
    out.active = run.at("info").value("lifecycle_stage", "active") == "active";
    const nlohmann::json data = run.value("data", nlohmann::json::object());
    for (const nlohmann::json& param : data.value("params", nlohmann::json::array()))
      out.params[param.at("key")] = param.value("value", "");
    for (const nlohmann::json& metric : data.value("metrics", nlohmann::json::array())) out.metrics.push_back(metric.at("key"));
    return out;
  });
}

MlflowPointPage mlflow_points(const nlohmann::json& answer, const std::string& token) {
  return reading([&] {
    MlflowPointPage page;
    for (const nlohmann::json& point : answer.value("metrics", nlohmann::json::array()))
      page.points[step_of(point)] = number_at(point, "value");
    page.next = answer.value("next_page_token", "");
    if (!page.next.empty() && page.next == token) throw no_server();
    return page;
  });
}

bool mlflow_has_none(long status, const nlohmann::json& answer) {
  if (status != 404 || !answer.is_object()) return false;
  const auto code = answer.find("error_code");
  return code != answer.end() && code->is_string() && code->get<std::string>() == "RESOURCE_DOES_NOT_EXIST";
}

}  // namespace tessera::monitor
