#pragma once
// TFRecord files (tensorflow/core/lib/io/record_writer.cc): records end to end, each
//   uint64 length, uint32 masked crc32c of the length, data, uint32 masked crc32c of the data; little-endian.
// masked(c) = rotate c right by 15 bits, plus 0xa282ead8.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/extent.h"
#include "store/file.h"

namespace tessera::data {

inline constexpr int64_t kTfrecordHeader = 12, kTfrecordFooter = 4;

uint32_t masked_crc32c(std::string_view bytes);

// The data of every record. Reads headers alone, and checks them. Throws a data Error that names `path` and the offset for a
// file that is cut short, damaged or compressed.
std::vector<Extent> scan_tfrecords(const std::string& path, const store::ReadableFile& file);

// The data of the first one alone; nothing in an empty file.
std::optional<Extent> first_tfrecord_extent(const std::string& path, const store::ReadableFile& file);

// `data` and `footer` as read: whether the checksum is right.
bool tfrecord_intact(std::string_view data, std::string_view footer);

// Header and footer of a record.
std::string tfrecord_header(std::string_view data);
std::string tfrecord_footer(std::string_view data);

}  // namespace tessera::data
