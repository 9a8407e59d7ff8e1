#include "data/records/example_source.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "data/formats/example.h"

namespace tessera::data {
namespace {

class ExampleSource final : public Source {
 public:
  ExampleSource(std::string name, std::unique_ptr<RecordSet> records, ExampleFields fields, Labels labels,
                std::vector<SampleRange> ranges)
      : name_(std::move(name)),
        records_(std::move(records)),
        fields_(std::move(fields)),
        labels_(std::move(labels)),
        ranges_(std::move(ranges)) {
    if (ranges_.empty()) ranges_.push_back({0, records_->index().size()});
    first_ = {0};
    for (const SampleRange& range : ranges_) first_.push_back(first_.back() + range.end - range.begin);
    keys_ = {fields_.image, fields_.label};
    keys_.insert(keys_.end(), fields_.texts.begin(), fields_.texts.end());
  }

  int64_t size() const override { return first_.back(); }
  const std::vector<std::string>& class_names() const override { return labels_.names(); }
  std::vector<std::string> text_fields() const override { return fields_.texts; }
  std::string id(int64_t index) const override { return records_->index().id(record_of(index)); }
  const std::string& name() const override { return name_; }
  SourceFacts facts() const override { return records_->index().facts(); }
  std::vector<std::string> shard_paths() const override { return records_->index().paths(); }
  std::optional<uint64_t> stamp(int64_t index) const override { return records_->index().stamp(record_of(index)); }
  std::optional<Hash128> fingerprint() const override { return records_->index().fingerprint(); }
  std::optional<std::vector<int64_t>> class_sizes() const override { return labels_.class_sizes(records_->index(), ranges_); }
  bool multi_label() const override { return labels_.several(); }
  std::optional<std::vector<int32_t>> labels() const override { return labels_.of_samples(records_->index(), ranges_); }
  std::optional<std::vector<std::vector<int32_t>>> label_lists() const override {
    return labels_.lists_of_samples(records_->index(), ranges_);
  }
  void prefetch(int64_t index) const override { records_->prefetch(record_of(index)); }
  std::optional<std::string> read(int64_t index, Sample& sample) const override;
  std::vector<int64_t> stretches() const override;

 private:
  int64_t record_of(int64_t index) const {
    const auto range = static_cast<size_t>(std::ranges::upper_bound(first_, index) - first_.begin() - 1);
    return ranges_[range].begin + index - first_[range];
  }
  std::optional<std::string> take(const std::vector<Feature>& features, Sample& sample) const;
  std::optional<std::string> take_label(const Feature& feature, Sample& sample) const;
  std::optional<std::string> take_labels(const Feature& feature, Sample& sample) const;

