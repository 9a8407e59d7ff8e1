#pragma once
// Sections of pages; empty where there is nothing to show.

#include <vector>

#include "pages/report/html.h"
#include "pages/report/images.h"
#include "pages/report/run.h"

namespace tessera::report {

// Figures of classes, confusion and the worst images. `worst` goes with evaluation.worst.
Markup evaluation_section(const train::EvaluationSummary& evaluation, const Pictures& worst);
Markup training_images(const Pictures& pictures);
Markup time_section(const TimeShares& time);
// Planned against measured.
Markup resources(const SavedRun& run, const TimeShares& time);
Markup origin(const SavedRun& run);
// The keys that are not the same in all of them.
Markup recipe_differences(const std::vector<SavedRun>& runs);

}  // namespace tessera::report
