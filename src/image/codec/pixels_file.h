#pragma once
// A decoded picture in the form of an image file, so that a source can hand it out in the place of the file that it was decoded
// of: a header, then 8-bit RGB, rows from the top. Only caches (data/cache/cache.h) have it.

#include "image/codec/decode.h"

namespace tessera::image {

// Bytes of the whole.
size_t pixels_file_size(int width, int height);

// Writes pixels_file_size() bytes. `orientation` and `repairs` are the original file's.
void write_pixels_file(const ImageView& image, int orientation, Repairs repairs, uint8_t* to);

struct PixelsFile {
  ImageView image;  // borrowed; padding is the sample's
  int orientation = 1;
  Repairs repairs;
};
bool is_pixels_file(ByteSpan bytes);
// What is_pixels_file() knows; `bytes` are as write_pixels_file() wrote them.
PixelsFile read_pixels_file(ByteSpan bytes);

}  // namespace tessera::image
