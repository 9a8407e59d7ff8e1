#include "monitor/plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "monitor/metrics.h"

namespace tessera::monitor {
namespace {

constexpr double kPanelWidth = 520, kHeight = 360;
constexpr double kLeft = 64, kRight = 20, kTop = 62, kBottom = 50;
constexpr size_t kMaxPoints = 1000;   // of a curve; more are drawn as the extremes of as many stretches
constexpr size_t kSmoothedFrom = 60;  // points from which on a moving average helps
constexpr size_t kSmoothing = 40;     // the average spans a fortieth of the points
constexpr const char* kInk = "#6e7781";
constexpr std::array<const char*, 5> kColors{"#2f81f7", "#e0812b", "#2da44e", "#a371f7", "#d9485f"};

bool finite(const PlotPoint& p) { return std::isfinite(p.x) && std::isfinite(p.y); }

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void add(double value) { low = std::min(low, value), high = std::max(high, value); }
};

struct Axes {
  Range x_range;                         // the axis ends where the data do
  std::vector<double> x_ticks, y_ticks;  // the y axis ends at its outer ticks
  double left = 0;                       // of the panel

  double x(double value) const {
    return left + kLeft + (value - x_range.low) / (x_range.high - x_range.low) * (kPanelWidth - kLeft - kRight);
  }
  double y(double value) const {
    return kHeight - kBottom - (value - y_ticks.front()) / (y_ticks.back() - y_ticks.front()) * (kHeight - kTop - kBottom);
  }
};

const char* color_of(const PlotSeries& series) { return kColors[series.color % kColors.size()]; }

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string straight(double x1, double y1, double x2, double y2, const char* color, double width = 1, double opacity = 1) {
  return fmt::format(
      R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}" stroke-width="{}" stroke-opacity="{}"/>)"
      "\n",
      x1, y1, x2, y2, color, width, opacity);
}

std::string label(double x, double y, std::string_view anchor, std::string_view content, std::string_view more = {}) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\"{}>{}</text>\n", x, y, anchor, kInk, more,
                     escaped(content));
}

// 0.02, 150, 20k: ticks are round, so few digits say all.
std::string tick_text(double value) {
  if (std::abs(value) >= 1e6) return fmt::format("{:g}M", value / 1e6);
  if (std::abs(value) >= 1e4) return fmt::format("{:g}k", value / 1e3);
  return fmt::format("{:g}", std::abs(value) < 1e-12 ? 0.0 : value);
}

std::vector<PlotPoint> thinned(const std::vector<PlotPoint>& points) {
  if (points.size() <= kMaxPoints) return points;
  std::vector<PlotPoint> out;
  const size_t stretches = kMaxPoints / 2;
  for (size_t s = 0; s < stretches; ++s) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(points.size() * s / stretches);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>(points.size() * (s + 1) / stretches);
    auto [low, high] = std::minmax_element(begin, end, [](const PlotPoint& a, const PlotPoint& b) { return a.y < b.y; });
    if (high < low) std::swap(low, high);
    out.push_back(*low);
    if (high != low) out.push_back(*high);
  }
  return out;
}

std::vector<PlotPoint> averaged(const std::vector<PlotPoint>& points) {
  std::vector<double> sums{0};
  for (const PlotPoint& p : points) sums.push_back(sums.back() + p.y);
  std::vector<PlotPoint> out;
  const size_t reach = points.size() / kSmoothing / 2 + 1;
  for (size_t i = 0; i < points.size(); ++i) {
    const size_t each = std::min({reach, i, points.size() - 1 - i});  // the same on both sides, so that the ends don't lag
    out.push_back({points[i].x, (sums[i + each + 1] - sums[i - each]) / static_cast<double>(2 * each + 1)});
  }
  return out;
}

