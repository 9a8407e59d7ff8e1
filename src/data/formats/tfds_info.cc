#include "data/formats/tfds_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/text/json.h"
#include "base/text/text.h"

namespace tessera::data {
namespace {

using Json = nlohmann::json;

constexpr const char* kDefaultTemplate = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}";

[[noreturn]] void fail_info(const std::string& path, const std::string& what) {
  throw data_error(fmt::format("`{}`: {}", path, what), {}, "prepare the data set again with a current TFDS");
}

Json parse(const std::string& path, std::string_view text) {
  JsonResult json = read_json(text);
  if (!json.problem.empty()) fail_info(path, "it is no JSON object: " + json.problem);
  if (!json.value.is_object()) fail_info(path, "it is no JSON object");
  return std::move(json.value);
}

std::string text_member(const Json& object, const char* key, std::string fallback = {}) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::move(fallback);
}

// proto3 JSON writes 64-bit integers as texts.
std::optional<int64_t> integer_of(const Json& value) {
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_string()) return std::nullopt;
  const std::string text = value.get<std::string>();
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

TfdsSplit parse_split(const std::string& path, const Json& json) {
  if (!json.is_object()) fail_info(path, "a split is no object");
  TfdsSplit split{text_member(json, "name"), text_member(json, "filepathTemplate", kDefaultTemplate), {}};
  if (const auto lengths = json.find("shardLengths"); lengths != json.end() && lengths->is_array()) {
    // More samples than any split has. They are added up.
    constexpr int64_t kMaxSamples = int64_t{1} << 50;
    int64_t samples = 0;
    for (const Json& one : *lengths) {
      const auto length = integer_of(one);
      if (!length || *length < 0 || *length > kMaxSamples || (samples += *length) > kMaxSamples)
        fail_info(path, fmt::format("shardLengths of `{}` are no numbers", split.name));
      split.shard_lengths.push_back(*length);
    }
  }
  return split;
}

// The keys of a tuple: {"tuple": {"items": [{"featureKey": …}, …]}}.
std::vector<std::string> parse_supervised(const Json& info) {
  std::vector<std::string> keys;
  const Json items = info.value(Json::json_pointer("/supervisedKeys/tuple/items"), Json::array());
  if (!items.is_array()) return keys;
  for (const Json& item : items) {
    if (item.is_object()) keys.push_back(text_member(item, "featureKey"));
  }
  return keys;
}

// `listed`: inside a Sequence. In Examples its texts are a list, and those of a Sequence of Sequences have keys of their own.
void add_features(const Json& feature, const std::string& key, std::vector<TfdsFeature>& out, int depth, bool listed = false) {
  constexpr int kMaxDepth = 32;
  if (!feature.is_object() || depth > kMaxDepth) return;
  if (const auto sequence = feature.find("sequence"); !listed && sequence != feature.end() && sequence->is_object()) {
    if (const auto inner = sequence->find("feature"); inner != sequence->end()) add_features(*inner, key, out, depth + 1, true);
    return;
  }
  if (const auto dict = feature.find("featuresDict"); dict != feature.end() && dict->is_object()) {
    const auto inner = dict->find("features");
    if (inner == dict->end() || !inner->is_object()) return;
    for (const auto& [name, one] : inner->items()) {
      add_features(one, key.empty() ? name : fmt::format("{}/{}", key, name), out, depth + 1, listed);
    }
    return;
  }
  if (key.empty()) return;
  TfdsFeature found{key, TfdsKind::kOther, text_member(feature, "pythonClassName"), 0};
  found.type = found.type.substr(found.type.rfind('.') + 1);
  if (!listed && (found.type == "Image" || feature.contains("image"))) found.kind = TfdsKind::kImage;
  if (found.type == "Text" || feature.contains("text")) found.kind = TfdsKind::kText;
  if (listed) found.type = fmt::format("Sequence of {}", found.type);
  if (const auto label = feature.find("classLabel"); label != feature.end()) {
    found.kind = listed ? TfdsKind::kClassLabels : TfdsKind::kClassLabel;
    if (label->is_object() && label->contains("numClasses")) found.num_classes = integer_of((*label)["numClasses"]).value_or(0);
  }
  out.push_back(std::move(found));
}

