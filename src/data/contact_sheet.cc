#include "data/contact_sheet.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>

#include "base/error.h"
#include "data/order.h"

namespace tessera::data {
namespace {

constexpr int kMinSide = 96;
constexpr int kGap = 4;
constexpr int kLineHeight = kGlyphHeight + 2;
constexpr size_t kMostLines = 5;
constexpr uint8_t kBackground = 255, kInk = 0, kMissing = 200;

struct Glyph {
  char character;
  std::array<uint8_t, 7> rows;  // from the top; bit 4 is the left column
};
constexpr Glyph kGlyphs[] = {
    {' ', {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00}}, {'!', {0x04, 0x04, 0x04, 0x04, 0x04, 0x00, 0x04}},
    {'#', {0x0a, 0x0a, 0x1f, 0x0a, 0x1f, 0x0a, 0x0a}}, {'%', {0x19, 0x19, 0x02, 0x04, 0x08, 0x13, 0x13}},
    {'&', {0x0c, 0x12, 0x14, 0x08, 0x15, 0x12, 0x0d}}, {'\'', {0x04, 0x04, 0x08, 0x00, 0x00, 0x00, 0x00}},
    {'(', {0x02, 0x04, 0x08, 0x08, 0x08, 0x04, 0x02}}, {')', {0x08, 0x04, 0x02, 0x02, 0x02, 0x04, 0x08}},
    {'*', {0x00, 0x15, 0x0e, 0x1f, 0x0e, 0x15, 0x00}}, {'+', {0x00, 0x04, 0x04, 0x1f, 0x04, 0x04, 0x00}},
    {',', {0x00, 0x00, 0x00, 0x00, 0x0c, 0x04, 0x08}}, {'-', {0x00, 0x00, 0x00, 0x1f, 0x00, 0x00, 0x00}},
    {'.', {0x00, 0x00, 0x00, 0x00, 0x00, 0x0c, 0x0c}}, {'/', {0x01, 0x01, 0x02, 0x04, 0x08, 0x10, 0x10}},
    {'0', {0x0e, 0x11, 0x13, 0x15, 0x19, 0x11, 0x0e}}, {'1', {0x04, 0x0c, 0x04, 0x04, 0x04, 0x04, 0x0e}},
    {'2', {0x0e, 0x11, 0x01, 0x06, 0x08, 0x10, 0x1f}}, {'3', {0x1f, 0x02, 0x04, 0x06, 0x01, 0x11, 0x0e}},
    {'4', {0x02, 0x06, 0x0a, 0x12, 0x1f, 0x02, 0x02}}, {'5', {0x1f, 0x10, 0x1e, 0x01, 0x01, 0x11, 0x0e}},
    {'6', {0x06, 0x08, 0x10, 0x1e, 0x11, 0x11, 0x0e}}, {'7', {0x1f, 0x01, 0x02, 0x04, 0x04, 0x08, 0x08}},
    {'8', {0x0e, 0x11, 0x11, 0x0e, 0x11, 0x11, 0x0e}}, {'9', {0x0e, 0x11, 0x11, 0x0f, 0x01, 0x02, 0x0c}},
    {':', {0x00, 0x0c, 0x0c, 0x00, 0x0c, 0x0c, 0x00}}, {'=', {0x00, 0x00, 0x1f, 0x00, 0x1f, 0x00, 0x00}},
    {'?', {0x0e, 0x11, 0x01, 0x06, 0x04, 0x00, 0x04}}, {'A', {0x0e, 0x11, 0x11, 0x1f, 0x11, 0x11, 0x11}},
    {'B', {0x1e, 0x11, 0x11, 0x1e, 0x11, 0x11, 0x1e}}, {'C', {0x0e, 0x11, 0x10, 0x10, 0x10, 0x11, 0x0e}},
    {'D', {0x1e, 0x11, 0x11, 0x11, 0x11, 0x11, 0x1e}}, {'E', {0x1f, 0x10, 0x10, 0x1e, 0x10, 0x10, 0x1f}},
    {'F', {0x1f, 0x10, 0x10, 0x1e, 0x10, 0x10, 0x10}}, {'G', {0x0e, 0x11, 0x10, 0x17, 0x11, 0x11, 0x0f}},
    {'H', {0x11, 0x11, 0x11, 0x1f, 0x11, 0x11, 0x11}}, {'I', {0x0e, 0x04, 0x04, 0x04, 0x04, 0x04, 0x0e}},
    {'J', {0x07, 0x02, 0x02, 0x02, 0x02, 0x12, 0x0c}}, {'K', {0x11, 0x12, 0x14, 0x18, 0x14, 0x12, 0x11}},
    {'L', {0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x1f}}, {'M', {0x11, 0x1b, 0x15, 0x15, 0x11, 0x11, 0x11}},
    {'N', {0x11, 0x19, 0x15, 0x15, 0x13, 0x11, 0x11}}, {'O', {0x0e, 0x11, 0x11, 0x11, 0x11, 0x11, 0x0e}},
    {'P', {0x1e, 0x11, 0x11, 0x1e, 0x10, 0x10, 0x10}}, {'Q', {0x0e, 0x11, 0x11, 0x11, 0x15, 0x12, 0x0d}},
    {'R', {0x1e, 0x11, 0x11, 0x1e, 0x14, 0x12, 0x11}}, {'S', {0x0f, 0x10, 0x10, 0x0e, 0x01, 0x01, 0x1e}},
    {'T', {0x1f, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04}}, {'U', {0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x0e}},
    {'V', {0x11, 0x11, 0x11, 0x11, 0x0a, 0x0a, 0x04}}, {'W', {0x11, 0x11, 0x11, 0x15, 0x15, 0x1b, 0x11}},
    {'X', {0x11, 0x0a, 0x04, 0x04, 0x04, 0x0a, 0x11}}, {'Y', {0x11, 0x11, 0x0a, 0x04, 0x04, 0x04, 0x04}},
    {'Z', {0x1f, 0x01, 0x02, 0x04, 0x08, 0x10, 0x1f}}, {'_', {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x1f}},
};
constexpr std::array<uint8_t, 7> kUnknownGlyph = {0x1f, 0x11, 0x11, 0x11, 0x11, 0x11, 0x1f};

const std::array<uint8_t, 7>& glyph(char c) {
  const char upper = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const Glyph& g : kGlyphs) {
    if (g.character == upper) return g.rows;
  }
  return kUnknownGlyph;
}

void fill(Image& image, const Box& box, uint8_t shade) {
  for (int y = box.y; y < box.y + box.height; ++y) {
    std::memset(image.row(y) + ptrdiff_t{box.x} * 3, shade, static_cast<size_t>(box.width) * 3);
  }
}

void draw_cross(Image& image, const Box& box) {
  fill(image, box, kMissing);
  const int side = std::min(box.width, box.height);
  for (int i = 0; i < side; ++i) {
    std::memset(image.row(box.y + i) + ptrdiff_t{box.x + i} * 3, kInk, 3);
    std::memset(image.row(box.y + i) + ptrdiff_t{box.x + side - 1 - i} * 3, kInk, 3);
  }
}

// Each pixel of `from` becomes a square of `scale` pixels.
void enlarge(const Image& from, int scale, Image& to, int left, int top) {
  for (int y = 0; y < from.height() * scale; ++y) {
    uint8_t* out = to.row(top + y) + ptrdiff_t{left} * 3;
    for (int x = 0; x < from.width() * scale; ++x)
      std::memcpy(out + ptrdiff_t{x} * 3, from.row(y / scale) + ptrdiff_t{x / scale} * 3, 3);
  }
}

// `text` in lines of at most `width` characters, broken at spaces where there are any.
std::vector<std::string_view> wrap(std::string_view text, size_t width) {
  std::vector<std::string_view> lines;
  while (!text.empty() && lines.size() < kMostLines) {
    size_t end = text.size() <= width ? text.size() : text.rfind(' ', width);
    if (end == std::string_view::npos || end == 0) end = std::min(width, text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + (end < text.size() && text[end] == ' ')));
  }
  return lines;
}

