#include "data/records/text_values.h"

#include <charconv>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera::data {

std::optional<int64_t> parse_index(std::string_view text) {
  text = trim(text);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

namespace {

std::optional<std::string> set_json_labels(const Labels& labels, const std::string& name, const JsonField& field,
                                           Sample& sample) {
  sample.labels.clear();
  std::optional<std::string> reason;
  switch (field.kind) {
    case JsonField::Kind::kAbsent: return std::nullopt;
    case JsonField::Kind::kInteger: return labels.set(field.integer, sample);
    case JsonField::Kind::kText: return labels.set(field.text, sample);
    case JsonField::Kind::kIntegers:
      for (size_t i = 0; i < field.integers.size() && !reason; ++i) reason = labels.set(field.integers[i], sample);
      return reason;
    case JsonField::Kind::kTexts:
      for (size_t i = 0; i < field.texts.size() && !reason; ++i) reason = labels.set(field.texts[i], sample);
      return reason;
    case JsonField::Kind::kArray:
    case JsonField::Kind::kOther: break;
  }
  return fmt::format("its labels `{}` are no list of whole numbers or of texts", name);
}

}  // namespace

std::optional<std::string> set_json_label(const Labels& labels, const std::string& name, const JsonField& field,
                                          Sample& sample) {
  if (labels.several()) return set_json_labels(labels, name, field, sample);
  switch (field.kind) {
    case JsonField::Kind::kInteger: return labels.set(field.integer, sample);
    case JsonField::Kind::kText: return labels.set(field.text, sample);
    case JsonField::Kind::kAbsent: return fmt::format("it has no label `{}`", name);
    case JsonField::Kind::kTexts:
    case JsonField::Kind::kIntegers:
    case JsonField::Kind::kArray:
      return fmt::format("its label `{}` is a list; labels={} takes several labels an image", name, name);
    case JsonField::Kind::kOther: break;
  }
  return fmt::format("its label `{}` is neither a whole number nor a text", name);
}

void add_json_label(const JsonField& field, LabelColumn& column, bool list) {
  switch (field.kind) {
    case JsonField::Kind::kInteger: column.add(field.integer); break;
    case JsonField::Kind::kText: column.add(field.text); break;
    default:
      if (!list) column.add_none();
  }
  if (!list) return;
  for (const int64_t one : field.integers) column.add(one);
  for (const std::string& one : field.texts) column.add(one);
  column.end_list();
}

void keep_texts(const std::vector<TextValues>& texts, Sample& sample) {
  sample.text_memory.clear();
  for (const TextValues& values : texts) {
    for (const std::string_view text : values) sample.text_memory += text;
  }
  sample.texts.clear();
  size_t begin = 0;
  for (const TextValues& values : texts) {
    TextValues& kept = sample.texts.emplace_back();
    for (const std::string_view text : values) {
      kept.push_back(std::string_view(sample.text_memory).substr(begin, text.size()));
      begin += text.size();
    }
  }
}

std::optional<std::string> set_json_texts(const std::vector<std::string>& names, std::span<const JsonField> fields,
                                          Sample& sample) {
  std::vector<TextValues> texts(fields.size());
  for (size_t i = 0; i < fields.size(); ++i) {
    switch (fields[i].kind) {
      case JsonField::Kind::kAbsent: return fmt::format("it has no text `{}`", names[i]);
      case JsonField::Kind::kIntegers:
      case JsonField::Kind::kArray: return fmt::format("its array `{}` holds something else than texts", names[i]);
      case JsonField::Kind::kTexts: texts[i].assign(fields[i].texts.begin(), fields[i].texts.end()); break;
      default: texts[i] = {fields[i].text};
    }
  }
  keep_texts(texts, sample);
  return std::nullopt;
}

}  // namespace tessera::data
