#include "data/formats/json_fields.h"

#include <algorithm>

#include "base/text/json.h"

namespace tessera::data {
namespace {

using Json = nlohmann::json;

// Of one sample: many are read at a time.
constexpr JsonLimits kRowLimits{.bytes = size_t{16} << 20, .values = 200'000};

const Json* find(const Json& object, const std::string& name) {
  if (!object.is_object()) return nullptr;
  if (const auto it = object.find(name); it != object.end()) return &*it;
  const size_t dot = name.find('.');
  if (dot == std::string::npos) return nullptr;
  const auto it = object.find(name.substr(0, dot));
  return it == object.end() ? nullptr : find(*it, name.substr(dot + 1));
}

JsonField to_field(const Json& value) {
  if (value.is_null()) return {};
  if (value.is_string()) return {JsonField::Kind::kText, value.get<std::string>(), 0};
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto fits = [](const Json& one) {
    return one.is_number_integer() && (!one.is_number_unsigned() || one.get<uint64_t>() <= INT64_MAX);
  };
  if (fits(value)) return {JsonField::Kind::kInteger, text, value.get<int64_t>()};
  const bool texts = value.is_array() && std::ranges::all_of(value, [](const Json& item) { return item.is_string(); });
  if (texts) return {JsonField::Kind::kTexts, text, 0, value.get<std::vector<std::string>>()};
  if (value.is_array() && std::ranges::all_of(value, fits))
    return {JsonField::Kind::kIntegers, text, 0, {}, value.get<std::vector<int64_t>>()};
  return {value.is_array() ? JsonField::Kind::kArray : JsonField::Kind::kOther, text, 0};
}

}  // namespace

std::optional<std::vector<JsonField>> parse_json_fields(std::string_view text, const std::vector<std::string>& names,
                                                        std::string* problem) {
  const JsonResult read = read_json(text, kRowLimits);
  const Json& object = read.value;
  if (!object.is_object()) {
    if (problem != nullptr) *problem = read.problem.empty() ? "it is another JSON value" : read.problem;
    return std::nullopt;
  }
  std::vector<JsonField> fields;
  for (const std::string& name : names) {
    const Json* value = find(object, name);
    fields.push_back(value ? to_field(*value) : JsonField{});
  }
  return fields;
}

std::vector<std::string> json_field_names(std::string_view text) {
  std::vector<std::string> names;
  const Json object = read_json(text, kRowLimits).value;
  if (!object.is_object()) return names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names;
}

}  // namespace tessera::data
