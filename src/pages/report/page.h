#pragma once
// The HTML of a report: one file that shows everything by itself. No scripts, nothing fetched; light or dark as the reader's
// system is.

#include <string>
#include <vector>

#include "pages/report/images.h"
#include "pages/report/run.h"

namespace tessera::report {

// The pictures on the page of one run.
struct RunPictures {
  Pictures training;
  std::vector<Pictures> worst;  // of each of run.evaluations
};

std::string run_page(const SavedRun& run, const RunPictures& pictures);
// Side by side: scores, curves laid over each other, keys of the recipes that differ, a verdict on each.
std::string compare_page(const std::vector<SavedRun>& runs);

}  // namespace tessera::report
