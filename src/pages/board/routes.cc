#include "pages/board/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "pages/board/api.h"
#include "pages/board/assets.h"
#include "pages/board/prometheus.h"
#include "train/control/control_socket.h"

namespace tessera::board {
namespace {

using http::Request;
using http::Response;

constexpr const char* kHtml = "text/html; charset=utf-8";
constexpr int64_t kMaxPoints = 10000, kUsualPoints = 2000;
constexpr double kUsualProfile = 10;  // seconds
// Nothing but what this server gives; styles in attributes are those of reports.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

Response text(int status, std::string body) { return {status, "text/plain; charset=utf-8", std::move(body) + "\n"}; }

Response json(const Json& value) {
  return {200, "application/json", value.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

// A mistake in a parameter, or in what the run answered.
struct Refusal {
  int status;
  std::string why;
};

int64_t integer(const Request& request, const char* name, int64_t otherwise, int64_t least, int64_t most) {
  const auto given = request.parameter(name);
  if (!given) return otherwise;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(given->data(), given->data() + given->size(), value);
  if (error != std::errc{} || end != given->data() + given->size() || value < least || value > most) {
    throw Refusal{400, fmt::format("`{}` is a whole number from {} to {}", name, least, most)};
  }
  return value;
}

double profile_seconds(const Request& request) {
  const auto given = request.parameter("seconds");
  if (!given) return kUsualProfile;
  double value = 0;
  const auto [end, error] = std::from_chars(given->data(), given->data() + given->size(), value);
  const bool whole = error == std::errc{} && end == given->data() + given->size();
  if (!whole || !(value > 0 && value <= train::kMaxProfileSeconds)) {
    throw Refusal{400, fmt::format("`seconds` is a number up to {:g}", train::kMaxProfileSeconds)};
  }
  return value;
}

}  // namespace

const std::vector<Route>& routes() {
  static const std::vector<Route> all = {{"GET", "/"},
                                         {"GET", "/assets/"},
                                         {"GET", "/healthz", true},
                                         {"GET", "/metrics"},
                                         {"GET", "/api/runs", false, true},
                                         {"GET", "/api/run"},
                                         {"GET", "/api/metrics", false, true},
                                         {"GET", "/api/log", false, true},
                                         {"GET", "/api/hosts", false, true},
                                         {"GET", "/api/part"},
                                         {"GET", "/api/events"},
                                         {"POST", "/api/checkpoint"},
                                         {"POST", "/api/stop"},
                                         {"POST", "/api/profile"}};
  return all;
}

namespace {

std::shared_ptr<WatchedRun> run_of(const Runs& runs, const std::string& name) {
  auto run = runs.find(name);
  if (!run) throw Refusal{404, name.empty() ? "there is no run yet" : fmt::format("there is no run `{}`", name)};
  return run;
}
std::shared_ptr<WatchedRun> run_of(const Runs& runs, const Request& request) {
  return run_of(runs, request.parameter("run").value_or(""));
}

Response summaries(const Runs& runs) {
  Json all = Json::array();
  for (const auto& run : runs.all()) all.push_back(run->summary());
  return json({{"runs", std::move(all)}, {"problems", runs.problems()}});
}

Response metrics(const Runs& runs, const Request& request) {
  std::vector<std::string> names;
  if (const auto keys = request.parameter("keys"); keys && !keys->empty()) names = split(*keys, ',');
  const int64_t after = integer(request, "after", -1, -1, INT64_MAX);
  const int64_t most = integer(request, "max", kUsualPoints, 4, kMaxPoints);
  return json(run_of(runs, request)->metrics(names, after, static_cast<size_t>(most)));
}

std::string differences(const Runs& runs, const std::string& names) {
  std::vector<std::string> paths;
  for (const std::string& name : split(names, '\n')) paths.push_back(run_of(runs, name)->path());
  return differences_part(paths).text;
}

Response control(const Runs& runs, const Request& request) {
  const auto run = run_of(runs, request);
  const std::string what = request.path.substr(request.path.rfind('/') + 1);
  nlohmann::ordered_json asked = {{"do", what}};
  if (what == "profile") asked["seconds"] = profile_seconds(request);
  try {
    return json(train::ask_run(run->path(), asked));
  } catch (const Error& error) {
    throw Refusal{409, error.message()};
  }
}

}  // namespace

Answers::Answers(std::shared_ptr<Runs> runs, Access access) : runs_(std::move(runs)), access_(std::move(access)) {}

http::Response Answers::dispatch(const Request& request, const Route& route) {
  const std::string path = route.path;
  if (path == "/healthz") return text(200, "ok");
  if (path == "/metrics") return {200, "text/plain; version=0.0.4; charset=utf-8", prometheus_text(runs_->all())};
  if (path == "/api/runs") return summaries(*runs_);
  if (path == "/api/metrics") return metrics(*runs_, request);
  if (path == "/api/events") return {200, "text/event-stream", "retry: 3000\n\n", {}, true};
  if (std::string_view(route.method) == "POST") return control(*runs_, request);
  if (path == "/" || path == "/assets/") {
    const Asset* asset = find_asset(request.path.substr(path == "/" ? 1 : path.size()));
    if (!asset || (path == "/assets/" && request.path == path)) return text(404, "there is no such file");
    return {200, asset->type, std::string(asset->body)};
  }
  const std::string part = request.parameter("part").value_or("");
  if (path == "/api/part" && part == "differences") {
    return {200, kHtml, differences(*runs_, request.parameter("run").value_or(""))};
  }
  const auto run = run_of(*runs_, request);
  if (path == "/api/log") return json(log_lines(run->path(), integer(request, "after", 0, 0, INT64_MAX)));
  if (path == "/api/hosts") return json(run->hosts());
  const auto kept = [&](int64_t version, const auto& make) {
    return parts_.get(fmt::format("{}\n{}\n{}", path, part, run->path()), version, run->trains(),
                      [&] { return make(run->path()); });
  };
  if (path == "/api/run") {
    const int64_t version = run->version();
    return {200, "application/json", kept(version, [&run, version](const std::string& at) {
              Json details = run_details(at);
              details["version"] = version;
              details["compilations"] = run->compilations();
              return details.dump(-1, ' ', false, Json::error_handler_t::replace);
            })};
  }
  if (part == "evaluations") {
    return {200, kHtml, kept(run->version(), [](const std::string& at) { return evaluations_part(at).text; })};
  }
  if (part == "facts") return {200, kHtml, kept(run->version(), [](const std::string& at) { return facts_part(at).text; })};
  if (part == "images") {
    // The file of the first batch comes with the first step.
    const int64_t version = run->has_steps() ? 1 : 0;
    return {200, kHtml, kept(version, [](const std::string& at) { return images_part(at).text; })};
  }
  throw Refusal{400, "`part` is evaluations, facts, images or differences"};
}

std::optional<http::Response> Answers::at_hand(const Request& request) const {
  const auto route = std::ranges::find_if(routes(), [&](const Route& one) { return one.kept && one.path == request.path; });
  if (route == routes().end() || request.method != route->method || access_.refusal(request, route->open)) return std::nullopt;
  return answers_.get(request);
}

void Answers::looked() { answers_.next_look(); }

http::Response Answers::answer(const Request& request) {
  const int64_t look = answers_.look();
  const auto covers = [&](const Route& route) {
    const std::string_view path = route.path;
    return path.size() > 1 && path.ends_with('/') ? request.path.starts_with(path) : request.path == path;
  };
  std::vector<const Route*> found;
  for (const Route& route : routes()) {
    if (covers(route)) found.push_back(&route);
  }
  const bool open = !found.empty() && found[0]->open;
  const auto route = std::ranges::find_if(found, [&](const Route* one) { return one->method == request.method; });
  Response response;
  if (auto refused = access_.refusal(request, open)) {
    response = std::move(*refused);
  } else if (found.empty()) {
    response = text(404, "there is nothing at this address");
  } else if (route == found.end()) {
    response = text(405, fmt::format("this address takes {}", found[0]->method));
    response.headers = {{"Allow", found[0]->method}};
  } else if (auto elsewhere = request.path == "/" ? access_.without_token(request) : std::nullopt) {
    response = std::move(*elsewhere);
  } else {
    try {
      response = dispatch(request, **route);
    } catch (const Refusal& refusal) {
      response = text(refusal.status, refusal.why);
    } catch (const Error& error) {
      response = text(404, error.message());
    }
  }
  response.headers.insert(response.headers.end(), {{"Cache-Control", "no-store"},
                                                   {"Content-Security-Policy", kPolicy},
                                                   {"Referrer-Policy", "no-referrer"},
                                                   {"X-Content-Type-Options", "nosniff"}});
  if (response.status == 200 && (*route)->kept) answers_.put(request, response, look);
  return response;
}

}  // namespace tessera::board
