#include "data/index/label_column.h"

#include <algorithm>

#include "data/formats/varint.h"

namespace tessera::data {
namespace {

constexpr int64_t kMaxNumber = int64_t{1} << 60;

uint64_t zigzag(int64_t value) { return static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63); }
int64_t unzigzag(uint64_t code) { return static_cast<int64_t>(code >> 1) ^ -static_cast<int64_t>(code & 1); }

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
  for (const CodedLabel& label : labels_) {
    const bool small = -kMaxNumber < label.value && label.value < kMaxNumber;
    switch (label.kind) {
      case CodedLabel::Kind::kNone: put_varint(out, 0); break;
      case CodedLabel::Kind::kNumber: put_varint(out, small ? 2 * zigzag(label.value) + 1 : 0); break;
      case CodedLabel::Kind::kName: put_varint(out, name_codes[static_cast<size_t>(label.value)]); break;
    }
  }
  return out;
}

std::optional<std::vector<CodedLabel>> decode_labels(std::string_view bytes, int64_t count, int64_t names) {
  if (count < 0 || static_cast<uint64_t>(count) > bytes.size()) return std::nullopt;
  std::vector<CodedLabel> labels(static_cast<size_t>(count));
  for (CodedLabel& label : labels) {
    uint64_t code = 0;
    if (!take_varint(bytes, code)) return std::nullopt;
    if (code == 0) continue;
    if (code % 2 == 1) {
      label = {CodedLabel::Kind::kNumber, unzigzag(code / 2)};
    } else {
      label = {CodedLabel::Kind::kName, static_cast<int64_t>(code / 2 - 1)};
      if (label.value >= names) return std::nullopt;
    }
  }
  if (!bytes.empty()) return std::nullopt;
  return labels;
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
