// One run.
#include "pages/report/page.h"
#include "pages/report/page_parts.h"
#include "pages/report/sections.h"

namespace tessera::report {

std::string run_page(const SavedRun& run, const RunPictures& pictures) {
  Html html;
  html.add("<h1>{}</h1>\n", run.name);
  html.add(remarks(verdict(run)));
  html.add(all_curves(curves_of(run)));
  for (size_t i = 0; i < run.evaluations.size(); ++i) html.add(evaluation_section(run.evaluations[i], pictures.worst[i]));
  html.add(training_images(pictures.training));
  const TimeShares time = time_shares(run);
  html.add(time_section(time));
  html.add(resources(run, time));
  html.add(origin(run));
  return page(run.name, html.take()).text;
}

}  // namespace tessera::report
