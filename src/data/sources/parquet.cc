// parquet(pattern): Hugging Face's image data sets.

#include "data/formats/parquet/parquet.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "data/index/listing.h"
#include "data/read_file.h"
#include "data/records/text_values.h"
#include "data/source_call.h"
#include "store/url.h"

namespace tessera::data {
namespace {

constexpr int64_t kRowGroupMemory = int64_t{1} << 30, kMaxFiles = 256;

// Which columns are what.
struct ParquetColumns {
  std::string image, path;  // leaves; one of them may be empty
  std::string label;        // empty: none
  std::vector<std::string> texts;
  // Those that are read, in the order image, path, label, texts.
  std::vector<std::string> all() const {
    std::vector<std::string> names;
    for (const std::string& name : {image, path, label}) {
      if (!name.empty()) names.push_back(name);
    }
    names.insert(names.end(), texts.begin(), texts.end());
    return names;
  }
};

std::string_view value_text(const TesseraParquetValue& value) { return {value.data, static_cast<size_t>(value.size)}; }

class Parquet final : public Source {
 public:
  Parquet(std::vector<std::string> paths, ShardIndexOptions options, const ParquetColumns& columns)
      : name_(store::parent_path(paths.front())),
        columns_(columns),
        names_(columns.all()),
        index_(std::move(paths), std::move(options)) {
    const auto place = [&](const std::string& name) {
      return static_cast<size_t>(std::ranges::find(names_, name) - names_.begin());
    };
    image_ = place(columns.image), path_ = place(columns.path), label_ = place(columns.label);
    for (const std::string& text : columns.texts) texts_.push_back(place(text));
  }
  void set_labels(Labels labels) { labels_ = std::move(labels); }
  const LabelsFound& found() const { return index_.labels(); }

  int64_t size() const override { return index_.size(); }
  const std::vector<std::string>& class_names() const override { return labels_.names(); }
  std::vector<std::string> text_fields() const override { return columns_.texts; }
  const std::string& name() const override { return name_; }
  SourceFacts facts() const override { return index_.facts(); }
  std::vector<std::string> shard_paths() const override { return index_.paths(); }
  std::optional<uint64_t> stamp(int64_t index) const override { return index_.stamp(index); }
  std::optional<Hash128> fingerprint() const override { return index_.fingerprint(); }
  std::string id(int64_t index) const override { return index_.id(index); }
  std::vector<int64_t> stretches() const override;
  std::optional<std::string> read(int64_t index, Sample& sample) const override;
  void prefetch(int64_t index) const override;
  std::optional<std::vector<int64_t>> class_sizes() const override { return labels_.class_sizes(index_, {{0, size()}}); }
  bool multi_label() const override { return labels_.several(); }
  std::optional<std::vector<int32_t>> labels() const override { return labels_.of_samples(index_, {{0, size()}}); }
  std::optional<std::vector<std::vector<int32_t>>> label_lists() const override {
    return labels_.lists_of_samples(index_, {{0, size()}});
  }

 private:
  using Files = LruCache<size_t, ParquetFile>;
  using Groups = LruCache<int64_t, ParquetGroup>;

  std::shared_ptr<const ParquetFile> file(size_t shard) const {
    return files_.get(shard, [&] { return Files::Made{std::make_shared<const ParquetFile>(index_.path(shard)), 1}; });
  }
  std::optional<std::string> take(const ParquetGroup& group, int64_t row, size_t shard, Sample& sample) const;
  std::optional<std::string> take_label(const ParquetGroup& group, int64_t row, Sample& sample) const;
  std::optional<std::string> take_texts(const ParquetGroup& group, int64_t row, Sample& sample) const;
  std::optional<std::string> take_image(const ParquetGroup& group, int64_t row, size_t shard, Sample& sample) const;

