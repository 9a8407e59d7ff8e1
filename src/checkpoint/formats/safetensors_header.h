#pragma once
// The JSON header of a safetensors file, as text -> entries. Parsing event by event, so that a hostile header costs no more
// memory than what it may legally hold.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"
#include "checkpoint/formats/safetensors.h"

namespace tessera::checkpoint {

struct HeaderEntry {
  std::string name;
  TensorType type;
  uint64_t begin = 0, end = 0;  // offsets into the data, not checked yet
};

struct Header {
  std::vector<HeaderEntry> entries;  // in the order of the text
  Metadata metadata;
};

// Checks the grammar, the dtypes and that no name or field comes twice. Throws a data error naming `path`.
Header parse_header(std::string_view text, const std::string& path);

// "F32" <-> DType::kF32.
std::string_view safetensors_dtype(DType dtype);
std::optional<DType> parse_safetensors_dtype(std::string_view name);
// The place of a dtype in the format's own order: arrays are written from the highest to the lowest.
int safetensors_rank(DType dtype);

}  // namespace tessera::checkpoint