// What is written below a sample: its class, or its first text.
std::string_view caption(const Source& source, const Sample& sample) {
  if (!source.class_names().empty()) return source.class_names()[static_cast<size_t>(sample.label)];
  return sample.texts.empty() || sample.texts[0].empty() ? std::string_view() : sample.texts[0][0];
}

}  // namespace

void draw_text(Image& image, int x, int y, std::string_view text, uint8_t shade) {
  for (size_t i = 0; i < text.size(); ++i) {
    const std::array<uint8_t, 7>& rows = glyph(text[i]);
    for (int row = 0; row < kGlyphHeight; ++row) {
      for (int column = 0; column < kGlyphWidth - 1; ++column) {
        const int px = x + static_cast<int>(i) * kGlyphWidth + column, py = y + row;
        const bool set = (rows[static_cast<size_t>(row)] >> (4 - column)) & 1;
        if (set && px >= 0 && py >= 0 && px < image.width() && py < image.height()) {
          std::memset(image.row(py) + ptrdiff_t{px} * 3, shade, 3);
        }
      }
    }
  }
}

SheetPlace sheet_place(const Source& source, const ContactSheetOptions& options, int64_t i) {
  const auto position = static_cast<uint64_t>(options.start + i);
  const Position at = options.shuffled ? FullShuffle(source.size(), options.seed).at({0, position})
                                       : Position{0, static_cast<int64_t>(position) % source.size()};
  return {at.sample, {options.seed, at.epoch, static_cast<uint64_t>(at.sample)}};
}

