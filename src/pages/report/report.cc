#include "pages/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/log.h"
#include "image/codec/png.h"
#include "image/draw.h"
#include "pages/report/classes.h"
#include "pages/report/curves.h"
#include "pages/report/images.h"
#include "pages/report/page.h"
#include "pages/report/rasterise.h"
#include "pages/report/run.h"
#include "store/file.h"

namespace tessera::report {
namespace {

constexpr int64_t kTrainingPictures = 32;
constexpr double kCurveScale = 2;

// Of an evaluator, for the name of a file: names come from files too.
std::string file_name(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    out += plain ? c : '_';
  }
  return out;
}

class Files {
 public:
  Files(std::string directory, store::FileSystem& files) : directory_(std::move(directory)), files_(files) {}
  std::string path(const std::string& name) const { return store::join_path(directory_, name); }
  void write(const std::string& name, std::string_view text) const { store::write_atomic(files_, path(name), text); }
  void write(const std::string& name, const image::Image& picture) const {
    const std::vector<uint8_t> bytes = image::encode_png(picture.view());
    store::write_atomic(files_, path(name), std::as_bytes(std::span(bytes)));
  }

 private:
  std::string directory_;
  store::FileSystem& files_;
};

void write_tables(const train::EvaluationSummary& evaluation, const Files& files) {
  const std::string name = file_name(evaluation.name);
  if (!evaluation.confusion.empty()) {
    files.write(name + "_classes.csv", classes_csv(evaluation));
    files.write(name + "_confusion.csv", confusion_csv(evaluation));
  }
  if (!evaluation.worst.empty()) files.write(name + "_worst.csv", worst_csv(evaluation));
}

void write_sheets(const SavedRun& run, const RunPictures& pictures, const Files& files) {
  if (!pictures.training.pictures.empty()) {
    std::vector<std::string> lines;
    for (const Picture& picture : pictures.training.pictures) lines.push_back(picture.caption);
    files.write("train.png", sheet_of(pictures.training, lines));
  }
  for (size_t i = 0; i < run.evaluations.size(); ++i) {
    const train::EvaluationSummary& evaluation = run.evaluations[i];
    if (pictures.worst[i].pictures.empty()) continue;
    std::vector<std::string> lines;
    for (const train::WorstExample& worst : evaluation.worst) {
      const bool classes = worst.label >= 0 && worst.predicted >= 0;
      lines.push_back(classes ? class_name(evaluation, worst.label) + " as " + class_name(evaluation, worst.predicted)
                              : worst.id);
    }
    files.write(file_name(evaluation.name) + "_worst.png", sheet_of(pictures.worst[i], lines));
  }
}

// Two in a row.
image::Image tiled(const std::vector<image::Image>& pictures) {
  int width = 0, height = 0;
  for (const image::Image& one : pictures) width = std::max(width, one.width()), height = std::max(height, one.height());
  const int count = static_cast<int>(pictures.size()), columns = std::min(count, 2);
  image::Image out(columns * width, (count + 1) / 2 * height);
  image::fill(out, {0, 0, out.width(), out.height()}, 255);
  for (int i = 0; i < count; ++i) {
    const image::Image& one = pictures[static_cast<size_t>(i)];
    image::enlarge(one, 1, out, i % 2 * width, i / 2 * height);
  }
  return out;
}

// Without librsvg there are none, and a warning.
void write_curves(const Curves& curves, const Files& files) {
  if (curves.panels.empty()) return;
  std::vector<image::Image> pictures;
  try {
    for (const monitor::PlotPanel& panel : curves.panels) {
      pictures.push_back(rasterise_svg(monitor::plot_svg({panel}, curves.x_label), kCurveScale));
    }
  } catch (const Error& error) {
    log_warning(fmt::format("{}; {}", error.message(), error.help()));
    return;
  }
  files.write("curves.png", tiled(pictures));
}

std::string write_run(const SavedRun& run, const Files& files, bool png) {
  RunPictures pictures{training_pictures(run, kTrainingPictures), {}};
  for (const train::EvaluationSummary& evaluation : run.evaluations) pictures.worst.push_back(worst_pictures(run, evaluation));
  for (const train::EvaluationSummary& evaluation : run.evaluations) write_tables(evaluation, files);
  if (png) write_sheets(run, pictures, files), write_curves(curves_of(run), files);
  files.write("index.html", run_page(run, pictures));
  return files.path("index.html");
}

// Makes it. One that the user names may be a link; one that lies in a run may be anybody's.
std::string report_directory(const std::vector<SavedRun>& runs, const ReportOptions& options, store::FileSystem& files) {
  constexpr const char* kOwn = "report";
  const bool in_run = options.directory.empty() && runs.size() == 1;
  std::string directory = in_run ? store::join_path(runs[0].path, kOwn) : options.directory.empty() ? kOwn : options.directory;
  in_run ? store::make_directories_below(files, runs[0].path, kOwn) : files.make_directories(directory);
  return directory;
}

}  // namespace

std::string write_report(const std::vector<std::string>& paths, const ReportOptions& options, store::FileSystem& files) {
  const std::vector<SavedRun> runs = read_runs(paths, files);
  for (const SavedRun& run : runs) {
    for (const std::string& problem : run.problems) log_warning(fmt::format("left out of the report: {}", problem));
  }
  const Files out(report_directory(runs, options, files), files);
  if (runs.size() == 1) return write_run(runs[0], out, options.png);
  if (options.png) write_curves(curves_of(runs), out);
  out.write("index.html", compare_page(runs));
  return out.path("index.html");
}

}  // namespace tessera::report