  std::string name_;
  std::unique_ptr<RecordSet> records_;
  ExampleFields fields_;
  std::vector<std::string> keys_;  // image, label, texts
  Labels labels_;
  std::vector<SampleRange> ranges_;
  std::vector<int64_t> first_;  // sample of each range, and the number of all
};

std::vector<int64_t> ExampleSource::stretches() const {
  const std::vector<int64_t> records = records_->stretches();
  if (records.empty()) return {};
  std::vector<int64_t> out;
  for (size_t i = 0; i < ranges_.size(); ++i) {
    const SampleRange& range = ranges_[i];
    if (range.begin == range.end) continue;
    out.push_back(first_[i]);
    for (auto it = std::ranges::upper_bound(records, range.begin); it != records.end() && *it < range.end; ++it)
      out.push_back(first_[i] + *it - range.begin);
  }
  return out;
}

std::optional<std::string> ExampleSource::read(int64_t index, Sample& sample) const {
  sample.labels.clear();
  std::string_view record;
  if (auto reason = records_->read(record_of(index), sample, record)) return reason;
  const auto features = parse_example(record, keys_);
  if (!features) return fmt::format("the record is no tf.train.Example, or has more than {} values in one", kMaxExampleParts);
  return take(*features, sample);
}

std::optional<std::string> ExampleSource::take(const std::vector<Feature>& features, Sample& sample) const {
  const Feature& image = features[0];
  if (!fields_.label.empty()) {
    if (auto reason = take_label(features[1], sample)) return reason;
  }
  if (image.kind != FeatureKind::kBytes || image.count != 1) {
    return fmt::format(
        "its feature `{}` is not one image but {}", fields_.image,
        image.kind == FeatureKind::kAbsent ? "absent" : fmt::format("{} {}", image.count, feature_kind_name(image.kind)));
  }
  sample.image = {reinterpret_cast<const uint8_t*>(image.bytes.data()), image.bytes.size()};
  sample.texts.resize(fields_.texts.size());
  for (size_t i = 0; i < fields_.texts.size(); ++i) {
    const Feature& text = features[i + 2];
    if (text.kind != FeatureKind::kBytes) return fmt::format("it has no text `{}`", fields_.texts[i]);
    sample.texts[i] = text.values;
  }
  return std::nullopt;
}

std::optional<std::string> ExampleSource::take_labels(const Feature& feature, Sample& sample) const {
  if (feature.kind == FeatureKind::kFloats) return fmt::format("its labels `{}` are floats", fields_.label);
  std::optional<std::string> reason;
  for (size_t i = 0; i < feature.integers.size() && !reason; ++i) reason = labels_.set(feature.integers[i], sample);
  for (size_t i = 0; i < feature.values.size() && !reason; ++i) reason = labels_.set(feature.values[i], sample);
  return reason;
}

std::optional<std::string> ExampleSource::take_label(const Feature& feature, Sample& sample) const {
  if (labels_.several()) return take_labels(feature, sample);
  if (feature.count > 1) {
    return fmt::format("it has {0} labels `{1}`, not one; labels={1} takes several labels an image", feature.count,
                       fields_.label);
  }
  if (feature.kind == FeatureKind::kIntegers && feature.count == 1) return labels_.set(feature.integer, sample);
  if (feature.kind == FeatureKind::kBytes && feature.count == 1) return labels_.set(feature.bytes, sample);
  return fmt::format("it has no label `{}`", fields_.label);
}

// The features that a record has, without their kinds.
std::vector<std::string> names_of(const std::vector<std::string>& keys) {
  std::vector<std::string> names;
  for (const std::string& key : keys) names.push_back(key.substr(0, key.rfind(" (")));
  return names;
}

}  // namespace

ExampleFields choose_fields(const FieldArguments& arguments, std::string_view first_record, const std::string& where) {
  const std::vector<std::string> keys = example_keys(first_record);
  const std::vector<std::string> names = names_of(keys);
  if (keys.empty()) {
    throw data_error("the records are no tf.train.Examples", where,
                     "other records cannot be read: write them as Examples with an image's bytes and a label");
  }
  const auto has = [&](const std::string& name) { return std::ranges::find(names, name) != names.end(); };
  const auto need = [&](const std::string& name, const char* argument) {
    if (has(name)) return;
    const auto near = nearest_name(name, names);
    throw data_error(fmt::format("the records have no feature `{}`", name), where,
                     near ? fmt::format("did you mean {}={}?", argument, *near) : "they have: " + one_line(join(keys, ", ")));
  };
  ExampleFields fields;
  fields.image = arguments.image.value_or(has("image/encoded") ? "image/encoded" : "image");
  need(fields.image, "image");
  if (!arguments.no_label) {
    fields.label = arguments.label.value_or(has("image/class/label") ? "image/class/label" : has("label") ? "label" : "");
    if (arguments.label) need(fields.label, "label");
  }
  fields.texts = arguments.texts;
  for (const std::string& text : fields.texts) need(text, "text");
  return fields;
}

FindLabel example_label_finder(const std::string& key, bool list) {
  return [key, list](Window& file, const Extent& record, LabelColumn& column) {
    const std::string entries = read_example_entries(file, record, key);
    const auto features = parse_example(entries, {key});
    const Feature label = features ? (*features)[0] : Feature();
    if (list) {
      for (const int64_t one : label.integers) column.add(one);
      for (const std::string_view one : label.values) column.add(one);
      column.end_list();
      return;
    }
    if (label.kind == FeatureKind::kIntegers && label.count == 1) {
      column.add(label.integer);
    } else if (label.kind == FeatureKind::kBytes && label.count == 1) {
      column.add(label.bytes);
    } else {
      column.add_none();
    }
  };
}

std::shared_ptr<const Source> open_examples(std::string name, std::unique_ptr<RecordSet> records, ExampleFields fields,
                                            Labels labels, std::vector<SampleRange> ranges) {
  return std::make_shared<ExampleSource>(std::move(name), std::move(records), std::move(fields), std::move(labels),
                                         std::move(ranges));
}

}  // namespace tessera::data
