#include "data/index/label_column.h"

#include <algorithm>
#include <protozero/buffer_string.hpp>
#include <protozero/varint.hpp>

#include "data/formats/bytes/varint.h"

namespace tessera::data {
namespace {

constexpr int64_t kMaxNumber = int64_t{1} << 60;

// False when the bytes do not begin with a label whose text is among so many.
bool take_label(std::string_view& bytes, int64_t names, CodedLabel& label) {
  uint64_t code = 0;
  if (!take_varint(bytes, code)) return false;
  if (code == 0) return true;
  if (code % 2 == 1) {
    label = {CodedLabel::Kind::kNumber, protozero::decode_zigzag64(code / 2)};
    return true;
  }
  label = {CodedLabel::Kind::kName, static_cast<int64_t>(code / 2 - 1)};
  return label.value < names;
}

}  // namespace

void LabelColumn::add(int64_t value) {
  least_ = std::min(least_, value);
  most_ = std::max(most_, value);
  labels_.push_back({CodedLabel::Kind::kNumber, value});
}

void LabelColumn::add(std::string_view name) {
  auto found = places_.find(name);
  if (found == places_.end()) {
    found = places_.emplace(name, static_cast<int64_t>(names_.size())).first;
    names_.emplace_back(name);
  }
  labels_.push_back({CodedLabel::Kind::kName, found->second});
}

std::string LabelColumn::encode(const std::vector<std::string>& all_names) const {
  std::vector<uint64_t> name_codes;
  for (const std::string& name : names_) {
    const auto place = std::ranges::lower_bound(all_names, name);
    const bool known = place != all_names.end() && *place == name;
    name_codes.push_back(known ? 2 * static_cast<uint64_t>(place - all_names.begin()) + 2 : 0);
  }
  std::string out;
  const auto put = [&](uint64_t code) { protozero::add_varint_to_buffer(&out, code); };
  const auto put_label = [&](const CodedLabel& label) {
    const bool small = -kMaxNumber < label.value && label.value < kMaxNumber;
    switch (label.kind) {
      case CodedLabel::Kind::kNone: put(0); break;
      case CodedLabel::Kind::kNumber: put(small ? 2 * protozero::encode_zigzag64(label.value) + 1 : 0); break;
      case CodedLabel::Kind::kName: put(name_codes[static_cast<size_t>(label.value)]); break;
    }
  };
  if (ends_.empty()) std::ranges::for_each(labels_, put_label);
  int64_t begin = 0;
  for (const int64_t end : ends_) {
    put(static_cast<uint64_t>(end - begin));
    std::for_each(labels_.begin() + begin, labels_.begin() + end, put_label);
    begin = end;
  }
  return out;
}

std::optional<std::vector<CodedLabel>> decode_labels(std::string_view bytes, int64_t count, int64_t names) {
  if (count < 0 || static_cast<uint64_t>(count) > bytes.size()) return std::nullopt;
  std::vector<CodedLabel> labels(static_cast<size_t>(count));
  for (CodedLabel& label : labels) {
    if (!take_label(bytes, names, label)) return std::nullopt;
  }
  if (!bytes.empty()) return std::nullopt;
  return labels;
}

std::span<const CodedLabel> CodedLabels::of(int64_t sample) const {
  const auto i = static_cast<size_t>(sample);
  if (ends.empty()) return std::span(labels).subspan(i, 1);
  const auto begin = static_cast<size_t>(i == 0 ? 0 : ends[i - 1]);
  return std::span(labels).subspan(begin, static_cast<size_t>(ends[i]) - begin);
}

std::optional<CodedLabels> decode_label_lists(std::string_view bytes, int64_t count, int64_t names) {
  if (count < 0 || static_cast<uint64_t>(count) > bytes.size()) return std::nullopt;
  CodedLabels out;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t length = 0;
    if (!take_varint(bytes, length) || length > bytes.size()) return std::nullopt;
    for (; length > 0; --length) {
      if (!take_label(bytes, names, out.labels.emplace_back())) return std::nullopt;
    }
    out.ends.push_back(static_cast<int64_t>(out.labels.size()));
  }
  if (!bytes.empty()) return std::nullopt;
  return out;
}

void LabelsFound::add(const LabelColumn& column) {
  least = std::min(least, column.least());
  most = std::max(most, column.most());
  names.insert(column.names().begin(), column.names().end());
}

void LabelsFound::merge(LabelsFound& other) {
  least = std::min(least, other.least);
  most = std::max(most, other.most);
  names.merge(other.names);
}

}  // namespace tessera::data
