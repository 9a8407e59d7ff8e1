// jsonl(pattern): files of JSON objects, one a line, that name image files.

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "data/formats/lines.h"
#include "data/read_file.h"
#include "data/records/text_values.h"
#include "data/source_call.h"
#include "store/buckets.h"

namespace tessera::data {
namespace {

// What is read of each line.
struct Columns {
  std::string image, label;  // label empty: none
  std::vector<std::string> texts;
  // image, label, texts: as parse_json_fields takes them.
  std::vector<std::string> all() const {
    std::vector<std::string> names = {image, label};
    names.insert(names.end(), texts.begin(), texts.end());
    return names;
  }
};

std::string read_line(const store::ReadableFile& file, const Extent& extent) {
  check_sample_bytes(extent.length);
  std::string line(static_cast<size_t>(extent.length), '\0');
  file.read(extent.offset, std::as_writable_bytes(std::span(line)));
  return line;
}

class JsonLines final : public Source {
 public:
  // Images' paths start from `root` or, where that is empty, from the folder of their file of lines.
  JsonLines(const std::vector<std::string>& paths, std::string root, std::string name, ShardIndexOptions options,
            const Columns& columns)
      : root_(std::move(root)),
        name_(std::move(name)),
        columns_(columns),
        names_(columns.all()),
        index_(paths, std::move(options)) {}
  void set_labels(Labels labels) { labels_ = std::move(labels); }
  const LabelsFound& found() const { return index_.labels(); }

  int64_t size() const override { return index_.size(); }
  const std::vector<std::string>& class_names() const override { return labels_.names(); }
  std::vector<std::string> text_fields() const override { return columns_.texts; }
  const std::string& name() const override { return name_; }
  SourceFacts facts() const override { return index_.facts(); }
  std::vector<std::string> shard_paths() const override { return index_.paths(); }
  std::optional<std::string> read(int64_t index, Sample& sample) const override;
  std::optional<uint64_t> stamp(int64_t index) const override;
  std::optional<Hash128> fingerprint() const override;
  std::optional<std::vector<int64_t>> class_sizes() const override { return labels_.class_sizes(index_, {{0, size()}}); }
  std::optional<std::vector<int32_t>> labels() const override { return labels_.of_samples(index_, {{0, size()}}); }

  std::string id(int64_t index) const override {
    try {
      const auto fields = fields_of(index);
      if (fields && (*fields)[0].kind == JsonField::Kind::kText) return (*fields)[0].text;
    } catch (const Error&) {
      // Then the line is named by its number among the samples.
    }
    return index_.id(index);
  }

  void prefetch(int64_t index) const override {
    try {
      const auto fields = fields_of(index);
      if (fields && fields->front().kind == JsonField::Kind::kText) fetch_file(path_of(index, fields->front()));
    } catch (const Error&) {  // read() fails with the same
    }
  }

 private:
  std::string path_of(int64_t index, const JsonField& image) const {
    if (image.text.starts_with('/')) return image.text;
    return store::join_path(root_.empty() ? store::parent_path(index_.path(index_.locate(index).shard)) : root_, image.text);
  }
  std::optional<std::vector<JsonField>> fields_of(int64_t index, std::string* problem = nullptr) const {
    const ShardIndex::Place place = index_.locate(index);
    return parse_json_fields(read_line(*index_.file(place.shard), index_.extent(place)), names_, problem);
  }

