#include "pages/report/curves.h"

#include <algorithm>
#include <cmath>

namespace tessera::report {
namespace {

using monitor::PlotPanel;
using monitor::PlotSeries;

bool drawable(const PlotSeries& series) {
  return std::ranges::any_of(series.points, [](const auto& p) { return std::isfinite(p.x) && std::isfinite(p.y); });
}

PlotSeries curve(const SavedRun& run, const std::string& metric, const std::string& name, double factor = 1) {
  PlotSeries out{name, {}};
  for (const auto& [step, value] : series(run, metric)) out.points.push_back({static_cast<double>(step), factor * value});
  return out;
}

void add(std::vector<PlotPanel>& panels, std::string title, std::vector<PlotSeries> all) {
  std::erase_if(all, [](const PlotSeries& series) { return !drawable(series); });
  if (!all.empty()) panels.push_back({std::move(title), std::move(all)});
}

// The colour that a curve of this name has in the panels already.
size_t color_of(const std::vector<PlotPanel>& panels, const std::string& name, size_t otherwise) {
  for (const PlotPanel& panel : panels) {
    const auto found = std::ranges::find(panel.series, name, &PlotSeries::name);
    if (found != panel.series.end()) return found->color;
  }
  return otherwise;
}

// Scores that run_panels() has no place for: main scores other than prec@1 and loss.
void add_other_scores(const SavedRun& run, std::vector<PlotPanel>& panels) {
  const std::vector<std::string> names = evaluator_names(run);
  for (size_t i = 0; i < names.size(); ++i) {
    const auto score = main_score(run, names[i]);
    if (!score || score->score == "prec@1" || score->score == "loss") continue;
    PlotSeries series = curve(run, score->metric(), names[i], score->share ? 100 : 1);
    series.marked = true, series.color = color_of(panels, names[i], i + 1);
    add(panels, score->metric() + (score->share ? " (%)" : ""), {series});
  }
}

// Whether every run says at each step which epoch it is in.
bool know_epochs(const std::vector<SavedRun>& runs) {
  return std::ranges::all_of(runs, [](const SavedRun& run) {
    return std::ranges::all_of(run.rows, [](const monitor::MetricRow& row) { return row.values.contains("epoch"); });
  });
}

// A curve of each run.
std::vector<PlotSeries> overlay(const std::vector<SavedRun>& runs, const std::string& metric, bool marked, bool epochs,
                                double factor) {
  std::vector<PlotSeries> out;
  for (size_t i = 0; i < runs.size(); ++i) {
    PlotSeries one{runs[i].name, {}, marked, i};
    for (const monitor::MetricRow& row : runs[i].rows) {
      const auto value = row.values.find(metric);
      if (value == row.values.end()) continue;
      const double x = epochs ? row.values.find("epoch")->second : static_cast<double>(row.step);
      one.points.push_back({x, factor * value->second});
    }
    out.push_back(std::move(one));
  }
  return out;
}

std::string in_words(const PlotPanel& panel) {
  std::string text = panel.title + ".";
  for (const PlotSeries& series : panel.series) {
    const auto first = std::ranges::find_if(series.points, [](const auto& p) { return std::isfinite(p.y); });
    const auto last =
        std::find_if(series.points.rbegin(), series.points.rend(), [](const auto& p) { return std::isfinite(p.y); });
    if (first == series.points.end()) continue;
    text += fmt::format(" {} goes from {:.4g} to {:.4g}{}.", series.name, first->y, last->y,
                        series.note.empty() ? "" : ", " + series.note);
  }
  return text;
}

}  // namespace

Curves curves_of(const SavedRun& run) {
  Curves out;
  for (PlotPanel& panel : monitor::run_panels(run.rows)) add(out.panels, panel.title, std::move(panel.series));
  add_other_scores(run, out.panels);
  PlotSeries rate = curve(run, "lr", "lr"), norm = curve(run, "l2_grads", "l2_grads"), speed = curve(run, "img/sec", "img/sec");
  rate.color = 3, norm.color = 4, speed.color = 5;
  add(out.panels, "Learning rate", {rate});
  add(out.panels, "Norm of the gradients", {norm});
  add(out.panels, "Images a second", {speed});
  monitor::share_x_axis(out.panels);
  return out;
}

Curves curves_of(const std::vector<SavedRun>& runs) {
  Curves out;
  const bool epochs = know_epochs(runs);
  if (epochs) out.x_label = "epoch";
  add(out.panels, "training_loss", overlay(runs, "training_loss", false, epochs, 1));
  std::vector<MainScore> scores;
  for (const SavedRun& run : runs) {
    for (const std::string& name : evaluator_names(run)) {
      const auto score = main_score(run, name);
      if (score && std::ranges::find(scores, score->metric(), &MainScore::metric) == scores.end()) scores.push_back(*score);
    }
  }
  for (const MainScore& score : scores) {
    add(out.panels, score.metric() + (score.share ? " (%)" : ""),
        overlay(runs, score.metric(), true, epochs, score.share ? 100 : 1));
    if (score.score == "loss") continue;
    const std::string loss = score.evaluator + "/loss";
    add(out.panels, loss, overlay(runs, loss, true, epochs, 1));
  }
  monitor::share_x_axis(out.panels);
  return out;
}

Markup figure(const PlotPanel& panel, const char* x_label) {
  Html html;
  html.add("<figure class=\"curve\"><div role=\"img\" aria-label=\"{}\">{}</div></figure>\n", in_words(panel),
           Markup{monitor::plot_svg({panel}, x_label)});
  return html.take();
}

}  // namespace tessera::report