std::string curve(const Axes& axes, const std::vector<PlotPoint>& points, const char* color, double width, double opacity) {
  std::string path;
  for (const PlotPoint& p : points) path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", axes.x(p.x), axes.y(p.y));
  return fmt::format(R"(<polyline points="{}" fill="none" stroke="{}" stroke-width="{}" stroke-opacity="{}" )"
                     "stroke-linejoin=\"round\"/>\n",
                     path, color, width, opacity);
}

// The stretches between points that are not finite.
std::vector<std::vector<PlotPoint>> pieces(const std::vector<PlotPoint>& points) {
  std::vector<std::vector<PlotPoint>> out;
  bool open = false;
  for (const PlotPoint& p : points) {
    if (finite(p) && !open) out.emplace_back();
    open = finite(p);
    if (open) out.back().push_back(p);
  }
  return out;
}

std::string draw_series(const Axes& axes, const PlotSeries& series, const char* color) {
  std::string out;
  for (const auto& piece : pieces(series.points)) {
    const bool smooth = !series.marked && piece.size() >= kSmoothedFrom;
    out += curve(axes, thinned(piece), color, smooth ? 1 : 2, smooth ? 0.5 : 1);
    if (smooth) out += curve(axes, thinned(averaged(piece)), color, 2, 1);
    if (!series.marked && piece.size() > 1) continue;
    for (const PlotPoint& p : piece) {
      out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", axes.x(p.x), axes.y(p.y), color);
    }
  }
  return out;
}

std::string draw_axes(const Axes& axes, std::string_view x_label) {
  const double left = axes.left + kLeft, right = axes.left + kPanelWidth - kRight, bottom = kHeight - kBottom;
  std::string out;
  for (const double tick : axes.y_ticks) {
    const double y = axes.y(tick);
    out += straight(left, y, right, y, kInk, 1, 0.25) + label(left - 8, y + 4, "end", tick_text(tick));
  }
  for (const double tick : axes.x_ticks) {
    const double x = axes.x(tick);
    out += straight(x, bottom, x, bottom + 5, kInk) + label(x, bottom + 20, "middle", tick_text(tick));
  }
  out += straight(left, bottom, right, bottom, kInk);
  return out + label((left + right) / 2, kHeight - 10, "middle", x_label);
}

std::string draw_heading(const PlotPanel& panel, double left) {
  std::string out = label(left + kLeft, 24, "start", panel.title, " font-size=\"15\" font-weight=\"600\"");
  if (!panel.note.empty()) out += label(left + kPanelWidth - kRight, 24, "end", panel.note);
  double x = left + kLeft;
  for (const PlotSeries& series : panel.series) {
    out += straight(x, 42, x + 16, 42, color_of(series), 3);
    out += label(x + 22, 46, "start", series.name);
    x += 22 + 7.5 * static_cast<double>(series.name.size()) + 18;
  }
  return out;
}

std::optional<std::string> draw_panel(const PlotPanel& panel, double left, std::string_view x_label) {
  Range x, y;
  for (const PlotSeries& series : panel.series) {
    for (const PlotPoint& p : series.points) {
      if (finite(p)) x.add(p.x), y.add(p.y);
    }
  }
  if (x.low > x.high) return std::nullopt;
  // A scale from zero where that costs little room tells more than one that magnifies noise.
  if (y.low > 0 && y.low < 0.4 * y.high) y.low = 0;
  if (x.low > 0 && x.low < 0.4 * x.high) x.low = 0;
  Axes axes{x, axis_ticks(x.low, x.high, 6), axis_ticks(y.low, y.high, 6), left};
  if (x.high > x.low) {
    std::erase_if(axes.x_ticks, [&](double tick) { return tick < x.low || tick > x.high * (1 + 1e-9); });
  } else {
    axes.x_range = {axes.x_ticks.front(), axes.x_ticks.back()};
  }
  std::string out = draw_heading(panel, left) + draw_axes(axes, x_label);
  for (const PlotSeries& series : panel.series) out += draw_series(axes, series, color_of(series));
  return out;
}

