#pragma once
// A few fields of one JSON object.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

struct JsonField {
  // kTexts and kIntegers: an array of these alone, kTexts also an empty one; kArray: another.
  enum class Kind { kAbsent, kText, kTexts, kArray, kInteger, kIntegers, kOther };
  Kind kind = Kind::kAbsent;
  std::string text;  // of a text; of any other value as JSON
  int64_t integer = 0;
  std::vector<std::string> texts = {};  // of kTexts
  std::vector<int64_t> integers = {};   // of kIntegers
};

// The fields `names`, in that order. "a.b" is the field named so or else b in a. Nothing when the text is no JSON object,
// and `problem` then says why.
std::optional<std::vector<JsonField>> parse_json_fields(std::string_view text, const std::vector<std::string>& names,
                                                        std::string* problem = nullptr);

// The names of the object's fields; empty when the text is none.
std::vector<std::string> json_field_names(std::string_view text);

}  // namespace tessera::data
