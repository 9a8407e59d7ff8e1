#pragma once
// The frame of each record in a TFRecord file (tensorflow/core/lib/io/record_writer.cc), the format of TensorBoard's event
// files too:
//   uint64 length, uint32 masked crc32c of the length, data, uint32 masked crc32c of the data; little-endian.
// masked(c) = rotate c right by 15 bits, plus 0xa282ead8.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::store {

inline constexpr int64_t kTfrecordHeader = 12, kTfrecordFooter = 4;

uint32_t masked_crc32c(std::string_view bytes);

// Header and footer of a record.
std::string tfrecord_header(std::string_view data);
std::string tfrecord_footer(std::string_view data);

// The length that a header of kTfrecordHeader bytes says; nothing where its checksum is wrong.
std::optional<uint64_t> tfrecord_length(std::string_view header);
// `data` and `footer` as read: whether the checksum is right.
bool tfrecord_intact(std::string_view data, std::string_view footer);

}  // namespace tessera::store
