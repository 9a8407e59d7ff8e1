#pragma once
// Labels of samples that come with numbers or names, and the arguments with which a source's call says what is where.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/call.h"
#include "data/index/shards.h"
#include "data/source.h"

namespace tessera::data {

// image=…, label=… or labels=…, label_offset=…, text=… or text=[…, …], classes=N or classes=FILE.
struct FieldArguments {
  std::optional<std::string> image, label;  // label: also what labels=… names, where that is one field
  bool no_label = false;                    // label=none
  bool several_labels = false;              // labels=…: a sample has any number of them
  std::vector<std::string> label_fields;    // labels=[…, …]: fields that say yes or no, each a class; of csv alone
  std::vector<std::string> texts;
  int64_t label_offset = 0;
  std::string classes;

  // Whether the classes are to be found among the labels.
  bool finds_classes() const { return classes.empty() && label_fields.empty(); }
  // "label=NAME" or "labels=NAME": what an index depends on.
  std::string label_identity(const std::string& name) const;
};
FieldArguments read_field_arguments(CallReader& call, bool takes_label_fields = false);

// Maps a sample's label, as its file has it, to a class.
class Labels {
 public:
  Labels() = default;  // there are none
  // Numbers are indices of `names` once `offset` is added; texts are these names.
  Labels(std::vector<std::string> names, int64_t offset, bool several);
  // From the arguments, or where they have no `classes` from what was found. Throws a usage Error for a names file that cannot
  // be used and a data Error for labels that are no classes.
  Labels(const FieldArguments& arguments, const LabelsFound& found, const std::string& where);

  const std::vector<std::string>& names() const { return names_; }
  bool several() const { return several_; }  // a sample has any number of labels
  // The class of a label, or why it is none. Where samples have several, it joins those of the sample.
  [[nodiscard]] std::optional<std::string> set(int64_t value, Sample& sample) const;
  [[nodiscard]] std::optional<std::string> set(std::string_view name, Sample& sample) const;
  // How many samples of `ranges` each class has, by the labels in the index; nothing where there are no classes, or the index
  // cannot tell.
  std::optional<std::vector<int64_t>> class_sizes(const ShardIndex& index, const std::vector<SampleRange>& ranges) const;
  // The class of each sample of `ranges`, -1 where its label is no class; nothing where class_sizes() tells nothing, and where
  // samples have several.
  std::optional<std::vector<int32_t>> of_samples(const ShardIndex& index, const std::vector<SampleRange>& ranges) const;
  // Where samples have several labels: each sample's labels that are classes, rising.
  std::optional<std::vector<std::vector<int32_t>>> lists_of_samples(const ShardIndex& index,
                                                                    const std::vector<SampleRange>& ranges) const;

 private:
  void take(int32_t class_index, Sample& sample) const;
  std::optional<std::string> set(const CodedLabel& label, const std::vector<std::string>& texts, Sample& sample) const;

  std::vector<std::string> names_;
  std::map<std::string, int32_t, std::less<>> by_name_;
  int64_t offset_ = 0;
  bool several_ = false;
};

// Names, one a line, of classes=FILE; or "0" … "N-1" of classes=N. At least one.
std::vector<std::string> read_classes(const std::string& argument, const std::string& where);
// Throws a usage Error when a name stands twice.
std::map<std::string, int32_t, std::less<>> index_of_names(const std::vector<std::string>& names, const std::string& where);

}  // namespace tessera::data