Image contact_sheet(const Source& source, const Pp& pp, const ContactSheetOptions& options) {
  TESSERA_CHECK(options.count >= 1 && options.columns >= 1 && source.size() >= 1);
  const int scale = std::max(1, (kMinSide + pp.width() - 1) / pp.width());
  const int columns = static_cast<int>(std::min<int64_t>(options.columns, options.count));
  const int rows = static_cast<int>((options.count + columns - 1) / columns);
  const bool texts = source.class_names().empty() && !source.text_fields().empty();
  const int label_height = 1 + kLineHeight * (texts ? static_cast<int>(kMostLines) : 1);
  const int cell_width = pp.width() * scale + kGap, cell_height = pp.height() * scale + label_height + kGap;
  Image sheet(columns * cell_width + kGap, rows * cell_height + kGap);
  fill(sheet, {0, 0, sheet.width(), sheet.height()}, kBackground);
  PpScratch scratch;
  Sample sample;
  Image image(pp.width(), pp.height());
  for (int64_t i = 0; i < options.count; ++i) {
    const SheetPlace at = sheet_place(source, options, i);
    const int left = kGap + static_cast<int>(i % columns) * cell_width,
              top = kGap + static_cast<int>(i / columns) * cell_height;
    if (source.read(at.sample, sample) || pp.run(sample.image, at.key, scratch, image.row(0))) {
      draw_cross(sheet, {left, top, pp.width() * scale, pp.height() * scale});
    } else {
      enlarge(image, scale, sheet, left, top);
    }
    std::vector<std::string_view> lines = wrap(caption(source, sample), static_cast<size_t>(cell_width - kGap) / kGlyphWidth);
    if (!texts && lines.size() > 1) lines.resize(1);
    for (size_t line = 0; line < lines.size(); ++line)
      draw_text(sheet, left, top + pp.height() * scale + 2 + static_cast<int>(line) * kLineHeight, lines[line], kInk);
  }
  return sheet;
}

}  // namespace tessera::data
