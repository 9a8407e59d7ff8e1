#include "data/relabelled.h"

#include <algorithm>
#include <map>
#include <utility>

#include "data/forwarding_source.h"

namespace tessera::data {
namespace {

class Relabelled final : public ForwardingSource {
 public:
  // labels[l]: where the class of the source's label l stands in `classes`.
  Relabelled(std::shared_ptr<const Source> source, std::vector<std::string> classes, std::vector<int32_t> labels)
      : ForwardingSource(std::move(source)), classes_(std::move(classes)), labels_(std::move(labels)) {}

  const std::vector<std::string>& class_names() const override { return classes_; }
  std::optional<std::vector<int64_t>> class_sizes() const override {
    const auto own = source_->class_sizes();
    if (!own) return std::nullopt;
    std::vector<int64_t> sizes(classes_.size());
    for (size_t l = 0; l < own->size(); ++l) sizes[static_cast<size_t>(labels_[l])] = (*own)[l];
    return sizes;
  }
  std::optional<std::vector<int32_t>> labels() const override {
    auto own = source_->labels();
    if (!own) return std::nullopt;
    for (int32_t& label : *own) label = label < 0 ? label : labels_[static_cast<size_t>(label)];
    return own;
  }
  std::optional<std::vector<std::vector<int32_t>>> label_lists() const override {
    auto own = source_->label_lists();
    if (!own) return std::nullopt;
    for (std::vector<int32_t>& list : *own) rename(list);
    return own;
  }
  void prefetch(int64_t index) const override { source_->prefetch(index); }
  // A sample that can't be read has a label too, if it is known.
  std::optional<std::string> read(int64_t index, Sample& sample) const override {
    sample.label = 0;
    sample.labels.clear();
    auto reason = source_->read(index, sample);
    if (multi_label()) {
      rename(sample.labels);
    } else {
      sample.label = labels_[static_cast<size_t>(sample.label)];
    }
    return reason;
  }

 private:
  void rename(std::vector<int32_t>& list) const {
    for (int32_t& label : list) label = labels_[static_cast<size_t>(label)];
    std::ranges::sort(list);
  }
  std::vector<std::string> classes_;
  std::vector<int32_t> labels_;
};

}  // namespace

std::shared_ptr<const Source> relabelled(const std::shared_ptr<const Source>& source, const std::vector<std::string>& classes) {
  const std::vector<std::string>& own = source->class_names();
  if (own == classes) return source;
  if (own.empty()) return nullptr;
  std::map<std::string, int32_t> places;
  for (size_t i = 0; i < classes.size(); ++i) places.emplace(classes[i], static_cast<int32_t>(i));
  std::vector<int32_t> labels;
  for (const std::string& name : own) {
    const auto found = places.find(name);
    if (found == places.end()) return nullptr;
    labels.push_back(found->second);
  }
  return std::make_shared<Relabelled>(source, classes, std::move(labels));
}

}  // namespace tessera::data
