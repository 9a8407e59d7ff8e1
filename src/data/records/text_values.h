#pragma once
// Labels and texts that come as text: in JSON, in members of an archive.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/json_fields.h"
#include "data/records/labels.h"

namespace tessera::data {

// "17\n" -> 17; nothing for other texts.
std::optional<int64_t> parse_index(std::string_view text);

// The label of a sample from a JSON field, or why it is none. `name` is the field's. Where samples have several, an array holds
// them, a number or text is one, and a field that is absent none.
[[nodiscard]] std::optional<std::string> set_json_label(const Labels& labels, const std::string& name, const JsonField& field,
                                                        Sample& sample);
// Adds the label, or with `list` the labels, of the next sample. What set_json_label() refuses counts as none.
void add_json_label(const JsonField& field, LabelColumn& column, bool list);

// Makes `texts`, a list for each field, the sample's texts; it copies them to its text_memory.
void keep_texts(const std::vector<TextValues>& texts, Sample& sample);

// The sample's texts from JSON fields with these names, or why it has none: an array of texts is as many, any other value one.
[[nodiscard]] std::optional<std::string> set_json_texts(const std::vector<std::string>& names,
                                                        std::span<const JsonField> fields, Sample& sample);

}  // namespace tessera::data
