#pragma once
// How a slice of a larger array is stored in a safetensors file: under the array's name with the place of its first element,
// "params/w@128,0", while the file's metadata has the shapes of the whole arrays, {"params/w": [256, 64]}.

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/shape.h"

namespace tessera::checkpoint {

inline constexpr char kSliceMark = '@';
inline constexpr const char* kShapesKey = "shapes";  // in the metadata

struct SliceName {
  std::string array;
  Dims offset;
};

// ("params/w", {128, 0}) -> "params/w@128,0".
std::string slice_name(std::string_view array, const Dims& offset);
// The inverse, cut at the last '@'. Nothing for what slice_name() does not give: no '@', no numbers, signs, leading zeros,
// numbers beyond 63 bits, more of them than an array may have dimensions.
std::optional<SliceName> parse_slice_name(std::string_view text);

// Whole shapes by the array's name.
using Shapes = std::map<std::string, Dims, std::less<>>;
// JSON in one line, names in order.
std::string shapes_text(const Shapes& shapes);
// Throws a data error that names `path`: for anything but an object of lists of whole numbers, each name once. No memory is
// taken beyond what the text may legally hold.
Shapes parse_shapes(std::string_view text, const std::string& path);

}  // namespace tessera::checkpoint
