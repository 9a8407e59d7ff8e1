#pragma once
// The entropy-coded data of a JPEG scan, made ready for reading: stuffed bytes taken out, restart markers found.

#include <vector>

#include "image/image.h"

namespace tessera::image {

class JpegScan {
 public:
  // Zero bytes that follow the data: more than the longest MCU's, so that a reader may check for the end once an MCU.
  static constexpr size_t kSlack = 2048;

  // Copies the data at `start` of a file. False unless it consists of `intervals` intervals, with the restart markers between
  // them in order, and the end-of-image marker follows at once.
  bool read(ByteSpan file, size_t start, size_t intervals);

  const uint8_t* data() const { return bytes_.data(); }
  // Where each interval ends, as an offset into data(). The next one starts there.
  const std::vector<size_t>& ends() const { return ends_; }

 private:
  PaddedBuffer bytes_;
  std::vector<size_t> ends_;
};

}  // namespace tessera::image
