#include "models/timm_args.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace tessera::models {
namespace {

// Arguments that don't change what a trained model of a fixed image size computes.
constexpr std::array kFree = {
    "img_size",        "num_classes",     "in_chans",        "weight_init",   "fix_init",        "dynamic_img_size",
    "dynamic_img_pad", "strict_img_size", "drop_rate",       "pos_drop_rate", "patch_drop_rate", "proj_drop_rate",
    "attn_drop_rate",  "drop_path_rate",  "drop_block_rate", "nlhb",          "head_init_scale", "zero_init_last"};

}  // namespace

Json parse_object(std::string_view text, const std::string& where) {
  Json json = parse_ordered_json(text, where, {.bytes = size_t{16} << 20});
  if (!json.is_object()) throw data_error("this is not a JSON object", where);
  return json;
}

void bad_entry(const std::string& key, const Json& value, const std::string& wanted, const std::string& where) {
  throw data_error(fmt::format("`{}` is {}, wanted {}", key, value.dump(), wanted), where);
}

std::pair<int64_t, int64_t> get_image_size(const Json& object, const std::string& key, std::pair<int64_t, int64_t> fallback,
                                           const std::string& where) {
  if (!object.contains(key) || object.at(key).is_null()) return fallback;
  const Json& size = object.at(key);
  const auto whole = [](const Json& side) { return detail::is_kind(side, int64_t{}); };
  if (whole(size)) return {size.get<int64_t>(), size.get<int64_t>()};
  if (!size.is_array() || size.size() != 2 || !whole(size[0]) || !whole(size[1])) {
    bad_entry(key, size, "a number or [height, width]", where);
  }
  return {size[0].get<int64_t>(), size[1].get<int64_t>()};
}

std::vector<std::string> class_names(const Json& given, const std::string& key, int64_t classes, const std::string& where) {
  const auto wrong_count = [&](int64_t count) {
    throw data_error(fmt::format("`{}` has {} names for {} classes", key, count, classes), where);
  };
  std::vector<std::string> names;
  if (given.is_array()) {
    for (const Json& name : given) names.push_back(name.is_string() ? name.get<std::string>() : name.dump());
  } else if (given.is_object()) {
    if (std::ssize(given) > classes) wrong_count(std::ssize(given));
    // Json's own search goes through the keys one by one.
    std::unordered_map<std::string_view, const Json*> by_key;
    for (const auto& [index, name] : given.get_ref<const Json::object_t&>()) by_key.emplace(index, &name);
    for (int64_t i = 0; i < classes; ++i) {
      const std::string index = std::to_string(i);
      const auto found = by_key.find(index);
      if (found == by_key.end() || found->second->is_null()) {
        names.push_back(index);
      } else if (found->second->is_string()) {
        names.push_back(found->second->get<std::string>());
      } else {
        bad_entry(index, *found->second, "text", where);
      }
    }
  }
  if (!names.empty() && std::ssize(names) != classes) wrong_count(std::ssize(names));
  return names;
}

int64_t timm_hidden(int64_t width, double ratio) {
  const double hidden = static_cast<double>(width) * ratio;
  return hidden > 0 && hidden < 1e12 ? static_cast<int64_t>(hidden) : 0;
}

double timm_ratio(int64_t width, int64_t hidden) {
  double ratio = static_cast<double>(hidden) / static_cast<double>(width);
  while (static_cast<int64_t>(static_cast<double>(width) * ratio) < hidden) ratio = std::nextafter(ratio, ratio + 1);
  return ratio;
}

int64_t timm_divisible(int64_t channels) {
  const int64_t nearest = std::max<int64_t>(8, (channels + 4) / 8 * 8);
  return 10 * nearest < 9 * channels ? nearest + 8 : nearest;
}

std::string TimmArgs::word(const char* key, const char* fallback, const std::vector<TimmWord>& words) {
  const std::string value = text(key, fallback);
  std::vector<std::string> known;
  for (const TimmWord& word : words) {
    if (value == word.timm) return word.ours;
    known.push_back(fmt::format("\"{}\"", word.timm));
  }
  throw data_error(fmt::format("`{}` is \"{}\", which this program does not have", key, value), where_,
                   "known: " + join(known, ", "));
}

Json TimmArgs::raw(const char* key) {
  known_.push_back(key);
  return args_.value(key, Json());
}

void TimmArgs::finish() const {
  for (const auto& [key, value] : args_.items()) {
    if (std::ranges::count(kFree, key) > 0 || std::ranges::count(known_, key) > 0) continue;
    if (value.is_null() || value == false) continue;  // an extra that is switched off
    if (key == "norm_layer" && (value == "layernorm" || value == "batchnorm2d")) continue;
    throw data_error(fmt::format("the model argument `{} = {}` has no counterpart in this program", key, value.dump()), where_);
  }
}

}  // namespace tessera::models
