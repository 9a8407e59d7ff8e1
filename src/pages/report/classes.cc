#include "pages/report/classes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/text/text.h"

namespace tessera::report {
namespace {

double share(int64_t part, int64_t whole) {
  return whole == 0 ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(part) / static_cast<double>(whole);
}

std::string per_cent(double share) { return std::isfinite(share) ? fmt::format("{:.1f}", 100 * share) : "–"; }

std::string csv_number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

// Right answers are green, wrong ones red, as far as the class's images went there; a single one is seen too.
Markup cell(int64_t count, int64_t of, bool right) {
  if (count == 0) return {"<td></td>"};
  const double depth = 0.12 + 0.68 * static_cast<double>(count) / static_cast<double>(of);
  Html html;
  html.add("<td style=\"background:rgba({},{:.2f})\">{}</td>", right ? "45,164,78" : "217,72,95", depth, human_count(count));
  return html.take();
}

// A class beside the matrix or above it: a long name is cut off, so that it does not stretch a row over screens.
Markup matrix_name(std::string_view scope, const std::string& name) {
  Html html;
  html.add("<th scope=\"{}\"><span class=\"name\" title=\"{}\">{}</span></th>", scope, name, name);
  return html.take();
}

// Places of the classes that have images or were given.
std::vector<size_t> classes_met(const std::vector<ClassFigures>& figures) {
  std::vector<size_t> met;
  for (const ClassFigures& one : figures) {
    if (one.images > 0 || one.given > 0) met.push_back(one.place);
  }
  return met;
}

}  // namespace

double ClassFigures::recall() const { return share(right, images); }
double ClassFigures::precision() const { return share(right, given); }
double ClassFigures::f1() const { return share(2 * right, images + given); }

std::vector<ClassFigures> class_figures(const train::EvaluationSummary& evaluation) {
  std::vector<ClassFigures> out(evaluation.classes.size());
  for (size_t c = 0; c < out.size(); ++c) out[c].place = c;
  for (const metrics::ConfusionCell& cell : evaluation.confusion) {
    out[static_cast<size_t>(cell.label)].images += cell.count;
    if (static_cast<size_t>(cell.predicted) < out.size()) out[static_cast<size_t>(cell.predicted)].given += cell.count;
    if (cell.label == cell.predicted) out[static_cast<size_t>(cell.label)].right += cell.count;
  }
  return out;
}

std::vector<metrics::ConfusionCell> most_confused(const train::EvaluationSummary& evaluation) {
  std::vector<metrics::ConfusionCell> pairs = evaluation.confusion;
  std::erase_if(pairs, [](const metrics::ConfusionCell& cell) { return cell.label == cell.predicted; });
  std::ranges::stable_sort(pairs, std::greater{}, &metrics::ConfusionCell::count);
  return pairs;
}

std::string class_name(const train::EvaluationSummary& evaluation, int64_t place) {
  const auto at = static_cast<size_t>(place);
  return place >= 0 && at < evaluation.classes.size() ? evaluation.classes[at] : "no answer";
}

Markup class_table(const train::EvaluationSummary& evaluation) {
  std::vector<ClassFigures> figures = class_figures(evaluation);
  std::erase_if(figures, [](const ClassFigures& one) { return one.images == 0 && one.given == 0; });
  const size_t all = figures.size();
  std::string caption = "Per cent, of each class";
  if (all > kWholeMatrix) {
    std::ranges::stable_sort(figures, {}, [](const ClassFigures& one) { return one.images == 0 ? 2.0 : one.recall(); });
    figures.resize(kWholeMatrix);
    caption = fmt::format("Per cent, of the {} classes with the lowest recall, of {}", kWholeMatrix,
                          human_count(static_cast<int64_t>(all)));
  }
  Html html;
  html.add(
      "<div class=\"wide\"><table><caption>{}</caption><thead><tr><th scope=\"col\">class</th><th scope=\"col\">images</th>"
      "<th scope=\"col\">recall</th><th scope=\"col\">precision</th><th scope=\"col\">F1</th></tr></thead><tbody>\n",
      caption);
  for (const ClassFigures& one : figures) {
    html.add("<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
             class_name(evaluation, static_cast<int64_t>(one.place)), human_count(one.images), per_cent(one.recall()),
             per_cent(one.precision()), per_cent(one.f1()));
  }
  html.add("</tbody></table></div>\n");
  return html.take();
}

Markup confusion_table(const train::EvaluationSummary& evaluation) {
  const std::vector<ClassFigures> figures = class_figures(evaluation);
  const std::vector<size_t> met = classes_met(figures);
  Html html;
  if (met.size() > kWholeMatrix || met.empty()) return html.take();
  std::map<std::pair<int64_t, int64_t>, int64_t> counts;
  bool unanswered = false;
  for (const metrics::ConfusionCell& one : evaluation.confusion) {
    counts[{one.label, one.predicted}] = one.count;
    unanswered |= static_cast<size_t>(one.predicted) == evaluation.classes.size();
  }
  std::vector<int64_t> columns(met.begin(), met.end());
  if (unanswered) columns.push_back(static_cast<int64_t>(evaluation.classes.size()));
  html.add(
      "<div class=\"wide\"><table class=\"matrix\"><caption>Images by label (rows) and prediction (columns)</caption>"
      "<thead><tr><td></td>");
  for (const int64_t column : columns) html.add(matrix_name("col", class_name(evaluation, column)));
  html.add("</tr></thead><tbody>\n");
  for (const size_t row : met) {
    if (figures[row].images == 0) continue;
    html.add("<tr>{}", matrix_name("row", class_name(evaluation, static_cast<int64_t>(row))));
    for (const int64_t column : columns) {
      const auto found = counts.find({static_cast<int64_t>(row), column});
      html.add(cell(found == counts.end() ? 0 : found->second, figures[row].images, static_cast<int64_t>(row) == column));
    }
    html.add("</tr>\n");
  }
  html.add("</tbody></table></div>\n");
  return html.take();
}

Markup confused_pairs(const train::EvaluationSummary& evaluation) {
  std::vector<metrics::ConfusionCell> pairs = most_confused(evaluation);
  Html html;
  if (pairs.empty()) {
    html.add("<p>No image was taken for another class.</p>\n");
    return html.take();
  }
  if (pairs.size() > kShownPairs) pairs.resize(kShownPairs);
  const std::vector<ClassFigures> figures = class_figures(evaluation);
  html.add(
      "<div class=\"wide\"><table class=\"pairs\"><caption>Most confused</caption><thead><tr><th scope=\"col\">label</th>"
      "<th scope=\"col\">taken for</th><th scope=\"col\">images</th><th scope=\"col\">% of the label</th></tr></thead>"
      "<tbody>\n");
  for (const metrics::ConfusionCell& pair : pairs) {
    html.add("<tr><th scope=\"row\">{}</th><th scope=\"row\">{}</th><td>{}</td><td>{}</td></tr>\n",
             class_name(evaluation, pair.label), class_name(evaluation, pair.predicted), human_count(pair.count),
             per_cent(share(pair.count, figures[static_cast<size_t>(pair.label)].images)));
  }
  html.add("</tbody></table></div>\n");
  return html.take();
}

std::string classes_csv(const train::EvaluationSummary& evaluation) {
  std::string out = "class,images,recall,precision,f1\n";
  for (const ClassFigures& one : class_figures(evaluation)) {
    out += fmt::format("{},{},{},{},{}\n", csv_text(class_name(evaluation, static_cast<int64_t>(one.place))), one.images,
                       csv_number(one.recall()), csv_number(one.precision()), csv_number(one.f1()));
  }
  return out;
}

std::string confusion_csv(const train::EvaluationSummary& evaluation) {
  std::string out = "label,predicted,count\n";
  for (const metrics::ConfusionCell& one : evaluation.confusion) {
    out += fmt::format("{},{},{}\n", csv_text(class_name(evaluation, one.label)),
                       csv_text(class_name(evaluation, one.predicted)), one.count);
  }
  return out;
}

std::string worst_csv(const train::EvaluationSummary& evaluation) {
  std::string out = fmt::format("path,label,predicted,{}\n", csv_text(evaluation.worst_by));
  const auto name = [&](int32_t place) { return place < 0 ? std::string() : csv_text(class_name(evaluation, place)); };
  for (const train::WorstExample& one : evaluation.worst) {
    out += fmt::format("{},{},{},{}\n", csv_text(one.id), name(one.label), name(one.predicted),
                       std::isfinite(one.loss) ? fmt::format("{}", one.loss) : "inf");
  }
  return out;
}

}  // namespace tessera::report
