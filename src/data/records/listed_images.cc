#include "data/records/listed_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "data/index/shards.h"
#include "data/read_file.h"
#include "data/records/text_values.h"
#include "store/servers/buckets.h"

namespace tessera::data {
namespace {

class ListedImages final : public Source {
 public:
  ListedImages(const std::vector<std::string>& paths, ListedImagesOptions options, ShardIndexOptions index)
      : options_(std::move(options)),
        name_(options_.root.empty() ? store::parent_path(options_.pattern) : options_.root),
        names_(options_.columns.all()),
        index_(paths, std::move(index)) {}
  void set_labels(Labels labels) { labels_ = std::move(labels); }
  const LabelsFound& found() const { return index_.labels(); }

  int64_t size() const override { return index_.size(); }
  const std::vector<std::string>& class_names() const override { return labels_.names(); }
  std::vector<std::string> text_fields() const override { return options_.columns.texts; }
  const std::string& name() const override { return name_; }
  SourceFacts facts() const override {
    SourceFacts facts = index_.facts();
    facts.lists = true;
    return facts;
  }
  std::vector<std::string> shard_paths() const override { return index_.paths(); }
  std::optional<std::string> read(int64_t index, Sample& sample) const override;
  std::optional<uint64_t> stamp(int64_t index) const override;
  std::optional<Hash128> fingerprint() const override;
  std::optional<std::vector<int64_t>> class_sizes() const override { return labels_.class_sizes(index_, {{0, size()}}); }
  bool multi_label() const override { return labels_.several(); }
  std::optional<std::vector<int32_t>> labels() const override { return labels_.of_samples(index_, {{0, size()}}); }
  std::optional<std::vector<std::vector<int32_t>>> label_lists() const override {
    return labels_.lists_of_samples(index_, {{0, size()}});
  }

  std::vector<std::string> columns() const override { return options_.format.columns; }
  std::optional<std::vector<std::optional<std::string>>> column(const std::string& name) const override;

  std::string id(int64_t index) const override {
    try {
      const auto fields = fields_of(index, names_);
      if (fields && (*fields)[0].kind == JsonField::Kind::kText) return (*fields)[0].text;
    } catch (const Error&) {
      // Then the line is named by its number among the samples.
    }
    return index_.id(index);
  }

  void prefetch(int64_t index) const override {
    try {
      const auto fields = fields_of(index, names_);
      if (fields && fields->front().kind == JsonField::Kind::kText) fetch_file(path_of(index, fields->front()));
    } catch (const Error&) {  // read() fails with the same
    }
  }

 private:
  std::string path_of(int64_t index, const JsonField& image) const {
    std::string name = image.text + options_.image_suffix;
    if (name.starts_with('/')) return name;
    const std::string& root = options_.root;
    return store::join_path(root.empty() ? store::parent_path(index_.path(index_.locate(index).shard)) : root, name);
  }
  std::optional<std::vector<JsonField>> fields_of(int64_t index, const std::vector<std::string>& names,
                                                  std::string* problem = nullptr) const {
    const ShardIndex::Place place = index_.locate(index);
    return options_.format.fields(index_.path(place.shard), read_extent(*index_.file(place.shard), index_.extent(place)), names,
                                  problem);
  }

