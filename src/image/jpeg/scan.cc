#include "image/jpeg/scan.h"

#include <cstring>

namespace tessera::image {
namespace {
constexpr uint8_t kRst0 = 0xD0, kEndOfImage = 0xD9;
}

bool JpegScan::read(ByteSpan file, size_t start, size_t intervals) {
  const uint8_t* from = file.data() + start;
  const uint8_t* const end = file.data() + file.size();
  bytes_.reset(file.size() - start + kSlack);
  ends_.clear();
  uint8_t* to = bytes_.data();
  for (;;) {
    const auto* mark = static_cast<const uint8_t*>(std::memchr(from, 0xFF, static_cast<size_t>(end - from)));
    if (!mark || end - mark < 2) return false;
    const auto plain = static_cast<size_t>(mark - from);
    std::memcpy(to, from, plain);
    to += plain;
    from = mark + 2;
    if (mark[1] == 0) {
      *to++ = 0xFF;
      continue;
    }
    ends_.push_back(static_cast<size_t>(to - bytes_.data()));
    if (mark[1] == kEndOfImage) break;
    if (ends_.size() == intervals || mark[1] != kRst0 + (ends_.size() - 1) % 8) return false;
  }
  std::memset(to, 0, kSlack);
  return ends_.size() == intervals;
}

}  // namespace tessera::image
