#include "pages/report/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/order/order.h"
#include "image/codec/decode.h"
#include "image/codec/encode_jpeg.h"
#include "image/codec/png.h"
#include "image/draw.h"
#include "image/drawable_text.h"
#include "pages/report/html.h"
#include "recipe/data_options.h"
#include "train/evaluate/sample_view.h"
#include "train/workdir/first_batch.h"

namespace tessera::report {
namespace {

constexpr int kSmall = 64;     // images up to this side are PNG files, larger ones JPEG files
constexpr int kLargest = 192;  // of a side; what is larger is made smaller
constexpr int kQuality = 85;

std::string uri_of(const image::Image& pixels) {
  const bool small = std::max(pixels.width(), pixels.height()) <= kSmall;
  const std::vector<uint8_t> bytes = small ? image::encode_png(pixels.view()) : image::encode_jpeg(pixels.view(), kQuality);
  return data_uri(small ? "image/png" : "image/jpeg", {bytes.data(), bytes.size()});
}

Picture picture_of(train::SampleView view) {
  Picture out{std::move(view.id), std::move(view.caption), {}, std::move(view.problem), std::move(view.pixels)};
  if (out.problem.empty()) out.uri = uri_of(out.pixels);
  return out;
}

// The recipe of the run, without the cache of the section `data`: a report fills none.
config::Section recipe_of(const SavedRun& run, const std::string& key) {
  return config::parse_recipe(run.recipe, store::join_path(run.path, "recipe.toml"), {key + ".cache=none"});
}

// `make` with its problems, should the data be gone, in words.
template <class Make>
Pictures pictures_or_problem(const SavedRun& run, const Make& make) {
  Pictures out;
  if (run.recipe.empty()) {
    out.problem = "the run has no recipe.toml";
    return out;
  }
  try {
    make(out);
  } catch (const Error& error) {
    out.pictures.clear();
    out.problem = error.message();
  }
  return out;
}

// Without `uri` where there is none that can be read.
Picture mixed_batch(const SavedRun& run) {
  store::FileSystem& files = store::local_files();
  const std::string path = store::join_path(run.path, train::kFirstBatch);
  Picture out;
  try {
    if (!files.info(path)) return out;
    const std::string bytes = store::read_text(files, path);
    const ByteSpan file{reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
    if (!image::Decoder().decode(file, out.pixels)) out.uri = uri_of(out.pixels);
  } catch (const Error&) {
    // It is one picture less.
  }
  return out;
}

}  // namespace

Pictures training_pictures(const SavedRun& run, int64_t count) {
  Pictures pictures = pictures_or_problem(run, [&](Pictures& out) {
    config::Section recipe = recipe_of(run, "data");
    recipe::RunOptions options;
    recipe.bind_part(options);
    recipe::TrainDataOptions training;
    train::SampleViewer viewer(recipe::open_training_data(recipe.section("data"), training), kLargest);
    const std::vector<data::DataSet>& sets = viewer.data().sets;
    const auto seed = static_cast<uint64_t>(options.seed);
    out.chain = sets.front().pp->text();
    for (int64_t i = 0; i < std::min(count, viewer.data().size()); ++i) {
      const size_t set = static_cast<size_t>(i) % sets.size();
      const auto place = static_cast<uint64_t>(i) / sets.size();
      const data::Position at = data::FullShuffle(sets[set].source->size(), seed).at({0, place});
      out.pictures.push_back(picture_of(viewer.view(set, at.sample, {seed, at.epoch, static_cast<uint64_t>(at.sample)})));
    }
  });
  pictures.mixed = mixed_batch(run);
  return pictures;
}

Pictures worst_pictures(const SavedRun& run, const train::EvaluationSummary& evaluation) {
  return pictures_or_problem(run, [&](Pictures& out) {
    const std::string& name = evaluation.evaluator;
    config::Section data_section =
        recipe_of(run, fmt::format("eval.{}.data", name)).section("eval").section(name).section("data");
    train::SampleViewer viewer(recipe::open_data(data_section, data::PpUse::kEval), kLargest);
    out.chain = viewer.data().pp().text();
    for (const train::WorstExample& worst : evaluation.worst) {
      out.pictures.push_back(picture_of(viewer.view(0, worst.sample, {0, 0, static_cast<uint64_t>(worst.sample)})));
      Picture& picture = out.pictures.back();
      if (picture.problem.empty() && picture.id != worst.id) {
        picture = {};
        picture.problem = "the data changed since the evaluation";
      }
      picture.id = worst.id;
    }
  });
}

image::Image sheet_of(const Pictures& pictures, const std::vector<std::string>& lines) {
  constexpr int kColumns = 8, kGap = 4, kCell = 96;
  int width = kCell, height = kCell;
  for (const Picture& picture : pictures.pictures) {
    width = std::max(width, picture.pixels.width()), height = std::max(height, picture.pixels.height());
  }
  const int count = static_cast<int>(pictures.pictures.size()), columns = std::clamp(count, 1, kColumns);
  const int cell_height = height + image::kGlyphHeight + 2 * kGap, cell_width = width + kGap;
  image::Image sheet(columns * cell_width + kGap, (count + columns - 1) / columns * cell_height + kGap);
  image::fill(sheet, {0, 0, sheet.width(), sheet.height()}, 255);
  for (int i = 0; i < count; ++i) {
    const image::Image& pixels = pictures.pictures[static_cast<size_t>(i)].pixels;
    const int left = kGap + i % columns * cell_width, top = kGap + i / columns * cell_height;
    if (pixels.width() == 0) {
      image::draw_cross(sheet, {left, top, width, height});
    } else {
      image::enlarge(pixels, std::max(1, std::min(width / pixels.width(), height / pixels.height())), sheet, left, top);
    }
    const std::string line = image::drawable_text(lines[static_cast<size_t>(i)]);
    image::draw_text(sheet, left, top + height + 2, line.substr(0, static_cast<size_t>(width / image::kGlyphWidth)), 0);
  }
  return sheet;
}

}  // namespace tessera::report
