// Several runs side by side.
#include <algorithm>

#include "base/text/text.h"
#include "pages/report/page.h"
#include "pages/report/page_parts.h"
#include "pages/report/sections.h"

namespace tessera::report {
namespace {

// A row of figures for each run.
Markup score_table(const std::vector<SavedRun>& runs) {
  std::vector<std::string> evaluators;
  for (const SavedRun& run : runs) {
    for (const std::string& name : evaluator_names(run)) {
      if (std::ranges::find(evaluators, name) == evaluators.end()) evaluators.push_back(name);
    }
  }
  Html html;
  html.add(
      "<h2>Figures</h2>\n<div class=\"wide\"><table><caption>Of each evaluator its best score, the step it was reached at, and "
      "the last</caption><thead><tr><th scope=\"col\">run</th><th scope=\"col\">steps</th>");
  for (const std::string& name : evaluators)
    html.add("<th scope=\"col\">{0}</th><th scope=\"col\">at</th><th scope=\"col\">last</th>", name);
  html.add(
      "<th scope=\"col\">training loss</th><th scope=\"col\">images/s</th><th scope=\"col\">time</th>"
      "<th scope=\"col\">parameters</th></tr></thead><tbody>\n");
  for (const SavedRun& run : runs) {
    html.add("<tr><th scope=\"row\">{}</th><td>{}</td>", run.name, human_count(run.rows.empty() ? 0 : run.rows.back().step));
    for (const std::string& name : evaluators) {
      const auto best = best_score(run, name);
      if (!best) {
        html.add("<td>–</td><td>–</td><td>–</td>");
        continue;
      }
      html.add("<td>{} {}</td><td>{}</td><td>{}</td>", best->score.score, best->score.text(best->best),
               human_count(best->best_step), best->score.text(best->last));
    }
    const auto losses = series(run, "training_loss");
    const TimeShares time = time_shares(run);
    html.add("<td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
             losses.empty() ? "–" : fmt::format("{:.4g}", losses.back().second),
             time.images_per_second > 0 ? fmt::format("{:.4g}", time.images_per_second) : "–",
             time.total > 0 ? human_duration(time.total) : "–", run.facts ? human_count(run.facts->parameters) : "–");
  }
  html.add("</tbody></table></div>\n");
  return html.take();
}

}  // namespace

std::string compare_page(const std::vector<SavedRun>& runs) {
  std::vector<std::string> names;
  for (const SavedRun& run : runs) names.push_back(run.name);
  Html html;
  html.add("<h1>{}</h1>\n", join(names, ", "));
  html.add(score_table(runs));
  html.add(all_curves(curves_of(runs)));
  html.add(recipe_differences(runs));
  for (const SavedRun& run : runs) {
    html.add("<h2>{}</h2>\n", run.name);
    html.add(remarks(verdict(run)));
    html.add("<p class=\"soft\"><code>{}</code></p>\n", run.facts ? run.facts->command : run.path);
  }
  return page(join(names, ", "), html.take()).text;
}

}  // namespace tessera::report
