#include "data/records/table_labels.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/printable.h"
#include "base/text/text.h"
#include "data/records/text_values.h"

namespace tessera::data {
namespace {

// Nothing where it says neither.
std::optional<bool> yes_or_no(std::string_view text) {
  constexpr std::array<std::string_view, 5> kYes = {"1", "1.0", "true", "True", "TRUE"};
  constexpr std::array<std::string_view, 8> kNo = {"", "0", "0.0", "-1", "-1.0", "false", "False", "FALSE"};
  if (std::ranges::find(kYes, text) != kYes.end()) return true;
  return std::ranges::find(kNo, text) != kNo.end() ? std::optional(false) : std::nullopt;
}

}  // namespace

std::string TableLabels::identity() const {
  if (!columns.empty()) return fmt::format("columns {}", fmt::join(columns, ", "));
  return delimiter.empty() ? name : fmt::format("{} at {}", name, delimiter);
}

std::string read_label_delimiter(CallReader& call, const FieldArguments& arguments) {
  const bool said = call.has("label_delim");
  const std::string text = call.text("label_delim", " ");
  if (said && (!arguments.several_labels || !arguments.label_fields.empty())) {
    call.fail("label_delim= is for one column that holds several labels", "name it with labels=COLUMN");
  }
  if (text.empty()) call.fail("label_delim= is empty", "the text between two labels, as label_delim=\"|\"");
  if (!arguments.several_labels || !arguments.label_fields.empty()) return {};
  return text == "tab" || text == "\\t" ? "\t" : text;
}

JsonField table_label(std::string value) {
  if (value.empty()) return {};
  const auto number = parse_index(value);
  if (number && std::to_string(*number) == value) return {JsonField::Kind::kInteger, std::move(value), *number};
  return {JsonField::Kind::kText, std::move(value)};
}

JsonField table_label_list(const std::string& text, const std::string& delimiter) {
  JsonField out{JsonField::Kind::kIntegers, text, 0};
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(delimiter, begin), text.size());
    std::string label(trim(text.substr(begin, end - begin)));
    begin = end + delimiter.size();
    if (label.empty()) continue;
    const JsonField one = table_label(label);
    if (one.kind != JsonField::Kind::kInteger) out.kind = JsonField::Kind::kTexts;
    out.integers.push_back(one.integer);
    out.texts.push_back(std::move(label));
  }
  out.kind == JsonField::Kind::kTexts ? out.integers.clear() : out.texts.clear();
  return out;
}

std::optional<JsonField> columns_that_say_yes(const std::vector<std::string>& columns, const std::vector<std::string>& values,
                                              std::string* problem) {
  JsonField out{JsonField::Kind::kTexts, {}, 0};
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto yes = yes_or_no(values[i]);
    if (!yes) {
      if (problem)
        *problem = fmt::format("its column `{}` has `{}`, which is neither 1 nor 0", one_line(columns[i]), one_line(values[i]));
      return std::nullopt;
    }
    if (*yes) out.texts.push_back(columns[i]);
  }
  return out;
}

}  // namespace tessera::data