  std::string root_, name_;
  Columns columns_;
  std::vector<std::string> names_;
  ShardIndex index_;
  Labels labels_;
};

std::optional<std::string> JsonLines::read(int64_t index, Sample& sample) const {
  std::optional<std::vector<JsonField>> fields;
  try {
    std::string problem;
    fields = fields_of(index, &problem);
    if (!fields) {
      const ShardIndex::Place place = index_.locate(index);
      return fmt::format("the line at offset {} of `{}` is no JSON object: {}", index_.extent(place).offset,
                         index_.path(place.shard), problem);
    }
  } catch (const Error& error) {
    return error.message();
  }
  if (!columns_.label.empty()) {
    if (auto reason = set_json_label(labels_, columns_.label, (*fields)[1], sample)) return reason;
  }
  const JsonField& image = (*fields)[0];
  if (image.kind != JsonField::Kind::kText) return fmt::format("it has no image `{}`", columns_.image);
  if (auto reason = set_json_texts(columns_.texts, std::span(*fields).subspan(2), sample)) return reason;
  if (auto reason = read_whole_file(path_of(index, image), sample.memory)) return reason;
  sample.image = sample.memory.view();
  return std::nullopt;
}

// Of the lines and of the image that the sample's names.
std::optional<uint64_t> JsonLines::stamp(int64_t index) const {
  try {
    const auto fields = fields_of(index);
    const std::optional<uint64_t> lines = index_.stamp(index);
    if (!lines || !fields || fields->front().kind != JsonField::Kind::kText) return std::nullopt;
    const std::optional<uint64_t> image = stamp_number(path_of(index, fields->front()));
    return image ? std::optional(hash128(fmt::format("{} {}", *lines, *image)).low) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Of the lines and of all images that they name.
std::optional<Hash128> JsonLines::fingerprint() const {
  const Hash128 images = fingerprint_files(size(), [this](int64_t i) {
    try {
      const auto fields = fields_of(i);
      if (fields && fields->front().kind == JsonField::Kind::kText) return path_of(i, fields->front());
    } catch (const Error&) {
      // A line that names no image: the lines' own fingerprint tells when that changes.
    }
    return std::string();
  });
  return Hasher().add(to_string(index_.fingerprint())).add(to_string(images)).finish();
}

Columns choose_columns(const FieldArguments& arguments, const std::string& path, const std::string& where) {
  std::vector<std::string> names;
  std::string first;
  try {
    const auto file = store::files_at(path).open(path);
    first = first_line(*file);
  } catch (const Error& error) {
    throw data_error(error.message(), where, error.help());
  }
  if (first.empty()) throw data_error(fmt::format("`{}` has no lines", path), where, "write one JSON object a line");
  names = json_field_names(first);
  if (names.empty()) {
    throw data_error(fmt::format("the first line of `{}` is no JSON object", path), where,
                     "write one object a line: {\"image\": \"a.jpg\", \"label\": 3}");
  }
  Columns columns{arguments.image.value_or("image"), {}, arguments.texts};
  const auto has = [&](const std::string& name) {
    return (*parse_json_fields(first, {name}))[0].kind != JsonField::Kind::kAbsent;
  };
  if (!arguments.no_label && (arguments.label || has("label"))) columns.label = arguments.label.value_or("label");
  for (const std::string& name : columns.all()) {
    if (name.empty() || has(name)) continue;
    throw data_error(fmt::format("the first line of `{}` has no `{}`", path, name), where, suggest_name(name, names));
  }
  return columns;
}

}  // namespace

std::shared_ptr<const Source> make_jsonl(CallReader& call, std::string_view where_view) {
  const std::string where(where_view), path = call.text("path");
  const FieldArguments arguments = read_field_arguments(call);
  const std::string root = call.text("root", "");
  call.finish();
  const std::vector<std::string> paths = find_shards(path, where);
  const Columns columns = choose_columns(arguments, paths[0], where);
  ShardIndexOptions options{path, fmt::format("jsonl({}, label={})", absolute_path(path), columns.label), where, {}, {}};
  options.needs_labels = !columns.label.empty() && arguments.classes.empty();
  options.scan = [label = columns.label](const std::string&, const store::ReadableFile& file, bool with_labels) {
    ShardScan scan;
    scan.extents = scan_lines(file);
    if (!with_labels) return scan;
    for (const Extent& extent : scan.extents) {
      const auto fields = parse_json_fields(read_line(file, extent), {label});
      add_json_label(fields ? (*fields)[0] : JsonField(), scan.labels);
    }
    return scan;
  };
  const auto source =
      std::make_shared<JsonLines>(paths, root, root.empty() ? store::parent_path(path) : root, std::move(options), columns);
  if (!columns.label.empty()) source->set_labels(Labels(arguments, source->found(), where));
  return source;
}

}  // namespace tessera::data
