#include "monitor/plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/text/markup.h"

namespace tessera::monitor {
namespace {

constexpr double kPanelWidth = 520, kHeight = 360;
constexpr double kLeft = 64, kRight = 20, kTop = 62, kBottom = 50;
constexpr double kLegendTop = 42, kLegendLine = 18, kLetter = 7.5;  // kTop leaves room for one line of names
constexpr int kNameColumns = 48;                                    // columns
constexpr size_t kMaxPoints = 1000;   // of a curve; more are drawn as the extremes of as many stretches
constexpr size_t kSmoothedFrom = 60;  // points from which on a moving average helps
constexpr size_t kSmoothing = 40;     // the average spans a fortieth of the points
constexpr const char* kInk = "#6e7781";
constexpr std::array<const char*, 8> kColors{"#2f81f7", "#e0812b", "#2da44e", "#a371f7",
                                             "#d9485f", "#1795a8", "#a58a10", "#c2559d"};

// Numbers near the largest ones can't be drawn either: their differences are infinite.
bool finite(const PlotPoint& p) { return std::abs(p.x) < 1e300 && std::abs(p.y) < 1e300; }

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void add(double value) { low = std::min(low, value), high = std::max(high, value); }
};

struct Axes {
  bool log_x = false;                             // x is a decimal logarithm
  Range x_range;                                  // the axis ends where the data do
  std::vector<double> x_ticks, y_ticks;           // the y axis ends at its outer ticks
  double left = 0, top = kTop, height = kHeight;  // of the panel, and where its curves begin

  double x(double value) const {
    return left + kLeft + (value - x_range.low) / (x_range.high - x_range.low) * (kPanelWidth - kLeft - kRight);
  }
  double y(double value) const {
    return height - kBottom - (value - y_ticks.front()) / (y_ticks.back() - y_ticks.front()) * (height - top - kBottom);
  }
};

const char* color_of(const PlotSeries& series) { return kColors[series.color % kColors.size()]; }

std::string straight(double x1, double y1, double x2, double y2, const char* color, double width = 1, double opacity = 1) {
  return fmt::format(
      R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}" stroke-width="{}" stroke-opacity="{}"/>)"
      "\n",
      x1, y1, x2, y2, color, width, opacity);
}

std::string label(double x, double y, std::string_view anchor, std::string_view content, std::string_view more = {}) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\"{}>{}</text>\n", x, y, anchor, kInk, more,
                     escape_markup(content));
}

// 1e-04, from its logarithm.
std::string power_text(double exponent) { return fmt::format("{:.0e}", std::pow(10.0, exponent)); }

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
  const double left = axes.left + kLeft, right = axes.left + kPanelWidth - kRight, bottom = axes.height - kBottom;
  std::string out;
  for (const double tick : axes.y_ticks) {
    const double y = axes.y(tick);
    out += straight(left, y, right, y, kInk, 1, 0.25) + label(left - 8, y + 4, "end", tick_text(tick));
  }
  for (const double tick : axes.x_ticks) {
    const double x = axes.x(tick);
    out += straight(x, bottom, x, bottom + 5, kInk) +
           label(x, bottom + 20, "middle", axes.log_x ? power_text(tick) : tick_text(tick));
  }
  out += straight(left, bottom, right, bottom, kInk);
  return out + label((left + right) / 2, axes.height - 10, "middle", x_label);
}

// What the legend says of a series, cut where it is too long for a line.
std::string legend_text(const PlotSeries& series) {
  int columns = 0;
  std::string name;
  for (const char c : series.name) {
    if ((c & 0xc0) != 0x80 && ++columns > kNameColumns) break;
    name += c;
  }
  if (name.size() < series.name.size()) name += "…";
  return series.note.empty() ? name : name + ": " + series.note;
}

struct LegendEntry {
  std::string text;
  double x = 0;  // from the left end of the curves
  int line = 0;
};

