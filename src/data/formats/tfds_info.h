#pragma once
// What TFDS (github.com/tensorflow/datasets) writes beside the shards of a data set: dataset_info.json and features.json
// (proto3 JSON of core/proto/dataset_info.proto and feature.proto), <feature>.labels.txt; and its language of splits.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

struct TfdsSplit {
  std::string name, filepath_template;
  std::vector<int64_t> shard_lengths;
};

struct TfdsInfo {
  std::string name, file_format;
  std::vector<TfdsSplit> splits;
  std::vector<std::string> supervised;  // keys of input and target, where the set tells them
  const TfdsSplit* find(std::string_view split) const;
};

enum class TfdsKind { kImage, kClassLabel, kText, kOther };
struct TfdsFeature {
  std::string key;  // of the Example: nested ones are joined by '/'
  TfdsKind kind = TfdsKind::kOther;
  std::string type;         // the Python class, for messages
  int64_t num_classes = 0;  // of a ClassLabel
};

// Throw a data Error that names `path` for what is not as TFDS writes it.
TfdsInfo parse_tfds_info(const std::string& path, std::string_view json);
std::vector<TfdsFeature> parse_tfds_features(const std::string& path, std::string_view json);

// The file names of a split's shards, from its template.
std::string tfds_shard_name(const TfdsInfo& info, const TfdsSplit& split, size_t shard);

// One term of "train[10%:90%]+validation".
struct TfdsSlice {
  std::string split;
  struct Bound {
    int64_t value = 0;
    bool percent = false;
  };
  std::optional<Bound> from, to;
};
// Throws a usage Error at `where` for what cannot be read.
std::vector<TfdsSlice> parse_tfds_split(std::string_view text, const std::string& where);
// [from, to) of n samples, as TFDS rounds: percentages to the nearest sample (half to even), negative bounds from the end.
// Nothing when a bound lies outside.
struct TfdsRange {
  int64_t from = 0, to = 0;
};
std::optional<TfdsRange> resolve_tfds_slice(const TfdsSlice& slice, int64_t samples);

}  // namespace tessera::data
