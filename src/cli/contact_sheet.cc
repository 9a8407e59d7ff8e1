#include "cli/contact_sheet.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/error.h"

namespace tessera::cli {
namespace {

constexpr int kGlyphWidth = 5, kGlyphHeight = 7, kAdvance = kGlyphWidth + 1;
constexpr int kGap = 6;         // between tiles
constexpr int kMinTile = 96;    // smaller images are enlarged to about this
constexpr int kCaptionHeight = kGlyphHeight + 4;
constexpr std::array<uint8_t, 3> kPaper{24, 26, 30}, kInk{230, 230, 226};

// Rows from the top, the lowest five bits from the left.
struct Glyph {
  char letter;
  std::array<uint8_t, kGlyphHeight> rows;
};
constexpr Glyph kFont[] = {
    {'0', {14, 17, 19, 21, 25, 17, 14}}, {'1', {4, 12, 4, 4, 4, 4, 14}},      {'2', {14, 17, 1, 6, 8, 16, 31}},
    {'3', {14, 17, 1, 6, 1, 17, 14}},    {'4', {2, 6, 10, 18, 31, 2, 2}},     {'5', {31, 16, 30, 1, 1, 17, 14}},
    {'6', {6, 8, 16, 30, 17, 17, 14}},   {'7', {31, 1, 2, 4, 8, 8, 8}},       {'8', {14, 17, 17, 14, 17, 17, 14}},
    {'9', {14, 17, 17, 15, 1, 2, 12}},   {'A', {14, 17, 17, 31, 17, 17, 17}}, {'B', {30, 17, 17, 30, 17, 17, 30}},
    {'C', {14, 17, 16, 16, 16, 17, 14}}, {'D', {30, 17, 17, 17, 17, 17, 30}}, {'E', {31, 16, 16, 30, 16, 16, 31}},
    {'F', {31, 16, 16, 30, 16, 16, 16}}, {'G', {14, 17, 16, 23, 17, 17, 15}}, {'H', {17, 17, 17, 31, 17, 17, 17}},
    {'I', {14, 4, 4, 4, 4, 4, 14}},      {'J', {7, 2, 2, 2, 2, 18, 12}},      {'K', {17, 18, 20, 24, 20, 18, 17}},
    {'L', {16, 16, 16, 16, 16, 16, 31}}, {'M', {17, 27, 21, 21, 17, 17, 17}}, {'N', {17, 25, 21, 19, 17, 17, 17}},
    {'O', {14, 17, 17, 17, 17, 17, 14}}, {'P', {30, 17, 17, 30, 16, 16, 16}}, {'Q', {14, 17, 17, 17, 21, 18, 13}},
    {'R', {30, 17, 17, 30, 20, 18, 17}}, {'S', {15, 16, 16, 14, 1, 1, 30}},   {'T', {31, 4, 4, 4, 4, 4, 4}},
    {'U', {17, 17, 17, 17, 17, 17, 14}}, {'V', {17, 17, 17, 17, 17, 10, 4}},  {'W', {17, 17, 17, 21, 21, 27, 17}},
    {'X', {17, 17, 10, 4, 10, 17, 17}},  {'Y', {17, 17, 10, 4, 4, 4, 4}},     {'Z', {31, 1, 2, 4, 8, 16, 31}},
    {'-', {0, 0, 0, 31, 0, 0, 0}},       {'_', {0, 0, 0, 0, 0, 0, 31}},       {'.', {0, 0, 0, 0, 0, 12, 12}},
    {',', {0, 0, 0, 0, 12, 4, 8}},       {':', {0, 12, 12, 0, 12, 12, 0}},    {'/', {1, 1, 2, 4, 8, 16, 16}},
    {'(', {2, 4, 8, 8, 8, 4, 2}},        {')', {8, 4, 2, 2, 2, 4, 8}},        {'+', {0, 4, 4, 31, 4, 4, 0}},
    {'\'', {4, 4, 8, 0, 0, 0, 0}},       {'&', {12, 18, 20, 8, 21, 18, 13}},  {' ', {0, 0, 0, 0, 0, 0, 0}},
};
constexpr std::array<uint8_t, kGlyphHeight> kUnknown{31, 17, 17, 17, 17, 17, 31};

const std::array<uint8_t, kGlyphHeight>& glyph(char letter) {
  const char upper = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  for (const Glyph& g : kFont) {
    if (g.letter == upper) return g.rows;
  }
  return kUnknown;
}

void draw_text(data::Image& sheet, int left, int top, int width, std::string_view text) {
  const size_t fits = static_cast<size_t>(std::max(0, (width + 1) / kAdvance));
  for (size_t i = 0; i < std::min(fits, text.size()); ++i) {
    const auto& rows = glyph(text[i]);
    for (int y = 0; y < kGlyphHeight; ++y) {
      for (int x = 0; x < kGlyphWidth; ++x) {
        if ((rows[static_cast<size_t>(y)] >> (kGlyphWidth - 1 - x) & 1) == 0) continue;
        std::copy(kInk.begin(), kInk.end(), sheet.row(top + y) + (left + static_cast<int>(i) * kAdvance + x) * 3);
      }
    }
  }
}

void draw_image(data::Image& sheet, int left, int top, int scale, const data::ImageView& image) {
  for (int y = 0; y < image.height * scale; ++y) {
    for (int x = 0; x < image.width * scale; ++x) {
      std::memcpy(sheet.row(top + y) + (left + x) * 3, image.row(y / scale) + (x / scale) * 3, 3);
    }
  }
}

}  // namespace

data::Image contact_sheet(const std::vector<Tile>& tiles) {
  TESSERA_CHECK(!tiles.empty());
  const data::ImageView& first = tiles[0].image;
  const int scale = std::max(1, kMinTile / std::max(first.width, first.height));
  const int width = first.width * scale, height = first.height * scale + kCaptionHeight;
  const int count = static_cast<int>(tiles.size());
  const int columns = std::max(1, static_cast<int>(std::ceil(std::sqrt(count * static_cast<double>(height) / width))));
  const int rows = (count + columns - 1) / columns;

  data::Image sheet(columns * (width + kGap) + kGap, rows * (height + kGap) + kGap);
  for (int y = 0; y < sheet.height(); ++y) {
    for (int x = 0; x < sheet.width(); ++x) std::copy(kPaper.begin(), kPaper.end(), sheet.row(y) + x * 3);
  }
  for (int i = 0; i < count; ++i) {
    const Tile& tile = tiles[static_cast<size_t>(i)];
    TESSERA_CHECK(tile.image.width == first.width && tile.image.height == first.height, "tiles of different sizes");
    const int left = kGap + i % columns * (width + kGap), top = kGap + i / columns * (height + kGap);
    draw_image(sheet, left, top, scale, tile.image);
    draw_text(sheet, left, top + first.height * scale + 2, width, tile.caption);
  }
  return sheet;
}

}  // namespace tessera::cli
