#pragma once
// tf.train.Example (tensorflow/core/example/example.proto, feature.proto), as TFDS and TensorFlow's scripts store samples:
//   Example{1: Features}, Features{1: map entries {1: key, 2: Feature}}, Feature{1: BytesList | 2: FloatList | 3: Int64List},
// each of these {1: repeated}; numbers packed or not.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/bytes/extent.h"
#include "data/formats/bytes/window.h"

namespace tessera::data {

enum class FeatureKind { kAbsent, kEmpty, kBytes, kFloats, kIntegers };
const char* feature_kind_name(FeatureKind kind);  // "bytes", "integers", …

// One feature, borrowed from the example's bytes.
struct Feature {
  FeatureKind kind = FeatureKind::kAbsent;
  int64_t count = 0;
  std::string_view bytes;                // the first, when kBytes
  std::vector<std::string_view> values;  // all of them
  int64_t integer = 0;                   // the first, when kIntegers
  std::vector<int64_t> integers;         // all of them
};

// The most features of an Example, and values of a feature, so that a file takes no more memory than some times its own bytes.
inline constexpr int64_t kMaxExampleParts = 1 << 20;

// The features named `keys`, in that order; a feature that the example lacks is kAbsent. Nothing when the bytes are no Example,
// or one with too many parts.
// Where a key comes twice, the last one counts, as in protobuf.
std::optional<std::vector<Feature>> parse_example(std::string_view bytes, const std::vector<std::string>& keys);

// Reads of an Example in a file only the feature named `key`, and of its other features only names and sizes. So labels are
// found without reading images. Empty when the bytes are no Example, more than a sample may have, or more than 1 MiB of that
// feature.
std::string read_example_entries(Window& file, const Extent& example, std::string_view key);

// The keys of all features with their kinds: "image/encoded (bytes)". Empty where parse_example() gives nothing.
std::vector<std::string> example_keys(std::string_view bytes);

// An Example with features in the order of their keys as bytes, which is how protobuf writes a map deterministically.
class ExampleWriter {
 public:
  void bytes(std::string_view key, std::string_view value) { bytes_list(key, {&value, 1}); }
  void bytes_list(std::string_view key, std::span<const std::string_view> values);
  void integer(std::string_view key, int64_t value) { integer_list(key, {&value, 1}); }
  void integer_list(std::string_view key, std::span<const int64_t> values);
  std::string finish();

 private:
  struct Entry {
    std::string key, feature;
  };
  std::vector<Entry> entries_;
};

}  // namespace tessera::data
