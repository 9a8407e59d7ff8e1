#include "data/formats/tfrecord.h"

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "data/formats/bytes/fail_at.h"
#include "data/formats/bytes/window.h"

namespace tessera::data {
namespace {

// TFRecord files may be compressed as a whole; then they begin as gzip or zlib streams do.
void refuse_compressed(const std::string& path, std::string_view header) {
  const auto first = static_cast<uint8_t>(header[0]), second = static_cast<uint8_t>(header[1]);
  const bool gzip = first == 0x1f && second == 0x8b;
  const bool zlib = first == 0x78 && (first * 256 + second) % 31 == 0;
  if (!gzip && !zlib) return;
  throw data_error(fmt::format("`{}` is compressed as a whole with {}, so its records cannot be read one by one", path,
                               gzip ? "GZIP" : "ZLIB"),
                   {},
                   gzip ? fmt::format("uncompress it: gzip -dc {0} > {0}.plain", path)
                        : "write it again without compression: images are compressed already");
}

// The data of the record whose header is at `offset`; nothing at the file's end.
std::optional<Extent> record_at(const std::string& path, Window& window, int64_t offset) {
  if (offset == window.file_size()) return std::nullopt;
  if (!window.has(offset, kTfrecordHeader)) fail_at(path, offset, "a record is cut short");
  const std::string_view header = window.get(offset, kTfrecordHeader);
  const std::optional<uint64_t> length = store::tfrecord_length(header);
  if (!length) {
    if (offset > 0) fail_at(path, offset, "wrong checksum of a record's length");
    refuse_compressed(path, header);
    fail_at(path, offset, "this is no TFRecord file: wrong checksum", "");
  }
  const int64_t body = offset + kTfrecordHeader;
  if (*length > uint64_t{INT64_MAX} / 2 || !window.has(body, static_cast<int64_t>(*length) + kTfrecordFooter))
    fail_at(path, offset, fmt::format("a record of {} bytes is cut short", *length));
  return Extent{body, static_cast<int64_t>(*length)};
}

}  // namespace

std::optional<Extent> first_tfrecord_extent(const std::string& path, const store::ReadableFile& file) {
  Window window(file);
  return record_at(path, window, 0);
}

std::vector<Extent> scan_tfrecords(const std::string& path, const store::ReadableFile& file) {
  Window window(file);
  std::vector<Extent> records;
  for (int64_t offset = 0; const auto record = record_at(path, window, offset);) {
    records.push_back(*record);
    offset = record->offset + record->length + kTfrecordFooter;
  }
  return records;
}

}  // namespace tessera::data
