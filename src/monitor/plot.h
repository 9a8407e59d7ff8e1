#pragma once
// Curves of a run as one SVG file that any browser shows, without a server and without scripts. Colours are legible on light
// and dark backgrounds alike (the picture itself has none).

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "monitor/metrics.h"
#include "store/file.h"

namespace tessera::monitor {

struct PlotPoint {
  double x = 0, y = 0;
};

struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points;  // by ascending x; those that are not finite leave a gap
  bool marked = false;            // few points, each with a dot; otherwise many, with their moving average on top
  size_t color = 0;               // of a palette of eight: the same thing has the same colour in every panel
  std::string note = {};          // behind the name: "best 99.2 at step 640"
};

struct PlotPanel {
  std::string title;
  std::vector<PlotSeries> series;
  bool log_x = false;  // the x axis is logarithmic, with ticks at powers of ten; points at x <= 0 leave a gap
  std::optional<std::pair<double, double>> x_range = {};  // what the x axis covers, and more where there are points beyond it
};

// Gives all panels the x axis that covers the points of each: an evaluator's only score stands where the run had it.
void share_x_axis(std::vector<PlotPanel>& panels);

// Panels side by side over the same kind of x axis. Panels without a finite point are left out.
std::string plot_svg(const std::vector<PlotPanel>& panels, std::string_view x_label);

// Round numbers (1, 2 or 5 times a power of ten apart) that cover [low, high], about `count` of them.
std::vector<double> axis_ticks(double low, double high, int count);

// `training_loss` and every `*/loss` in one panel, every `*/prec@1` in per cent in the other. Each evaluator has a curve of its
// own in either, and one note of its best: of prec@1 or, where it has none, of its loss.
std::vector<PlotPanel> run_panels(const std::vector<MetricRow>& rows);

// Draws <workdir>/plot.svg, the run_panels() of <workdir>/metrics.jsonl. Returns its path; nothing when there is nothing to
// draw. Throws store::IoError.
std::optional<std::string> write_plot(const std::string& workdir, store::FileSystem& files = store::local_files());

}  // namespace tessera::monitor
