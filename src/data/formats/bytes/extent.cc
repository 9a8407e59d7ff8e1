#include "data/formats/bytes/extent.h"

#include <fmt/format.h>

#include <protozero/buffer_string.hpp>
#include <protozero/varint.hpp>
#include <span>

#include "base/error.h"
#include "base/text/text.h"
#include "data/formats/bytes/varint.h"

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

std::string encode_extents(const std::vector<Extent>& extents) {
  std::string out;
  int64_t end = 0;
  for (const Extent& extent : extents) {
    TESSERA_CHECK(extent.offset >= end && extent.length >= 0);
    protozero::add_varint_to_buffer(&out, static_cast<uint64_t>(extent.offset - end));
    protozero::add_varint_to_buffer(&out, static_cast<uint64_t>(extent.length));
    end = extent.offset + extent.length;
  }
  return out;
}

std::optional<std::vector<Extent>> take_extents(std::string_view& bytes, int64_t count) {
  constexpr uint64_t kMax = uint64_t{1} << 60;
  if (count < 0 || static_cast<uint64_t>(count) > bytes.size() / 2) return std::nullopt;
  std::vector<Extent> extents(static_cast<size_t>(count));
  uint64_t end = 0;
  for (Extent& extent : extents) {
    uint64_t gap = 0, length = 0;
    if (!take_varint(bytes, gap) || !take_varint(bytes, length) || gap > kMax || length > kMax) return std::nullopt;
    const uint64_t offset = end + gap;
    end = offset + length;
    if (end > kMax) return std::nullopt;
    extent = {static_cast<int64_t>(offset), static_cast<int64_t>(length)};
  }
  return extents;
}

}  // namespace tessera::data