// What is put in may hold the next word to replace, and so on: a short description could make a name of any length.
void replace_all(std::string& name, std::string_view from, const std::string& to) {
  constexpr size_t kMaxName = 4096;
  for (size_t at = 0; (at = name.find(from, at)) != std::string::npos; at += to.size()) {
    if (name.size() + to.size() > kMaxName) throw data_error("the names of its files are longer than any system takes");
    name.replace(at, from.size(), to);
  }
}

struct Bound {
  double value = 0;
  std::optional<TfdsSlice::Unit> unit;
};

std::optional<Bound> parse_bound(std::string_view text, std::string_view whole, const std::string& where) {
  text = trim(text);
  if (text.empty()) return std::nullopt;
  Bound bound;
  std::string digits(text);
  const auto take_unit = [&](std::string_view suffix, TfdsSlice::Unit unit) {
    if (!digits.ends_with(suffix)) return;
    digits.resize(digits.size() - suffix.size());
    bound.unit = unit;
  };
  take_unit("%", TfdsSlice::Unit::kPercent);
  take_unit("shard", TfdsSlice::Unit::kShards);
  std::erase(digits, '_');
  constexpr double kMax = int64_t{1} << 50;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), bound.value, std::chars_format::fixed);
  const bool whole_number = bound.value == std::floor(bound.value) && digits.find('.') == std::string::npos;
  if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size() || !(std::abs(bound.value) <= kMax) ||
      (bound.unit != TfdsSlice::Unit::kPercent && !whole_number)) {
    throw usage_error(fmt::format("cannot read the bound `{}` of the split `{}`", text, whole), where,
                      "bounds are whole numbers of samples or shards, or percentages: train[:1000], train[10%:90%], "
                      "train[:2shard]");
  }
  return bound;
}

TfdsSlice parse_slice(std::string_view text, const std::string& where) {
  const size_t open = text.find('[');
  if (open == std::string_view::npos) return {std::string(text), {}, {}};
  const std::string_view inside = text.substr(open + 1);
  constexpr const char* kHelp = "write it as train[10%:90%], train[:1000] or train[3shard]";
  if (inside.empty() || inside.back() != ']') throw usage_error(fmt::format("cannot read the split `{}`", text), where, kHelp);
  const std::string_view bounds = inside.substr(0, inside.size() - 1);
  const size_t colon = bounds.find(':');
  const auto from = parse_bound(bounds.substr(0, colon), text, where);
  const bool one = colon == std::string_view::npos;
  if (one && (!from || from->unit != TfdsSlice::Unit::kShards))
    throw usage_error(fmt::format("cannot read the split `{}`", text), where, kHelp);
  const auto to = one ? Bound{from->value + 1, from->unit} : parse_bound(bounds.substr(colon + 1), text, where);
  if (from && to && from->unit && to->unit && from->unit != to->unit)
    throw usage_error(fmt::format("the bounds of the split `{}` have two units", text), where, kHelp);
  TfdsSlice slice{std::string(trim(text.substr(0, open))), {}, {}};
  if (from) slice.from = from->value, slice.unit = from->unit.value_or(slice.unit);
  if (to) slice.to = to->value, slice.unit = to->unit.value_or(slice.unit);
  return slice;
}

// A percentage of n samples.
std::optional<int64_t> resolve_percent(double percent, int64_t n, TfdsRounding rounding) {
  if (std::abs(percent) > 100 || (rounding == TfdsRounding::kPct1DropRemainder && n < 100)) return std::nullopt;
  if (rounding == TfdsRounding::kClosest) return static_cast<int64_t>(std::nearbyint(percent * static_cast<double>(n) / 100.0));
  const int64_t hundredth = n / 100;  // without its remainder
  return static_cast<int64_t>(std::nearbyint(percent * static_cast<double>(hundredth)));
}

