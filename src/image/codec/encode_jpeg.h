#pragma once
// RGB pixels -> a baseline JPEG file, 4:2:0, by libjpeg-turbo's accurate integer DCT with optimised Huffman tables.

#include <vector>

#include "image/image.h"

namespace tessera::image {

// `quality` 1..100, as libjpeg's and Pillow's.
std::vector<uint8_t> encode_jpeg(const ImageView& image, int quality);

}  // namespace tessera::image
