#pragma once
// Writes PNG files: contact sheets and plots.

#include <string>
#include <vector>

#include "image/image.h"

namespace tessera::image {

std::vector<uint8_t> encode_png(const ImageView& image);

// Throws a data Error when the file cannot be written.
void write_png(const std::string& path, const ImageView& image);

}  // namespace tessera::image
