#pragma once
// The orientation that a file's EXIF data gives its picture (CIPA DC-008, tag 0x0112): of a JPEG in its first such APP1
// segment, of a PNG in its eXIf chunk, of a WebP in its EXIF chunk. Orientation in XMP alone is not looked at.

#include "image/image.h"

namespace tessera::image {

// 1..8; 1, which is upright, where there is none or it is no such number.
int exif_orientation(ByteSpan file);

// The picture turned upright, as Pillow's ImageOps.exif_transpose does it: for an orientation above 4 width and height change
// places. `to` must be another image.
void turn_upright(const Image& from, int orientation, Image& to);

}  // namespace tessera::image