std::vector<LegendEntry> legend_of(const PlotPanel& panel) {
  std::vector<LegendEntry> entries;
  double x = 0;
  int line = 0;
  for (const PlotSeries& series : panel.series) {
    LegendEntry entry{legend_text(series)};
    const auto letters = std::ranges::count_if(entry.text, [](char c) { return (c & 0xc0) != 0x80; });
    const double width = 22 + kLetter * static_cast<double>(letters);
    if (x > 0 && x + width > kPanelWidth - kLeft - kRight) x = 0, ++line;
    entry.x = x, entry.line = line;
    x += width + 18;
    entries.push_back(std::move(entry));
  }
  return entries;
}

// Of the lines of names beyond the first.
double legend_height(const PlotPanel& panel) {
  const std::vector<LegendEntry> entries = legend_of(panel);
  return entries.empty() ? 0 : kLegendLine * entries.back().line;
}

std::string draw_heading(const PlotPanel& panel, double left) {
  std::string out = label(left + kLeft, 24, "start", panel.title, " font-size=\"15\" font-weight=\"600\"");
  const std::vector<LegendEntry> entries = legend_of(panel);
  for (size_t i = 0; i < entries.size(); ++i) {
    const double x = left + kLeft + entries[i].x, y = kLegendTop + kLegendLine * entries[i].line;
    out += straight(x, y, x + 16, y, color_of(panel.series[i]), 3) + label(x + 22, y + 4, "start", entries[i].text);
  }
  return out;
}

bool has_points(const PlotPanel& panel) {
  return std::ranges::any_of(panel.series, [](const PlotSeries& series) { return std::ranges::any_of(series.points, finite); });
}

// As it is drawn: with logarithms in place of x where the axis is logarithmic.
PlotPanel on_axis(PlotPanel panel) {
  if (!panel.log_x) return panel;
  for (PlotSeries& series : panel.series) {
    for (PlotPoint& p : series.points) p.x = p.x > 0 ? std::log10(p.x) : std::numeric_limits<double>::quiet_NaN();
  }
  return panel;
}

// Of the points that can be drawn.
Range range_of(const PlotPanel& panel, double PlotPoint::*coordinate) {
  Range out;
  for (const PlotSeries& series : panel.series) {
    for (const PlotPoint& p : series.points) {
      if (finite(p)) out.add(p.*coordinate);
    }
  }
  return out;
}

// `more`: height that the legends of the panels need.
std::string draw_panel(const PlotPanel& panel, double left, double more, std::string_view x_label) {
  Range x = range_of(panel, &PlotPoint::x), y = range_of(panel, &PlotPoint::y);
  if (panel.x_range && !panel.log_x) x.add(panel.x_range->first), x.add(panel.x_range->second);
  // A scale from zero where that costs little room tells more than one that magnifies noise.
  if (y.low > 0 && y.low < 0.4 * y.high) y.low = 0;
  if (!panel.log_x && x.low > 0 && x.low < 0.4 * x.high) x.low = 0;
  Axes axes{panel.log_x, x, axis_ticks(x.low, x.high, 6), axis_ticks(y.low, y.high, 6), left, kTop + more, kHeight + more};
  if (panel.log_x) std::erase_if(axes.x_ticks, [](double tick) { return tick != std::round(tick); });
  if (x.high > x.low) {
    std::erase_if(axes.x_ticks, [&](double tick) { return tick < x.low || tick > x.high * (1 + 1e-9); });
  } else if (panel.log_x) {
    axes.x_range = {x.low - 1, x.high + 1};
  } else {
    axes.x_range = {axes.x_ticks.front(), axes.x_ticks.back()};
  }
  std::string out = draw_heading(panel, left) + draw_axes(axes, x_label);
  for (const PlotSeries& series : panel.series) out += draw_series(axes, series, color_of(series));
  return out;
}

bool is_best(double value, double than, bool share) { return share ? value > than : value < than; }