  std::string name_;
  ParquetColumns columns_;
  std::vector<std::string> names_;
  size_t image_, path_, label_;  // places in names_, or its size
  std::vector<size_t> texts_;
  ShardIndex index_;
  Labels labels_;
  mutable Files files_{kMaxFiles};
  mutable Groups groups_{kRowGroupMemory};
};

// A row group is read and decompressed whole for one of its rows.
std::vector<int64_t> Parquet::stretches() const {
  std::vector<int64_t> out;
  for (size_t shard = 0; shard < index_.shards(); ++shard) {
    const auto rows = file(shard);
    for (size_t group = 0; group + 1 < rows->first().size(); ++group) {
      if (rows->first()[group + 1] > rows->first()[group]) out.push_back(index_.first()[shard] + rows->first()[group]);
    }
  }
  return out;
}

void Parquet::prefetch(int64_t index) const {
  const ShardIndex::Place place = index_.locate(index);
  if (!store::is_remote(index_.path(place.shard))) return;  // the disk reads ahead by itself
  try {
    const auto rows = file(place.shard);
    if (place.sample >= rows->first().back()) return;
    const auto group = static_cast<size_t>(std::ranges::upper_bound(rows->first(), place.sample) - rows->first().begin() - 1);
    rows->prefetch(group, place.sample - rows->first()[group]);
  } catch (const Error&) {  // read() fails with the same
  }
}

std::optional<std::string> Parquet::read(int64_t index, Sample& sample) const {
  sample.labels.clear();
  const ShardIndex::Place place = index_.locate(index);
  try {
    const auto rows = file(place.shard);
    if (place.sample >= rows->first().back())
      return fmt::format("`{}` has fewer rows than the index says: it changed while it was used", index_.path(place.shard));
    const auto group = static_cast<size_t>(std::ranges::upper_bound(rows->first(), place.sample) - rows->first().begin() - 1);
    const int64_t first = rows->first()[group];
    const auto columns = groups_.get(index_.first()[place.shard] + first, [&] {
      std::shared_ptr<const ParquetGroup> made = rows->read_group(group, names_);
      const int64_t cost = made->bytes();
      return Groups::Made{std::move(made), cost};
    });
    return take(*columns, place.sample - first, place.shard, sample);
  } catch (const Error& error) {
    return error.message();
  }
}

std::optional<std::string> Parquet::take(const ParquetGroup& group, int64_t row, size_t shard, Sample& sample) const {
  if (!columns_.label.empty()) {
    if (auto reason = take_label(group, row, sample)) return reason;
  }
  if (auto reason = take_texts(group, row, sample)) return reason;
  return take_image(group, row, shard, sample);
}

std::optional<std::string> Parquet::take_label(const ParquetGroup& group, int64_t row, Sample& sample) const {
  const int64_t count = group.count(label_, row);
  if (count < 0 && !labels_.several()) return fmt::format("it has no label `{}`", columns_.label);
  std::optional<std::string> reason;
  for (int64_t item = 0; item < count && !reason; ++item) {
    const TesseraParquetValue label = group.value(label_, row, item);
    if (label.is_null) return fmt::format("one of its labels `{}` is null", columns_.label);
    reason = label.data ? labels_.set(value_text(label), sample) : labels_.set(label.integer, sample);
  }
  return reason;
}

std::optional<std::string> Parquet::take_texts(const ParquetGroup& group, int64_t row, Sample& sample) const {
  std::vector<TextValues> texts(texts_.size());
  for (size_t i = 0; i < texts_.size(); ++i) {
    const int64_t count = group.count(texts_[i], row);
    if (count < 0) return fmt::format("it has no text `{}`", columns_.texts[i]);
    for (int64_t item = 0; item < count; ++item) {
      const TesseraParquetValue text = group.value(texts_[i], row, item);
      if (text.is_null) return fmt::format("one of its texts `{}` is null", columns_.texts[i]);
      texts[i].push_back(value_text(text));
    }
  }
  keep_texts(texts, sample);
  return std::nullopt;
}

std::optional<std::string> Parquet::take_image(const ParquetGroup& group, int64_t row, size_t shard, Sample& sample) const {
  if (image_ < names_.size()) {
    const TesseraParquetValue image = group.value(image_, row);
    if (!image.is_null) {
      sample.memory.reset(static_cast<size_t>(image.size));
      std::copy_n(image.data, image.size, sample.memory.data());
      sample.image = sample.memory.view();
      return std::nullopt;
    }
  }
  const TesseraParquetValue path = path_ < names_.size() ? group.value(path_, row) : TesseraParquetValue{1, nullptr, 0, 0};
  if (path.is_null) return "its image is null";
  const std::string name(value_text(path));
  const std::string file = name.starts_with('/') ? name : store::join_path(store::parent_path(index_.path(shard)), name);
  if (auto reason = read_whole_file(file, sample.memory)) return fmt::format("`{}`: {}", file, *reason);
  sample.image = sample.memory.view();
  return std::nullopt;
}

ParquetColumns choose_parquet_columns(const FieldArguments& arguments, const ParquetFile& file, const std::string& where) {
  const std::vector<std::string> known = file.columns();
  const auto need = [&](const std::string& name, std::initializer_list<TesseraParquetKind> kinds) {
    const TesseraParquetKind kind = file.kind(name);
    if (kind == TESSERA_PARQUET_NONE)
      throw data_error(fmt::format("the files have no column `{}`", name), where, "they have: " + one_line(join(known, ", ")));
    if (std::ranges::find(kinds, kind) == kinds.end())
      throw data_error(fmt::format("the column `{}` is of a type that cannot be used so", name), where,
                       "they have: " + one_line(join(known, ", ")));
  };
  ParquetColumns columns;
  const std::string image = arguments.image.value_or("image");
  const bool nested = file.kind(image) == TESSERA_PARQUET_NONE && file.kind(image + ".bytes") != TESSERA_PARQUET_NONE;
  columns.image = nested ? image + ".bytes" : image;
  need(columns.image, {TESSERA_PARQUET_BYTES});
  if (nested && file.kind(image + ".path") == TESSERA_PARQUET_BYTES) columns.path = image + ".path";
  if (!arguments.no_label) {
    columns.label = arguments.label.value_or(file.kind("label") == TESSERA_PARQUET_NONE ? "" : "label");
    const TesseraParquetKind kind = file.kind(columns.label);
    const bool list = kind == TESSERA_PARQUET_INTEGER_LIST || kind == TESSERA_PARQUET_BYTES_LIST;
    if (list && !arguments.several_labels) {
      throw data_error(fmt::format("the column `{}` holds lists", columns.label), where,
                       fmt::format("labels={} takes several labels an image", columns.label));
    }
    if (!columns.label.empty() && !list) need(columns.label, {TESSERA_PARQUET_INTEGER, TESSERA_PARQUET_BYTES});
  }
  columns.texts = arguments.texts;
  for (const std::string& text : columns.texts) need(text, {TESSERA_PARQUET_BYTES, TESSERA_PARQUET_BYTES_LIST});
  return columns;
}

ShardScan scan_parquet_shard(const std::string& path, const std::string& label, bool lists) {
  const ParquetFile file(path);
  ShardScan found{{}, file.first().back(), {}};
  if (label.empty()) return found;
  for (size_t group = 0; group + 1 < file.first().size(); ++group) {
    const auto column = file.read_group(group, {label});
    for (int64_t row = 0; row < file.first()[group + 1] - file.first()[group]; ++row) {
      for (int64_t item = 0; item < std::max<int64_t>(column->count(0, row), lists ? 0 : 1); ++item) {
        const TesseraParquetValue value = column->value(0, row, item);
        if (value.is_null) {
          found.labels.add_none();
        } else {
          value.data ? found.labels.add(value_text(value)) : found.labels.add(value.integer);
        }
      }
      if (lists) found.labels.end_list();
    }
  }
  return found;
}

std::shared_ptr<const Source> make_parquet(CallReader& call, std::string_view where_view) {
  const std::string where(where_view), pattern = call.text("pattern");
  const FieldArguments arguments = read_field_arguments(call);
  call.finish();
  std::vector<std::string> paths = find_shards(pattern, where);
  try {
    const ParquetFile first(paths.front());
    const ParquetColumns columns = choose_parquet_columns(arguments, first, where);
    const std::vector<std::string> classes = huggingface_classes(first.metadata("huggingface").value_or(""), columns.label);
    ShardIndexOptions options{pattern,
                              fmt::format("parquet({}, {})", absolute_path(pattern), arguments.label_identity(columns.label)),
                              where,
                              {},
                              {}};
    options.needs_labels = !columns.label.empty() && classes.empty() && arguments.classes.empty();
    options.label_lists = arguments.several_labels;
    options.scan = [label = columns.label, lists = options.label_lists](const std::string& path, const store::ReadableFile&,
                                                                        bool with_labels) {
      return scan_parquet_shard(path, with_labels ? label : "", lists);
    };
    const auto source = std::make_shared<Parquet>(std::move(paths), std::move(options), columns);
    if (source->size() == 0) throw data_error(fmt::format("`{}` holds no rows", pattern), where);
    if (columns.label.empty()) return source;
    const bool named = arguments.classes.empty() && !classes.empty();
    source->set_labels(named ? Labels(classes, arguments.label_offset, arguments.several_labels)
                             : Labels(arguments, source->found(), where));
    return source;
  } catch (const Error& error) {
    if (!error.where().empty()) throw;
    throw data_error(error.message(), where, error.help());
  }
}

}  // namespace

const SourceKind kParquet{"parquet", "parquet(pattern[, image=image][, label=label][, text=caption])",
                          "Hugging Face image data sets; a text column may be a list of texts; labels=COLUMN is a list of "
                          "labels; needs ./dev parquet-deps once",
                          make_parquet};

}  // namespace tessera::data
