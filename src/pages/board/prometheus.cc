#include "pages/board/prometheus.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

namespace tessera::board {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

std::string gauge_name(std::string_view metric) {
  std::string out = "tessera_";
  for (const char c : metric) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (plain || out.back() != '_') out += plain ? c : '_';
  }
  while (out.ends_with('_')) out.pop_back();
  return out;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

}  // namespace

std::string prometheus_text(const std::vector<std::shared_ptr<WatchedRun>>& runs) {
  std::map<std::string, std::vector<std::string>> gauges;  // the samples of one stand together
  for (const auto& run : runs) {
    const std::string label = fmt::format("run=\"{}\"", escaped(run->name()));
    int64_t step = 0;
    for (const auto& [metric, point] : run->newest()) {
      const std::string name = gauge_name(metric);
      gauges[name].push_back(fmt::format("{}{{{},metric=\"{}\"}} {}", name, label, escaped(metric), number(point.value)));
      step = std::max(step, point.step);
    }
    gauges["tessera_step"].push_back(fmt::format("tessera_step{{{}}} {}", label, step));
    gauges["tessera_run_state"].push_back(fmt::format("tessera_run_state{{{},state=\"{}\"}} 1", label, run->state()));
  }
  std::string out;
  for (const auto& [name, samples] : gauges) {
    out += fmt::format("# TYPE {} gauge\n", name);
    for (const std::string& sample : samples) out += sample + "\n";
  }
  return out;
}

}  // namespace tessera::board