// `share`: the more the better.
void note_best(PlotSeries& series, bool share) {
  const PlotPoint* best = nullptr;
  for (const PlotPoint& p : series.points) {
    if (finite(p) && (!best || is_best(p.y, best->y, share))) best = &p;
  }
  if (!best) return;
  series.note =
      fmt::format("best {} at step {:.0f}", share ? fmt::format("{:.2f}", best->y) : fmt::format("{:.4g}", best->y), best->x);
}

struct EvaluatorCurves {
  PlotSeries loss, accuracy;
};

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

void share_x_axis(std::vector<PlotPanel>& panels) {
  Range all;
  for (const PlotPanel& panel : panels) {
    const Range one = range_of(panel, &PlotPoint::x);
    if (one.low <= one.high) all.add(one.low), all.add(one.high);
  }
  if (!(all.low <= all.high)) return;  // nothing can be drawn
  for (PlotPanel& panel : panels) panel.x_range = {all.low, all.high};
}

std::string plot_svg(const std::vector<PlotPanel>& panels, std::string_view x_label) {
  std::vector<const PlotPanel*> drawn;
  double more = 0;
  for (const PlotPanel& panel : panels) {
    if (!has_points(panel)) continue;
    drawn.push_back(&panel);
    more = std::max(more, legend_height(panel));
  }
  std::string body;
  for (size_t i = 0; i < drawn.size(); ++i) {
    body += draw_panel(on_axis(*drawn[i]), kPanelWidth * static_cast<double>(i), more, x_label);
  }
  const double width = kPanelWidth * static_cast<double>(std::max<size_t>(drawn.size(), 1)), height = kHeight + more;
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" "
             "font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\" font-size=\"13\">\n",
             width, height, width, height) +
         body + "</svg>\n";
}

std::vector<PlotPanel> run_panels(const std::vector<MetricRow>& rows) {
  PlotPanel loss{"Loss", {{"training_loss", {}, false, 0}}}, accuracy{"Top-1 accuracy (%)", {}};
  std::vector<std::pair<std::string, EvaluatorCurves>> evaluators;  // in order of appearance
  const auto curves_of = [&](const std::string& name) -> EvaluatorCurves& {
    const auto found = std::ranges::find(evaluators, name, &std::pair<std::string, EvaluatorCurves>::first);
    if (found != evaluators.end()) return found->second;
    const size_t color = evaluators.size() + 1;  // 0 is the training's
    return evaluators.emplace_back(name, EvaluatorCurves{{name, {}, true, color}, {name, {}, true, color}}).second;
  };
  for (const MetricRow& row : rows) {
    const double x = static_cast<double>(row.step);
    for (const auto& [name, value] : row.values) {
      if (name == "training_loss") loss.series[0].points.push_back({x, value});
      const auto slash = name.rfind('/');
      if (slash == std::string::npos) continue;
      const std::string what = name.substr(slash + 1);
      if (what == "loss") curves_of(name.substr(0, slash)).loss.points.push_back({x, value});
      if (what == "prec@1") curves_of(name.substr(0, slash)).accuracy.points.push_back({x, 100 * value});
    }
  }
  for (auto& [name, curves] : evaluators) {
    curves.accuracy.points.empty() ? note_best(curves.loss, false) : note_best(curves.accuracy, true);
    if (!curves.loss.points.empty()) loss.series.push_back(std::move(curves.loss));
    if (!curves.accuracy.points.empty()) accuracy.series.push_back(std::move(curves.accuracy));
  }
  std::vector<PlotPanel> panels{std::move(loss), std::move(accuracy)};
  share_x_axis(panels);
  return panels;
}

std::optional<std::string> write_plot(const std::string& workdir, store::FileSystem& files) {
  const std::vector<PlotPanel> panels = run_panels(read_metrics(store::join_path(workdir, "metrics.jsonl"), files));
  if (std::ranges::none_of(panels, has_points)) return std::nullopt;
  const std::string path = store::join_path(workdir, "plot.svg");
  store::write_atomic(files, path, plot_svg(panels, "step"));
  return path;
}

}  // namespace tessera::monitor
