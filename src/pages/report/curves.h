#pragma once
// Curves for a report: of one run, or of several laid over each other.

#include <vector>

#include "monitor/plot.h"
#include "pages/report/html.h"
#include "pages/report/run.h"

namespace tessera::report {

struct Curves {
  std::vector<monitor::PlotPanel> panels;  // each with something to draw
  const char* x_label = "step";
};

// Loss, accuracy, other scores, rate, norm of the gradients, speed.
Curves curves_of(const SavedRun& run);
// Training loss, then loss and main score of each evaluator: a curve for each run, over epochs where all of them know those.
Curves curves_of(const std::vector<SavedRun>& runs);

// One figure, which says in words what it shows for those who don't see it.
Markup figure(const monitor::PlotPanel& panel, const char* x_label);

}  // namespace tessera::report
