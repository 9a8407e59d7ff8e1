#include "train/evaluate/evaluation_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/printable.h"
#include "image/draw.h"
#include "image/drawable_text.h"
#include "image/resize/resize.h"
#include "train/evaluate/sample_view.h"

namespace tessera::train {
namespace {

constexpr int kWorstSide = 96, kSpriteSide = 48;
constexpr int64_t kMaxCells = 1000;  // of a side of the matrix
constexpr int kMatrixSide = 384;     // pixels, where cells may be large
constexpr int kMaxCell = 40, kNamedCell = 12, kCountedCell = 28;
constexpr size_t kNameLength = 14;

SampleView view_of(SampleViewer& viewer, int64_t sample) {
  return viewer.view(0, sample, {0, 0, static_cast<uint64_t>(sample)});
}

// In a table of markdown.
std::string cell_of(const std::string& text) {
  std::string out;
  for (const char c : one_line(text)) {
    if (c == '|' || c == '`') out += '\\';
    out += c;
  }
  return out;
}

std::string class_name(const EvaluationSummary& summary, int32_t place) {
  return place < 0 || static_cast<size_t>(place) >= summary.classes.size() ? "" : summary.classes[static_cast<size_t>(place)];
}

// Counts of a matrix, several classes a cell where there are too many.
struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<int64_t> counts;  // [rows, columns]

