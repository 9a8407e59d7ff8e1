#include "pages/board/prometheus.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <utility>

namespace tessera::board {
namespace {

// As a label's value, between quotes, or as help, without.
std::string escaped(std::string_view text, bool quoted = true) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || (quoted && c == '"')) out += '\\';
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
  struct Gauge {
    std::string help;
    std::vector<std::string> samples;
  };
  std::map<std::string, Gauge> gauges;  // the samples of one stand together
  const auto add = [&](const std::string& name, const std::string& help, std::string sample) {
    Gauge& gauge = gauges[name];
    if (gauge.help.empty()) gauge.help = help;
    gauge.samples.push_back(std::move(sample));
  };
  for (const auto& run : runs) {
    const std::string label = fmt::format("run=\"{}\"", escaped(run->name()));
    int64_t step = 0;
    for (const auto& [metric, point] : run->newest()) {
      const std::string name = gauge_name(metric);
      add(name, fmt::format("The newest {} of a run (docs/monitoring.md).", escaped(metric, /*quoted=*/false)),
          fmt::format("{}{{{},metric=\"{}\"}} {}", name, label, escaped(metric), number(point.value)));
      step = std::max(step, point.step);
    }
    add("tessera_step", "The newest step of a run.", fmt::format("tessera_step{{{}}} {}", label, step));
    for (const monitor::ProcessFigures& one : run->processes()) {
      const std::string labels = fmt::format("{},process=\"{}\",host=\"{}\"", label, one.process, escaped(one.host));
      const auto add_figure = [&](const char* figure, const std::string& value) {
        const std::string name = fmt::format("tessera_process_{}", figure);
        add(name, fmt::format("The newest {} of a process of a run (docs/board.md).", figure),
            fmt::format("{}{{{}}} {}", name, labels, value));
      };
      add_figure("step", std::to_string(one.step));
      add_figure("seen", number(one.seen));
      for (const auto& [figure, value] : one.numbers()) {
        if (value) add_figure(figure, number(*value));
      }
    }
    add("tessera_run_state", "1 for the state that a run is in.",
        fmt::format("tessera_run_state{{{},state=\"{}\"}} 1", label, run->state()));
  }
  std::string out;
  for (const auto& [name, gauge] : gauges) {
    out += fmt::format("# HELP {0} {1}\n# TYPE {0} gauge\n", name, gauge.help);
    for (const std::string& sample : gauge.samples) out += sample + "\n";
  }
  return out;
}

}  // namespace tessera::board
