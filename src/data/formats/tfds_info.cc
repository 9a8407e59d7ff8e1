#include "data/formats/tfds_info.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"

namespace tessera::data {
namespace {

using Json = nlohmann::json;

constexpr const char* kDefaultTemplate = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}";

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw data_error(fmt::format("`{}`: {}", path, what), {}, "prepare the data set again with a current TFDS");
}

Json parse(const std::string& path, std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) fail(path, "it is no JSON object");
  return json;
}

std::string text_of(const Json& object, const char* key, std::string fallback = {}) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : fallback;
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
  if (!json.is_object()) fail(path, "a split is no object");
  TfdsSplit split{text_of(json, "name"), text_of(json, "filepathTemplate", kDefaultTemplate), {}};
  if (const auto lengths = json.find("shardLengths"); lengths != json.end() && lengths->is_array()) {
    for (const Json& one : *lengths) {
      const auto length = integer_of(one);
      if (!length || *length < 0 || *length > (int64_t{1} << 50))
        fail(path, fmt::format("shardLengths of `{}` are no numbers", split.name));
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
    if (item.is_object()) keys.push_back(text_of(item, "featureKey"));
  }
  return keys;
}

void add_features(const Json& feature, const std::string& key, std::vector<TfdsFeature>& out, int depth) {
  constexpr int kMostDepth = 32;
  if (!feature.is_object() || depth > kMostDepth) return;
  if (const auto dict = feature.find("featuresDict"); dict != feature.end() && dict->is_object()) {
    const auto inner = dict->find("features");
    if (inner == dict->end() || !inner->is_object()) return;
    for (const auto& [name, one] : inner->items()) add_features(one, key.empty() ? name : key + "/" + name, out, depth + 1);
    return;
  }
  if (key.empty()) return;
  TfdsFeature found{key, TfdsKind::kOther, text_of(feature, "pythonClassName"), 0};
  found.type = found.type.substr(found.type.rfind('.') + 1);
  if (found.type == "Image" || feature.contains("image")) found.kind = TfdsKind::kImage;
  if (found.type == "Text" || feature.contains("text")) found.kind = TfdsKind::kText;
  if (const auto label = feature.find("classLabel"); label != feature.end()) {
    found.kind = TfdsKind::kClassLabel;
    if (label->is_object() && label->contains("numClasses")) found.num_classes = integer_of((*label)["numClasses"]).value_or(0);
  }
  out.push_back(std::move(found));
}

void replace_all(std::string& text, std::string_view from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
}

std::optional<TfdsSlice::Bound> parse_bound(std::string_view text, std::string_view whole, const std::string& where) {
  text = trim(text);
  if (text.empty()) return std::nullopt;
  TfdsSlice::Bound bound;
  std::string_view digits = text;
  bound.percent = text.back() == '%';
  if (bound.percent) digits.remove_suffix(1);
  std::string plain;
  for (const char c : digits) {
    if (c != '_') plain += c;
  }
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), bound.value);
  if (plain.empty() || error != std::errc{} || end != plain.data() + plain.size()) {
    throw usage_error(fmt::format("cannot read the bound `{}` of the split `{}`", text, whole), where,
                      "bounds are numbers of samples or whole percentages: train[:1000], train[10%:90%]");
  }
  return bound;
}

TfdsSlice parse_slice(std::string_view text, const std::string& where) {
  const size_t open = text.find('[');
  if (open == std::string_view::npos) return {std::string(text), {}, {}};
  const std::string_view inside = text.substr(open + 1);
  const size_t colon = inside.find(':');
  if (inside.empty() || inside.back() != ']' || colon == std::string_view::npos)
    throw usage_error(fmt::format("cannot read the split `{}`", text), where, "write it as train[10%:90%] or train[:1000]");
  return {std::string(trim(text.substr(0, open))), parse_bound(inside.substr(0, colon), text, where),
          parse_bound(inside.substr(colon + 1, inside.size() - colon - 2), text, where)};
}

// Of n samples; nothing where it lies outside.
std::optional<int64_t> resolve(const TfdsSlice::Bound& bound, int64_t n) {
  if (bound.percent) {
    if (std::abs(bound.value) > 100) return std::nullopt;
    const double position = static_cast<double>(bound.value) * static_cast<double>(n) / 100.0;
    const auto at = static_cast<int64_t>(std::nearbyint(position));
    return at < 0 ? n + at : at;
  }
  if (std::abs(bound.value) > n) return std::nullopt;
  return bound.value < 0 ? n + bound.value : bound.value;
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
  TfdsInfo info{text_of(json, "name"), text_of(json, "fileFormat", "tfrecord"), {}, parse_supervised(json)};
  if (info.name.empty()) fail(path, "it has no `name`");
  if (const auto splits = json.find("splits"); splits != json.end() && splits->is_array()) {
    for (const Json& split : *splits) info.splits.push_back(parse_split(path, split));
  }
  if (info.splits.empty()) fail(path, "it has no splits");
  return info;
}

std::vector<TfdsFeature> parse_tfds_features(const std::string& path, std::string_view text) {
  std::vector<TfdsFeature> features;
  add_features(parse(path, text), "", features, 0);
  if (features.empty()) fail(path, "it has no features");
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

std::optional<TfdsRange> resolve_tfds_slice(const TfdsSlice& slice, int64_t samples) {
  const auto from = slice.from ? resolve(*slice.from, samples) : std::optional<int64_t>(0);
  const auto to = slice.to ? resolve(*slice.to, samples) : std::optional<int64_t>(samples);
  if (!from || !to) return std::nullopt;
  return TfdsRange{*from, std::max(*from, *to)};
}

}  // namespace tessera::data
