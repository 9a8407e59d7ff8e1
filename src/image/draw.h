#pragma once
// Simple shapes and text, drawn on images that people look at. Boxes are in pixels.

#include <cstdint>
#include <string_view>

#include "image/image.h"

namespace tessera::image {

// `box` lies in the image.
void fill(Image& image, const Box& box, uint8_t shade);

// A grey square with a cross: there is no image here. `box` lies in the image.
void draw_cross(Image& image, const Box& box);

// A line of two pixels, red inside white, so that it is seen on any picture. What lies outside `within`, which lies in the
// image, is left out.
void draw_frame(Image& image, const Box& frame, const Box& within);

// Each pixel of `from` becomes a square of `scale` pixels, from (left, top) of `to` on.
void enlarge(const Image& from, int scale, Image& to, int left, int top);

// `count` pictures of a size, whose pixels stand one after the other, side by side: from left to right and from the top, in rows of
// ceil(sqrt(count)). Where they are more than 16 million pixels it has the first of them, or none.
Image tiled(const uint8_t* pixels, int64_t count, int64_t width, int64_t height);

// Text in a 5 x 7 pixel font, which has ASCII: other letters are drawn as those of drawable_text(). A character takes 6 columns. What
// would lie outside `image` is left out.
void draw_text(Image& image, int x, int y, std::string_view name, uint8_t shade);
inline constexpr int kGlyphWidth = 6, kGlyphHeight = 7;

}  // namespace tessera::image