  ListedImagesOptions options_;
  std::string name_;
  std::vector<std::string> names_;  // of the columns
  ShardIndex index_;
  Labels labels_;
};

std::optional<std::string> ListedImages::read(int64_t index, Sample& sample) const {
  sample.labels.clear();
  std::optional<std::vector<JsonField>> fields;
  try {
    std::string problem;
    fields = fields_of(index, names_, &problem);
    if (!fields) {
      const ShardIndex::Place place = index_.locate(index);
      return fmt::format("the line at offset {} of `{}` is no {}: {}", index_.extent(place).offset, index_.path(place.shard),
                         options_.format.what, problem);
    }
  } catch (const Error& error) {
    return error.message();
  }
  if (!options_.columns.label.empty()) {
    if (auto reason = set_json_label(labels_, options_.columns.label, (*fields)[1], sample)) return reason;
  }
  const JsonField& image = (*fields)[0];
  if (image.kind != JsonField::Kind::kText) return fmt::format("it has no image `{}`", options_.columns.image);
  if (auto reason = set_json_texts(options_.columns.texts, std::span(*fields).subspan(2), sample)) return reason;
  if (auto reason = read_whole_file(path_of(index, image), sample.memory)) return reason;
  sample.image = sample.memory.view();
  return std::nullopt;
}

// Texts as they are, anything else as JSON. A column that no sample has is none.
std::optional<std::vector<std::optional<std::string>>> ListedImages::column(const std::string& name) const {
  const std::vector<std::string>& columns = options_.format.columns;
  if (!columns.empty() && std::ranges::find(columns, name) == columns.end()) return std::nullopt;
  std::vector<std::optional<std::string>> values;
  bool found = false;
  for (int64_t i = 0; i < size(); ++i) {
    std::optional<std::vector<JsonField>> fields;
    try {
      fields = fields_of(i, {name});
    } catch (const Error&) {
      // A line that can't be read has no values.
    }
    values.emplace_back();
    if (!fields || fields->front().kind == JsonField::Kind::kAbsent) continue;
    const JsonField& field = fields->front();
    values.back() = field.kind == JsonField::Kind::kInteger ? std::to_string(field.integer) : field.text;
    found = true;
  }
  return found || !columns.empty() ? std::optional(std::move(values)) : std::nullopt;
}

// Of the lines and of the image that the sample's names.
std::optional<uint64_t> ListedImages::stamp(int64_t index) const {
  try {
    const auto fields = fields_of(index, names_);
    const std::optional<uint64_t> lines = index_.stamp(index);
    if (!lines || !fields || fields->front().kind != JsonField::Kind::kText) return std::nullopt;
    const std::optional<uint64_t> image = stamp_number(path_of(index, fields->front()));
    return image ? std::optional(hash128(fmt::format("{} {}", *lines, *image)).low) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Of the lines and of all images that they name.
std::optional<Hash128> ListedImages::fingerprint() const {
  const Hash128 images = fingerprint_files(size(), [this](int64_t i) {
    try {
      const auto fields = fields_of(i, names_);
      if (fields && fields->front().kind == JsonField::Kind::kText) return path_of(i, fields->front());
    } catch (const Error&) {
      // A line that names no image: the lines' own fingerprint tells when that changes.
    }
    return std::string();
  });
  return Hasher().add(to_string(index_.fingerprint())).add(to_string(images)).finish();
}

}  // namespace

std::vector<std::string> ListedColumns::all() const {
  std::vector<std::string> names = {image, label};
  names.insert(names.end(), texts.begin(), texts.end());
  return names;
}

std::shared_ptr<const Source> list_images(const std::vector<std::string>& paths, ListedImagesOptions options,
                                          const FieldArguments& arguments) {
  const std::string label = options.columns.label, where = options.where;
  ShardIndexOptions index{options.pattern, options.call, where, {}, {}};
  index.needs_labels = !label.empty() && arguments.finds_classes();
  index.label_lists = arguments.several_labels;
  index.scan = [label, lists = index.label_lists, format = options.format](const std::string& path,
                                                                           const store::ReadableFile& file, bool with_labels) {
    ShardScan scan;
    scan.extents = format.scan(path, file);
    if (!with_labels) return scan;
    for (const Extent& extent : scan.extents) {
      const auto fields = format.fields(path, read_extent(file, extent), {label}, nullptr);
      add_json_label(fields ? (*fields)[0] : JsonField(), scan.labels, lists);
    }
    return scan;
  };
  const auto source = std::make_shared<ListedImages>(paths, std::move(options), std::move(index));
  if (!label.empty()) source->set_labels(Labels(arguments, source->found(), where));
  return source;
}

}  // namespace tessera::data