// The samples before a shard; shards before the first and after the last hold nothing.
int64_t samples_before(double shard, const std::vector<int64_t>& lengths) {
  const auto count = static_cast<double>(lengths.size());
  const double end = std::clamp(shard < 0 ? count + shard : shard, 0.0, count);
  return std::accumulate(lengths.begin(), lengths.begin() + static_cast<ptrdiff_t>(end), int64_t{0});
}

}  // namespace

const TfdsSplit* TfdsInfo::find(std::string_view split) const {
  for (const TfdsSplit& one : splits) {
    if (one.name == split) return &one;
  }
  return nullptr;
}

TfdsInfo parse_tfds_info(const std::string& path, std::string_view text) {
  const Json json = parse(path, text);
  TfdsInfo info{text_member(json, "name"), text_member(json, "fileFormat", "tfrecord"), {}, parse_supervised(json)};
  if (info.name.empty()) fail_info(path, "it has no `name`");
  if (const auto splits = json.find("splits"); splits != json.end() && splits->is_array()) {
    for (const Json& split : *splits) info.splits.push_back(parse_split(path, split));
  }
  if (info.splits.empty()) fail_info(path, "it has no splits");
  return info;
}

std::vector<TfdsFeature> parse_tfds_features(const std::string& path, std::string_view text) {
  std::vector<TfdsFeature> features;
  add_features(parse(path, text), "", features, 0);
  if (features.empty()) fail_info(path, "it has no features");
  return features;
}

std::string tfds_shard_name(const TfdsInfo& info, const TfdsSplit& split, size_t shard) {
  std::string name = split.filepath_template;
  const size_t count = split.shard_lengths.size();
  replace_all(name, "{DATASET}", info.name);
  replace_all(name, "{SPLIT}", split.name);
  replace_all(name, "{FILEFORMAT}", info.file_format);
  replace_all(name, "{SHARD_X_OF_Y}", fmt::format("{:05}-of-{:05}", shard, count));
  replace_all(name, "{SHARD_INDEX}", fmt::format("{:05}", shard));
  replace_all(name, "{NUM_SHARDS}", fmt::format("{:05}", count));
  return name;
}

std::vector<TfdsSlice> parse_tfds_split(std::string_view text, const std::string& where) {
  std::vector<TfdsSlice> slices;
  for (const std::string& part : split(text, '+')) {
    slices.push_back(parse_slice(trim(part), where));
    if (slices.back().split.empty())
      throw usage_error(fmt::format("a split of `{}` has no name", text), where, "write it as train or train+validation");
  }
  return slices;
}

std::optional<TfdsRange> resolve_tfds_slice(const TfdsSlice& slice, const std::vector<int64_t>& shard_lengths,
                                            TfdsRounding rounding) {
  const int64_t samples = std::accumulate(shard_lengths.begin(), shard_lengths.end(), int64_t{0});
  const auto resolve = [&](double bound) -> std::optional<int64_t> {
    switch (slice.unit) {
      case TfdsSlice::Unit::kSamples: return static_cast<int64_t>(bound);
      case TfdsSlice::Unit::kPercent: return resolve_percent(bound, samples, rounding);
      case TfdsSlice::Unit::kShards: break;
    }
    return samples_before(bound, shard_lengths);
  };
  std::optional<int64_t> from = slice.from ? resolve(*slice.from) : 0, to = slice.to ? resolve(*slice.to) : samples;
  // The shard before the first: "train[-1shard]" is the last.
  if (slice.unit == TfdsSlice::Unit::kShards && slice.to == 0.0) to = samples;
  if (!from || !to || std::abs(*from) > samples || std::abs(*to) > samples) return std::nullopt;
  if (*from < 0) *from += samples;
  if (*to < 0) *to += samples;
  return TfdsRange{*from, std::max(*from, *to)};
}

TfdsRange even_tfds_part(const TfdsRange& range, int64_t index, int64_t count, bool drop_remainder) {
  const int64_t samples = range.to - range.from, each = samples / count, rest = drop_remainder ? 0 : samples % count;
  const auto begin = [&](int64_t part) { return range.from + each * part + std::min(part, rest); };
  return {begin(index), begin(index + 1)};
}

}  // namespace tessera::data
