#pragma once
// Labels of samples that come with numbers or names, and the arguments with which a source's call says what is where.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/call.h"
#include "data/index/shards.h"
#include "data/source.h"

namespace tessera::data {

// image=…, label=…, label_offset=…, text=… or text=[…, …], classes=N or classes=FILE.
struct FieldArguments {
  std::optional<std::string> image, label;
  bool no_label = false;  // label=none
  std::vector<std::string> texts;
  int64_t label_offset = 0;
  std::string classes;
};
FieldArguments read_field_arguments(CallReader& call);

// From what a sample's label is in the file to its class.
class Labels {
 public:
  Labels() = default;  // there are none
  // Numbers are indices of `names` once `offset` is added; texts are these names.
  Labels(std::vector<std::string> names, int64_t offset);
  // From the arguments, or where they have no `classes` from what was found. Throws a usage Error for a names file that cannot
  // be used and a data Error for labels that are no classes.
  Labels(const FieldArguments& arguments, const LabelsFound& found, const std::string& where);

  const std::vector<std::string>& names() const { return names_; }
  // The class of a label, or why it is none.
  [[nodiscard]] std::optional<std::string> set(int64_t value, Sample& sample) const;
  [[nodiscard]] std::optional<std::string> set(std::string_view name, Sample& sample) const;
  // How many samples of `ranges` each class has, by the labels in the index; nothing where there are no classes, or the index
  // cannot tell.
  std::optional<std::vector<int64_t>> class_sizes(const ShardIndex& index, const std::vector<SampleRange>& ranges) const;
  // The class of each sample of `ranges`, -1 where its label is no class; nothing where class_sizes() tells nothing.
  std::optional<std::vector<int32_t>> of_samples(const ShardIndex& index, const std::vector<SampleRange>& ranges) const;

 private:
  std::vector<std::string> names_;
  std::map<std::string, int32_t, std::less<>> by_name_;
  int64_t offset_ = 0;
};

// Names, one a line, of classes=FILE; or "0" … "N-1" of classes=N. At least one.
std::vector<std::string> read_classes(const std::string& argument, const std::string& where);
// Throws a usage Error when a name stands twice.
std::map<std::string, int32_t, std::less<>> index_of_names(const std::vector<std::string>& names, const std::string& where);

}  // namespace tessera::data
