#include "data/tools/contact_sheet.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "data/order/order.h"
#include "image/codec/exif.h"
#include "image/draw.h"
#include "image/drawable_text.h"
#include "image/resize/resize.h"

namespace tessera::data {
namespace {

constexpr int kMinSide = 96;
constexpr int kGap = 4;
constexpr int kLineHeight = image::kGlyphHeight + 2;
constexpr size_t kMaxLines = 5;
constexpr uint8_t kBackground = 255, kInk = 0;

// `text` in lines of at most `width` characters, broken at spaces where there are any.
std::vector<std::string_view> wrap(std::string_view text, size_t width) {
  std::vector<std::string_view> lines;
  while (!text.empty() && lines.size() < kMaxLines) {
    size_t end = text.size() <= width ? text.size() : text.rfind(' ', width);
    if (end == std::string_view::npos || end == 0) end = std::min(width, text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + (end < text.size() && text[end] == ' ')));
  }
  return lines;
}

// What is written below a sample: its classes, or its first text.
std::string caption(const Source& source, const Sample& sample) {
  if (!source.class_names().empty()) return fmt::format("{}", fmt::join(class_names_of(source, sample), ", "));
  return sample.texts.empty() || sample.texts[0].empty() ? std::string() : std::string(sample.texts[0][0]);
}

class SheetPainter {
 public:
  SheetPainter(const Source& source, const Pp& pp, const ContactSheetOptions& options)
      : source_(source), pp_(pp), options_(options), order_(source.size(), options.seed), image_(pp.width(), pp.height()) {
    TESSERA_CHECK(options.count >= 1 && options.columns >= 1 && source.size() >= 1);
    scale_ = std::max(1, (kMinSide + pp.width() - 1) / pp.width());
    width_ = pp.width() * scale_;
    height_ = pp.height() * scale_;
    cell_width_ = width_ * (options.before ? 2 : 1) + kGap;
    lines_ = source.class_names().empty() && !source.text_fields().empty() ? kMaxLines : 1;
    columns_ = static_cast<int>(std::min<int64_t>(options.before ? (options.columns + 1) / 2 : options.columns, options.count));
  }

  image::Image paint() {
    const int rows = static_cast<int>((options_.count + columns_ - 1) / columns_);
    const int cell_height = height_ + 1 + kLineHeight * static_cast<int>(lines_) + kGap;
    sheet_ = image::Image(columns_ * cell_width_ + kGap, rows * cell_height + kGap);
    image::fill(sheet_, {0, 0, sheet_.width(), sheet_.height()}, kBackground);
    for (int64_t i = 0; i < options_.count; ++i) {
      paint_cell(i, kGap + static_cast<int>(i % columns_) * cell_width_, kGap + static_cast<int>(i / columns_) * cell_height);
    }
    return std::move(sheet_);
  }

 private:
  void paint_cell(int64_t i, int left, int top) {
    const auto position = static_cast<uint64_t>(options_.start + i);
    const Position at =
        options_.shuffled ? order_.at({0, position}) : Position{0, static_cast<int64_t>(position) % source_.size()};
    const SampleKey key{options_.seed, at.epoch, static_cast<uint64_t>(at.sample)};
    PpTrace trace;
    ShownSample shown{at.sample, key, &sample_, &trace, {}, source_.read(at.sample, sample_)};
    if (!shown.error) {
      if (const image::SampleError failed = pp_.run(sample_.image, key, scratch_, image_.row(0), &trace))
        shown.error = failed->reason;
    }
    const int after = left + cell_width_ - kGap - width_;
    if (shown.error) {
      image::draw_cross(sheet_, {after, top, width_, height_});
    } else {
      image::enlarge(image_, scale_, sheet_, after, top);
      shown.erased = erased(key);
      if (options_.before) paint_before(trace, left, top);
      if (options_.before) frame_erased(shown.erased, after, top);
    }
    const std::string text = image::drawable_text(caption(source_, sample_));  // which the lines are parts of
    std::vector<std::string_view> lines = wrap(text, static_cast<size_t>(cell_width_ - kGap) / image::kGlyphWidth);
    if (lines.size() > lines_) lines.resize(lines_);
    for (size_t line = 0; line < lines.size(); ++line) {
      image::draw_text(sheet_, left, top + height_ + 2 + static_cast<int>(line) * kLineHeight, lines[line], kInk);
    }
    if (options_.shown) options_.shown(shown);
  }

  std::vector<image::Box> erased(const SampleKey& key) const {
    std::vector<image::Box> boxes;
    if (!pp_.erasing()) return boxes;
    std::vector<float> values(static_cast<size_t>(pp_.erasing()->boxes * kEraseValues));
    pp_.draw_erasing(key, values.data());
    for (size_t i = 0; i < values.size(); i += kEraseValues) {
      const int top = static_cast<int>(values[i]), left = static_cast<int>(values[i + 1]);
      const image::Box box{left, top, static_cast<int>(values[i + 3]) - left, static_cast<int>(values[i + 2]) - top};
      if (box.width > 0 && box.height > 0) boxes.push_back(box);
    }
    return boxes;
  }

  void frame_erased(const std::vector<image::Box>& boxes, int left, int top) {
    for (const image::Box& box : boxes) {
      image::draw_frame(sheet_, {left + box.x * scale_, top + box.y * scale_, box.width * scale_, box.height * scale_},
                        {left, top, width_, height_});
    }
  }

  // The whole picture, as large as the space for the image allows, with a frame round what the image shows of it.
  void paint_before(const PpTrace& trace, int left, int top) {
    if (decoder_.decode(sample_.image, picture_)) return;
    if (trace.orientation != 1) {
      image::turn_upright(picture_, trace.orientation, turned_);
      std::swap(picture_, turned_);
    }
    const double ratio =
        std::min(static_cast<double>(width_ - kGap) / picture_.width(), static_cast<double>(height_) / picture_.height());
    const auto scaled = [ratio](double x) { return static_cast<int>(std::lround(x * ratio)); };
    const image::Box place{left, top, std::max(1, scaled(picture_.width())), std::max(1, scaled(picture_.height()))};
    resizer_.resize(picture_.view(), image::Filter::kBilinear, false, place.width, place.height,
                    sheet_.row(place.y) + ptrdiff_t{place.x} * image::Image::kChannels, sheet_.stride());
    const int x = scaled(trace.x), y = scaled(trace.y);
    image::draw_frame(sheet_, {left + x, top + y, scaled(trace.x + trace.width) - x, scaled(trace.y + trace.height) - y},
                      place);
  }

  const Source& source_;
  const Pp& pp_;
  const ContactSheetOptions& options_;
  FullShuffle order_;
  PpScratch scratch_;
  image::Decoder decoder_;
  image::Resizer resizer_;
  Sample sample_;
  image::Image sheet_, image_, picture_, turned_;
  int scale_ = 1, width_ = 0, height_ = 0, cell_width_ = 0, columns_ = 0;
  size_t lines_ = 1;  // of text below an image
};

}  // namespace

image::Image contact_sheet(const Source& source, const Pp& pp, const ContactSheetOptions& options) {
  return SheetPainter(source, pp, options).paint();
}

}  // namespace tessera::data
