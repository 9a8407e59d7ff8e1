#pragma once
// The labels of samples as their files have them: numbers, or texts; one of each sample, or a list of each.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

// A label as a number. A text is its place in a list that is kept elsewhere.
struct CodedLabel {
  enum class Kind { kNone, kNumber, kName };
  Kind kind = Kind::kNone;
  int64_t value = 0;  // the number, or the text's place among them
  bool operator==(const CodedLabel&) const = default;
};

// The labels of a shard's samples, one after the other.
class LabelColumn {
 public:
  void add(int64_t value);
  void add(std::string_view name);
  void add_none() { labels_.emplace_back(); }
  // In a column of lists: what was added since the last call is the list of one sample. Called for every sample.
  void end_list() { ends_.push_back(static_cast<int64_t>(labels_.size())); }

  int64_t size() const { return static_cast<int64_t>(ends_.empty() ? labels_.size() : ends_.size()); }  // samples
  int64_t least() const { return least_; }
  int64_t most() const { return most_; }  // below the least where there are no numbers
  const std::vector<std::string>& names() const { return names_; }

  // A varint for each: 0 for none, 2 z + 1 for the number whose zigzag code is z, 2 i + 2 for the text all_names[i], which are
  // sorted. None also for texts that are not among them, and for numbers from 2^60 on, which are no class. In a column of lists
  // a varint of its length comes before each list.
  std::string encode(const std::vector<std::string>& all_names) const;

 private:
  std::vector<CodedLabel> labels_;
  std::vector<int64_t> ends_;  // of each list; empty: one label of each sample
  std::vector<std::string> names_;
  std::map<std::string, int64_t, std::less<>> places_;  // in names_
  int64_t least_ = INT64_MAX, most_ = INT64_MIN;
};

// Decodes a column. Nothing when the bytes are not `count` labels whose texts are among so many names.
std::optional<std::vector<CodedLabel>> decode_labels(std::string_view bytes, int64_t count, int64_t names);

// Labels of samples, one of each or a list of each.
struct CodedLabels {
  std::vector<CodedLabel> labels;
  std::vector<int64_t> ends;  // of each list; empty: one label of each sample
  std::span<const CodedLabel> of(int64_t sample) const;
  bool operator==(const CodedLabels&) const = default;
};
// Decodes a column of `count` lists; nothing when the bytes are none.
std::optional<CodedLabels> decode_label_lists(std::string_view bytes, int64_t count, int64_t names);

// The labels that samples have.
struct LabelsFound {
  int64_t least = INT64_MAX, most = INT64_MIN;  // of the numbers
  std::set<std::string, std::less<>> names;
  void add(const LabelColumn& column);
  void merge(LabelsFound& other);  // takes its names
};

}  // namespace tessera::data