  int64_t at(int64_t row, int64_t column) const { return counts[static_cast<size_t>(row * columns + column)]; }
  int64_t of_row(int64_t row) const {
    int64_t sum = 0;
    for (int64_t column = 0; column < columns; ++column) sum += at(row, column);
    return sum;
  }
};

Matrix matrix_of(const EvaluationSummary& summary) {
  const auto classes = static_cast<int64_t>(summary.classes.size());
  const bool unanswered =
      std::ranges::any_of(summary.confusion, [&](const metrics::ConfusionCell& cell) { return cell.predicted == classes; });
  const int64_t predictions = classes + (unanswered ? 1 : 0);
  Matrix matrix{std::min(classes, kMaxCells), std::min(predictions, kMaxCells), {}};
  matrix.counts.resize(static_cast<size_t>(matrix.rows * matrix.columns));
  for (const metrics::ConfusionCell& cell : summary.confusion) {
    const int64_t row = cell.label * matrix.rows / classes, column = cell.predicted * matrix.columns / predictions;
    matrix.counts[static_cast<size_t>(row * matrix.columns + column)] += cell.count;
  }
  return matrix;
}

// Each pixel of `box`, red, green and blue.
void paint(image::Image& image, const image::Box& box, double share) {
  const auto shade = [share](int full) { return static_cast<uint8_t>(255 - share * (255 - full) + 0.5); };
  const uint8_t colour[] = {shade(20), shade(60), shade(140)};
  for (int y = box.y; y < box.y + box.height; ++y) {
    for (int x = box.x; x < box.x + box.width; ++x) std::copy_n(colour, 3, image.row(y) + ptrdiff_t{3} * x);
  }
}

image::Image picture_of(const Matrix& matrix, const std::vector<std::string>& names) {
  const auto side = static_cast<int>(std::max(matrix.rows, matrix.columns));
  const int cell = std::clamp(kMatrixSide / side, 1, kMaxCell);
  const int margin = cell >= kNamedCell ? static_cast<int>(kNameLength + 1) * image::kGlyphWidth : 0;
  image::Image picture(margin + cell * static_cast<int>(matrix.columns), cell * static_cast<int>(matrix.rows));
  image::fill(picture, {0, 0, picture.width(), picture.height()}, 255);
  for (int row = 0; row < static_cast<int>(matrix.rows); ++row) {
    const int text = row * cell + (cell - image::kGlyphHeight) / 2;
    if (margin > 0)
      image::draw_text(picture, 2, text, image::drawable_text(names[static_cast<size_t>(row)]).substr(0, kNameLength), 0);
    const int64_t all = matrix.of_row(row);
    for (int column = 0; column < static_cast<int>(matrix.columns); ++column) {
      const int64_t count = matrix.at(row, column);
      if (count == 0) continue;
      const double share = static_cast<double>(count) / static_cast<double>(all);
      const int left = margin + column * cell;
      paint(picture, {left, row * cell, cell, cell}, share);
      const std::string number = std::to_string(count);
      const int width = static_cast<int>(number.size()) * image::kGlyphWidth;
      if (cell < kCountedCell || width > cell) continue;
      image::draw_text(picture, left + (cell - width) / 2, text, number, share > 0.5 ? 255 : 0);
    }
  }
  return picture;
}

image::Image square(const image::Image& pixels, int side) {
  image::Image out(side, side);
  image::Resizer().resize(pixels.view(), image::Filter::kBilinear, false, side, side, out.row(0), out.stride());
  return out;
}

monitor::Images confusion_of(const EvaluationSummary& summary) {
  monitor::Images out{summary.name + "/confusion", {}};
  out.images.push_back(picture_of(matrix_of(summary), summary.classes));
  return out;
}

monitor::Images worst_of(const EvaluationView& view) {
  monitor::Images out{view.summary.name + "/worst", {}};
  SampleViewer viewer(view.data, kWorstSide);
  for (const WorstExample& worst : view.summary.worst) {
    if (static_cast<int64_t>(out.images.size()) == view.worst) break;
    SampleView sample = view_of(viewer, worst.sample);
    if (sample.problem.empty()) out.images.push_back(std::move(sample.pixels));
  }
  return out;
}

monitor::Text table_of(const EvaluationView& view) {
  const EvaluationSummary& summary = view.summary;
  monitor::Text out{summary.name + "/worst_table", "| | image | label | predicted | loss |\n|---|---|---|---|---|\n"};
  int64_t place = 0;
  for (const WorstExample& worst : summary.worst) {
    if (place == view.worst) break;
    out.markdown +=
        fmt::format("| {} | {} | {} | {} | {:.4g} |\n", ++place, cell_of(worst.id), cell_of(class_name(summary, worst.label)),
                    cell_of(class_name(summary, worst.predicted)), worst.loss);
  }
  return out;
}

monitor::Embedding embedding_of(const EvaluationView& view) {
  monitor::Embedding out;
  out.name = view.summary.name;
  out.width = view.features.width;
  out.values = view.features.values;
  SampleViewer viewer(view.data, std::max(view.data.pp().width(), view.data.pp().height()));
  for (const int64_t place : view.samples) {
    const SampleView sample = view_of(viewer, place);
    out.ids.push_back(sample.id);
    out.labels.push_back(sample.caption);
    image::Image& thumb = out.images.emplace_back(kSpriteSide, kSpriteSide);
    if (sample.problem.empty()) {
      thumb = square(sample.pixels, kSpriteSide);
    } else {
      image::fill(thumb, {0, 0, kSpriteSide, kSpriteSide}, 255);
      image::draw_cross(thumb, {0, 0, kSpriteSide, kSpriteSide});
    }
  }
  return out;
}

}  // namespace

void take_features(const Evaluation& evaluation, int64_t count, EvaluationView& view) {
  const int64_t rows = evaluation.features.rows(), taken = std::min(rows, count);
  std::vector<int64_t> places;
  for (int64_t i = 0; i < taken; ++i) {
    places.push_back(i * rows / taken);
    view.samples.push_back(evaluation.samples[static_cast<size_t>(places.back())]);
  }
  view.features = metrics::take_rows(evaluation.features, places);
}

std::vector<monitor::RecordContent> evaluation_pictures(const EvaluationView& view) {
  std::vector<monitor::RecordContent> out;
  if (!view.summary.confusion.empty()) out.emplace_back(confusion_of(view.summary));
  if (view.worst > 0 && !view.summary.worst.empty()) {
    out.emplace_back(worst_of(view));
    out.emplace_back(table_of(view));
  }
  if (!view.samples.empty()) out.emplace_back(embedding_of(view));
  return out;
}

}  // namespace tessera::train
