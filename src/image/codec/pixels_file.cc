#include "image/codec/pixels_file.h"

#include <cstring>

namespace tessera::image {
namespace {

struct Header {
  char magic[16];
  int32_t width, height, orientation;
  Repairs repairs;
};
// No image format begins so.
constexpr char kMagic[sizeof Header::magic] = "\0tessera pixels";

}  // namespace

size_t pixels_file_size(int width, int height) {
  return sizeof(Header) + static_cast<size_t>(width) * static_cast<size_t>(height) * Image::kChannels;
}

void write_pixels_file(const ImageView& image, int orientation, Repairs repairs, uint8_t* to) {
  Header header{{}, image.width, image.height, orientation, repairs};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  std::memcpy(to, &header, sizeof header);
  copy_image(image, false, to + sizeof header, ptrdiff_t{image.width} * Image::kChannels);
}

bool is_pixels_file(ByteSpan bytes) {
  Header header;
  if (bytes.size() < sizeof header || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header.width > 0 && header.height > 0 && header.orientation >= 1 && header.orientation <= 8 &&
         bytes.size() == pixels_file_size(header.width, header.height);
}

PixelsFile read_pixels_file(ByteSpan bytes) {
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  return {{bytes.data() + sizeof header, header.width, header.height, ptrdiff_t{header.width} * Image::kChannels},
          header.orientation,
          header.repairs};
}

}  // namespace tessera::image
