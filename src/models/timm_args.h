#pragma once
// Arguments of timm's model classes as JSON: what config.json and the tables of named models hold.

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/json.h"
#include "base/text/text.h"

namespace tessera::models {

using Json = nlohmann::ordered_json;

// A data error at `where` when the text is no JSON object.
Json parse_object(std::string_view text, const std::string& where);

[[noreturn]] void bad_entry(const std::string& key, const Json& value, const std::string& wanted, const std::string& where);

// The largest whole number in a description of a model: sizes multiply, and no product of three overflows.
inline constexpr int64_t kMaxWhole = int64_t{1} << 21;

namespace detail {
inline bool is_kind(const Json& v, bool) { return v.is_boolean(); }
inline bool is_kind(const Json& v, int64_t) {
  const double number = v.is_number_integer() ? v.get<double>() : NAN;
  return -kMaxWhole <= number && number <= kMaxWhole;
}
inline bool is_kind(const Json& v, double) { return v.is_number(); }
inline bool is_kind(const Json& v, const std::string&) { return v.is_string(); }
template <class T>
bool is_kind(const Json& v, const std::vector<T>&) {
  return v.is_array() && std::all_of(v.begin(), v.end(), [](const Json& item) { return is_kind(item, T()); });
}
inline const char* kind_name(bool) { return "true or false"; }
inline const char* kind_name(int64_t) { return "a whole number of at most 2097152"; }
inline const char* kind_name(double) { return "a number"; }
inline const char* kind_name(const std::string&) { return "text"; }
inline const char* kind_name(const std::vector<int64_t>&) { return "a list of whole numbers"; }
inline const char* kind_name(const std::vector<double>&) { return "a list of numbers"; }
}  // namespace detail

// An entry of `object`, or the fallback where there is none or it is null. Of another kind: a data error that names it.
template <class T>
T get(const Json& object, const std::string& key, T fallback, const std::string& where) {
  if (!object.contains(key) || object.at(key).is_null()) return fallback;
  const Json& value = object.at(key);
  if (!detail::is_kind(value, fallback)) bad_entry(key, value, detail::kind_name(fallback), where);
  return value.get<T>();
}

// {height, width} of an entry that is one number or [height, width]; the fallback where there is none or it is null.
std::pair<int64_t, int64_t> get_image_size(const Json& object, const std::string& key, std::pair<int64_t, int64_t> fallback,
                                           const std::string& where);

// Names of classes by index, of a list or of an object from index to name; none of anything else. A data error where there are
// others than `classes`.
std::vector<std::string> class_names(const Json& names, const std::string& key, int64_t classes, const std::string& where);

// timm's word for an option's value, and ours.
struct TimmWord {
  const char *timm, *ours;
};

// width * ratio, truncated as timm does; 0 where it is no size.
int64_t timm_hidden(int64_t width, double ratio);
// The ratio that gives `hidden`.
double timm_ratio(int64_t width, int64_t hidden);

// timm's make_divisible(channels, 8): the nearest multiple of 8, one more where that would lose over a tenth.
int64_t timm_divisible(int64_t channels);

// Arguments of one class, read one by one; `where` is for messages.
class TimmArgs {
 public:
  TimmArgs(std::string_view json, std::string where) : args_(parse_object(json, where)), where_(std::move(where)) {}

  template <class T>
  T get(const char* key, T fallback) {
    known_.push_back(key);
    return models::get(args_, key, std::move(fallback), where_);
  }
  std::string text(const char* key, const char* fallback) { return get<std::string>(key, fallback); }
  // A word of the table, translated.
  std::string word(const char* key, const char* fallback, const std::vector<TimmWord>& words);
  bool has(const char* key) const { return args_.contains(key); }
  // The entry as it is; null where there is none.
  Json raw(const char* key);
  const std::string& where() const { return where_; }

  // Throws a data error for an argument that was not asked for and changes what a trained model computes.
  void finish() const;

 private:
  Json args_;
  std::string where_;
  std::vector<std::string> known_;
};

}  // namespace tessera::models
