#pragma once
// `tessera data show`: a grid of samples as the model will see them, each with its class name or first text below.

#include <string_view>
#include <vector>

#include "data/pp.h"
#include "data/source.h"

namespace tessera::data {

struct ContactSheetOptions {
  int64_t count = 32;
  int columns = 8;
  uint64_t seed = 0;
  int64_t start = 0;     // first position in the training order (order.h)
  bool shuffled = true;  // false: the source's order, as in an evaluation
};

// Where in the source's training order, or order, the sheet's image `i` is; its epoch and sample make the key of its draws.
struct SheetPlace {
  int64_t sample = 0;
  SampleKey key;
};
SheetPlace sheet_place(const Source& source, const ContactSheetOptions& options, int64_t i);

// Images smaller than 96 pixels are enlarged by a whole number. A file that cannot be read is a grey square with a cross.
Image contact_sheet(const Source& source, const Pp& pp, const ContactSheetOptions& options);

// Text in a 5 x 7 pixel font: letters (shown as capitals), digits and common signs; anything else is a small box. A character
// takes 6 columns. What would lie outside `image` is left out.
void draw_text(Image& image, int x, int y, std::string_view text, uint8_t shade);
inline constexpr int kGlyphWidth = 6, kGlyphHeight = 7;

}  // namespace tessera::data