PlotSeries& series_named(PlotPanel& panel, const std::string& name, bool marked, size_t color) {
  for (PlotSeries& series : panel.series) {
    if (series.name == name) return series;
  }
  panel.series.push_back({name, {}, marked, color});
  return panel.series.back();
}

// Accuracies are fractions in some evaluators and per cents in others.
void scale_to_percent(PlotPanel& panel) {
  double highest = 0;
  for (const PlotSeries& series : panel.series) {
    for (const PlotPoint& p : series.points) highest = finite(p) ? std::max(highest, p.y) : highest;
  }
  if (highest > 1) return;
  for (PlotSeries& series : panel.series) {
    for (PlotPoint& p : series.points) p.y *= 100;
  }
}

void note_best(PlotPanel& panel) {
  const PlotPoint* best = nullptr;
  for (const PlotSeries& series : panel.series) {
    for (const PlotPoint& p : series.points) {
      if (finite(p) && (!best || p.y > best->y)) best = &p;
    }
  }
  if (best) panel.note = fmt::format("best {:.2f} at step {:.0f}", best->y, best->x);
}

}  // namespace

std::vector<double> axis_ticks(double low, double high, int count) {
  if (!(high > low)) {
    const double room = std::max(std::abs(low) * 0.1, 1e-6);
    low -= room, high += room;
  }
  const double rough = (high - low) / count, power = std::pow(10.0, std::floor(std::log10(rough)));
  const double ratio = rough / power;
  const double step = power * (ratio <= 1 ? 1 : ratio <= 2 ? 2 : ratio <= 5 ? 5 : 10);
  // A value that is a tick up to rounding must not add another one.
  const auto first = static_cast<int64_t>(std::floor(low / step + 1e-9));
  const auto last = static_cast<int64_t>(std::ceil(high / step - 1e-9));
  std::vector<double> ticks;
  for (int64_t i = first; i <= std::max(last, first + 1); ++i) ticks.push_back(static_cast<double>(i) * step);
  return ticks;
}

std::string plot_svg(const std::vector<PlotPanel>& panels, std::string_view x_label) {
  std::string body;
  double width = 0;
  for (const PlotPanel& panel : panels) {
    const auto drawn = draw_panel(panel, width, x_label);
    if (!drawn) continue;
    body += *drawn;
    width += kPanelWidth;
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" "
             "font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\" font-size=\"13\">\n",
             std::max(width, kPanelWidth), kHeight, std::max(width, kPanelWidth), kHeight) +
         body + "</svg>\n";
}

std::optional<std::string> write_plot(const std::string& workdir, store::FileSystem& files) {
  PlotPanel loss{"Loss", {}, {}}, accuracy{"Top-1 accuracy (%)", {}, {}};
  std::map<std::string, size_t> colors;  // of evaluators, in order of appearance; 0 is the training's
  for (const MetricRow& row : read_metrics(store::join_path(workdir, "metrics.jsonl"), files)) {
    const double x = static_cast<double>(row.step);
    for (const auto& [name, value] : row.values) {
      if (name == "training_loss") series_named(loss, "train", false, 0).points.push_back({x, value});
      const auto slash = name.rfind('/');
      if (slash == std::string::npos) continue;
      const std::string what = name.substr(slash + 1);
      if (what != "loss" && what != "prec@1") continue;
      const std::string evaluator = name.substr(0, slash);
      const size_t color = colors.emplace(evaluator, colors.size() + 1).first->second;
      series_named(what == "loss" ? loss : accuracy, evaluator, true, color).points.push_back({x, value});
    }
  }
  if (loss.series.empty() && accuracy.series.empty()) return std::nullopt;
  scale_to_percent(accuracy);
  note_best(accuracy);
  const std::string path = store::join_path(workdir, "plot.svg");
  store::write_atomic(files, path, plot_svg({loss, accuracy}, "step"));
  return path;
}

}  // namespace tessera::monitor
