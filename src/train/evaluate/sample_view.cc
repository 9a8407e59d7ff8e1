#include "train/evaluate/sample_view.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "image/resize/resize.h"

namespace tessera::train {
namespace {

image::Image shrunk(image::Image pixels, int longest) {
  const int side = std::max(pixels.width(), pixels.height());
  if (side <= longest) return pixels;
  const auto scaled = [&](int length) { return std::max(1, length * longest / side); };
  image::Image small(scaled(pixels.width()), scaled(pixels.height()));
  image::Resizer().resize(pixels.view(), image::Filter::kBilinear, false, small.width(), small.height(), small.row(0),
                          small.stride());
  return small;
}

}  // namespace

SampleViewer::SampleViewer(recipe::Data opened, int side) : data_(std::move(opened)), side_(side) {
  scratch_.set_limits(data_.limits, nullptr);
}

SampleView SampleViewer::view(size_t set, int64_t index, data::SampleKey key) {
  const data::Source& source = *data_.sets[set].source;
  SampleView out;
  if (index < 0 || index >= source.size()) {
    out.problem = fmt::format("the data have no sample {} any more", index);
    return out;
  }
  out.id = source.id(index);
  const std::optional<std::string> problem = fill(set, index, key, out.pixels);
  if (!source.class_names().empty()) {
    out.caption = fmt::format("{}", fmt::join(data::class_names_of(source, sample_), ", "));
  } else if (!sample_.texts.empty() && !sample_.texts[0].empty()) {
    out.caption = sample_.texts[0][0];
  }
  if (problem) {
    out.problem = *problem;
    out.pixels = image::Image();
  } else {
    out.pixels = shrunk(std::move(out.pixels), side_);
  }
  return out;
}

std::optional<std::string> SampleViewer::fill(size_t set, int64_t index, const data::SampleKey& key, image::Image& pixels) {
  const data::Source& source = *data_.sets[set].source;
  const data::Pp& pp = *data_.sets[set].pp;
  pixels.reset(pp.width(), pp.height());
  auto failed = source.read(index, sample_);
  if (source.fill_pixels(index, {pixels.row(0), pixels.byte_count()})) return std::nullopt;
  if (failed) return failed;
  const image::SampleError error = pp.run(sample_.image, key, scratch_, pixels.row(0));
  return error ? std::optional(error->reason) : std::nullopt;
}

}  // namespace tessera::train
