#include "image/jpeg/header.h"

#include <algorithm>
#include <string_view>

namespace tessera::image {
namespace {

constexpr int kMaxSide = 65500;  // JPEG_MAX_DIMENSION

enum Marker : uint8_t {
  kSof0 = 0xC0,
  kSof1 = 0xC1,
  kDht = 0xC4,
  kSoi = 0xD8,
  kSos = 0xDA,
  kDqt = 0xDB,
  kDri = 0xDD,
  kApp0 = 0xE0,
  kApp14 = 0xEE,
  kApp15 = 0xEF,
  kComment = 0xFE,
};

// What else than the JpegHeader decides whether the file is of the usual kind.
struct Findings {
  bool frame = false, jfif = false, adobe = false;
  int transform = 0;  // Adobe's
  uint8_t id[3] = {};
  uint8_t sampling[3] = {};
};

int two_bytes(const uint8_t* at) { return at[0] << 8 | at[1]; }

bool starts_with(ByteSpan body, std::string_view text) {
  return body.size() >= text.size() && std::equal(text.begin(), text.end(), body.begin());
}

// Sizes below which libjpeg doesn't look into these segments.
void read_application(uint8_t marker, ByteSpan body, Findings& found) {
  using std::string_view_literals::operator""sv;
  if (marker == kApp0 && body.size() >= 14 && starts_with(body, "JFIF\0"sv)) found.jfif = true;
  if (marker == kApp14 && body.size() >= 12 && starts_with(body, "Adobe"sv)) {
    found.adobe = true;
    found.transform = body[11];
  }
}

bool read_quantisation(ByteSpan body, JpegHeader& header) {
  while (!body.empty()) {
    const int number = body[0] & 15, precision = body[0] >> 4;
    const size_t size = precision ? 128 : 64;
    if (number > 3 || precision > 1 || body.size() < 1 + size) return false;
    header.quantisation[number] = body.data() + 1;
    header.wide[number] = precision == 1;
    body = body.subspan(1 + size);
  }
  return true;
}

bool read_huffman(ByteSpan body, JpegHeader& header) {
  while (!body.empty()) {
    const int number = body[0] & 15, kind = body[0] >> 4;
    if (number > 3 || kind > 1 || body.size() < 17) return false;
    size_t symbols = 0;
    for (int length = 1; length <= 16; ++length) symbols += body[static_cast<size_t>(length)];
    if (symbols > 256 || body.size() < 17 + symbols) return false;
    (kind ? header.ac : header.dc)[number] = body.data() + 1;
    body = body.subspan(17 + symbols);
  }
  return true;
}

bool read_frame(ByteSpan body, JpegHeader& header, Findings& found) {
  if (found.frame || body.size() < 6 || body[0] != 8) return false;
  found.frame = true;
  header.height = two_bytes(&body[1]);
  header.width = two_bytes(&body[3]);
  header.components = body[5];
  if (header.components != 1 && header.components != 3) return false;
  if (body.size() != 6 + 3 * static_cast<size_t>(header.components)) return false;
  for (int c = 0; c < header.components; ++c) {
    const uint8_t* at = &body[6 + 3 * static_cast<size_t>(c)];
    found.id[c] = at[0];
    found.sampling[c] = at[1];
    header.component[c].quantisation = at[2];
    if (at[2] > 3) return false;
  }
  return header.width > 0 && header.height > 0 && std::max(header.width, header.height) <= kMaxSide;
}

bool read_scan(ByteSpan body, const Findings& found, JpegHeader& header) {
  const auto count = static_cast<size_t>(header.components);
  if (!found.frame || body.size() != 4 + 2 * count || body[0] != count) return false;
  for (size_t c = 0; c < count; ++c) {
    JpegHeader::Component& component = header.component[c];
    component.dc = body[2 + 2 * c] >> 4;
    component.ac = body[2 + 2 * c] & 15;
    if (body[1 + 2 * c] != found.id[c] || component.dc > 3 || component.ac > 3) return false;
    if (!header.quantisation[component.quantisation] || !header.dc[component.dc] || !header.ac[component.ac]) return false;
  }
  const uint8_t* spectrum = &body[1 + 2 * count];
  return spectrum[0] == 0 && spectrum[1] == 63 && spectrum[2] == 0;
}

// Of a single component the sampling factors mean nothing but have to be legal.
bool settle_sampling(const Findings& found, JpegHeader& header) {
  const int horizontal = found.sampling[0] >> 4, vertical = found.sampling[0] & 15;
  if (header.components == 1) return std::min(horizontal, vertical) >= 1 && std::max(horizontal, vertical) <= 4;
  header.horizontal = horizontal;
  header.vertical = vertical;
  return std::min(horizontal, vertical) >= 1 && std::max(horizontal, vertical) <= 2 && found.sampling[1] == 0x11 &&
         found.sampling[2] == 0x11;
}

// As libjpeg decides it; the cases in which it guesses are left to it.
bool is_ycc(const Findings& found) {
  if (found.id[0] == found.id[1] || found.id[0] == found.id[2] || found.id[1] == found.id[2]) return false;
  if (found.jfif) return true;
  if (found.adobe) return found.transform == 1;
  return found.id[0] == 1 && found.id[1] == 2 && found.id[2] == 3;
}

bool read_segment(uint8_t marker, ByteSpan body, JpegHeader& header, Findings& found) {
  switch (marker) {
    case kDqt: return read_quantisation(body, header);
    case kDht: return read_huffman(body, header);
    case kSof0:
    case kSof1: return read_frame(body, header, found);
    case kDri:
      if (body.size() != 2) return false;
      header.restart_interval = two_bytes(body.data());
      return true;
    case kComment: return true;
    default: read_application(marker, body, found); return marker >= kApp0 && marker <= kApp15;
  }
}

}  // namespace

bool read_usual_header(ByteSpan bytes, JpegHeader& header) {
  header = {};
  Findings found;
  if (bytes.size() < 2 || bytes[0] != 0xFF || bytes[1] != kSoi) return false;
  for (size_t at = 2; at + 4 <= bytes.size();) {
    const uint8_t marker = bytes[at + 1];
    const auto length = static_cast<size_t>(two_bytes(&bytes[at + 2]));
    if (bytes[at] != 0xFF || length < 2 || at + 2 + length > bytes.size()) return false;
    const ByteSpan body = bytes.subspan(at + 4, length - 2);
    at += 2 + length;
    if (marker == kSos) {
      header.scan = at;
      return read_scan(body, found, header) && settle_sampling(found, header) && (header.components == 1 || is_ycc(found));
    }
    if (!read_segment(marker, body, header, found)) return false;
  }
  return false;
}

}  // namespace tessera::image
