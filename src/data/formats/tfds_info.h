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

enum class TfdsKind { kImage, kClassLabel, kClassLabels, kText, kOther };  // kClassLabels: a Sequence of ClassLabel
struct TfdsFeature {
  std::string key;  // of the Example: nested ones are joined by '/'
  TfdsKind kind = TfdsKind::kOther;
  std::string type;         // the Python class, for messages
  int64_t num_classes = 0;  // of a ClassLabel, or of a Sequence of them
};

// Throw a data Error that names `path` for what is not as TFDS writes it.
TfdsInfo parse_tfds_info(const std::string& path, std::string_view json);
std::vector<TfdsFeature> parse_tfds_features(const std::string& path, std::string_view json);

// The file names of a split's shards, from its template.
std::string tfds_shard_name(const TfdsInfo& info, const TfdsSplit& split, size_t shard);

// One term of "train[10%:90%]+validation": from `from` to `to`, in one unit. A unit at one bound holds for both, and
// "train[3shard]" means "train[3shard:4shard]".
struct TfdsSlice {
  enum class Unit { kSamples, kPercent, kShards };
  std::string split;
  std::optional<double> from, to;
  Unit unit = Unit::kSamples;
};
// Throws a usage Error at `where` for what cannot be read.
std::vector<TfdsSlice> parse_tfds_split(std::string_view text, const std::string& where);

// kClosest: percentages to the nearest sample (half to even). kPct1DropRemainder: 1 % is the hundredth part rounded down, and
// p % so many times that.
enum class TfdsRounding { kClosest, kPct1DropRemainder };
struct TfdsRange {
  int64_t from = 0, to = 0;
};
// The samples of a term in a split with these shards, as TFDS counts them: negative bounds count from the end. Nothing when a
// bound lies outside, or with kPct1DropRemainder where 1 % of the split is less than one sample.
std::optional<TfdsRange> resolve_tfds_slice(const TfdsSlice& slice, const std::vector<int64_t>& shard_lengths,
                                            TfdsRounding rounding = TfdsRounding::kClosest);
// Part `index` of `count` parts as even as they can be, the first ones longer by one, or all of the same length.
TfdsRange even_tfds_part(const TfdsRange& range, int64_t index, int64_t count, bool drop_remainder);

}  // namespace tessera::data
