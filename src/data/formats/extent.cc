#include "data/formats/extent.h"

#include <fmt/format.h>

#include <span>

#include "base/error.h"
#include "base/text.h"

namespace tessera::data {

void check_sample_bytes(int64_t bytes) {
  if (bytes <= kMaxSampleBytes) return;
  throw data_error(fmt::format("it has {}, and samples of up to {} are read", human_bytes(static_cast<double>(bytes)),
                               human_bytes(static_cast<double>(kMaxSampleBytes))));
}

std::string read_extent(const store::ReadableFile& file, const Extent& extent) {
  check_sample_bytes(extent.length);
  std::string bytes(static_cast<size_t>(extent.length), '\0');
  file.read(extent.offset, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

}  // namespace tessera::data
