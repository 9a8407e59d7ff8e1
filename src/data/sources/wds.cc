// wds(pattern): WebDataset archives.

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/text/text.h"
#include "data/formats/manifest.h"
#include "data/formats/webdataset.h"
#include "data/records/text_values.h"
#include "data/source_call.h"
#include "store/servers/buckets.h"

namespace tessera::data {
namespace {

constexpr const char* kImages = "jpg;jpeg;png;webp;bmp;gif;tif;tiff";

// A member by its extension, or a field of the member .json.
struct WdsPart {
  std::string name;   // as written
  std::string field;  // of the member .json; empty: a member
  std::string_view extension() const { return field.empty() ? std::string_view(name) : "json"; }
  explicit WdsPart(std::string text) : name(std::move(text)) {
    if (name.starts_with("json.")) field = name.substr(5);
  }
};

// What is read of each sample.
struct WdsParts {
  std::vector<std::string> images;  // the first there is
  std::optional<WdsPart> label;
  std::vector<WdsPart> texts;

  const WdsMember* image(const WdsSample& sample) const {
    for (const std::string& extension : images) {
      if (const WdsMember* member = sample.find(extension)) return member;
    }
    return nullptr;
  }
};

std::string extensions(const WdsSample& sample) {
  std::string text;
  for (const WdsMember& member : sample.members) text += fmt::format("{}.{}", text.empty() ? "" : ", ", member.extension);
  return text;
}

// A part as a field, whatever it is: members that hold whole numbers are integers.
JsonField part_value(const WdsSample& sample, const WdsPart& part) {
  const WdsMember* member = sample.find(part.extension());
  if (!member) return {};
  if (!part.field.empty()) {
    auto fields = parse_json_fields(member->data, {part.field});
    return fields ? std::move(fields->front()) : JsonField{};
  }
  const auto index = parse_index(member->data);
  return {index ? JsonField::Kind::kInteger : JsonField::Kind::kText, std::string(trim(member->data)), index.value_or(0)};
}

class Wds final : public Source {
 public:
  Wds(std::vector<std::string> paths, ShardIndexOptions options, WdsParts parts)
      : name_(store::parent_path(paths.front())), parts_(std::move(parts)), index_(std::move(paths), std::move(options)) {
    for (const WdsPart& text : parts_.texts) text_fields_.push_back(text.name);
  }
  void set_labels(Labels labels) { labels_ = std::move(labels); }
  const LabelsFound& found() const { return index_.labels(); }

  int64_t size() const override { return index_.size(); }
  void prefetch(int64_t index) const override { index_.prefetch(index); }
  const std::vector<std::string>& class_names() const override { return labels_.names(); }
  std::vector<std::string> text_fields() const override { return text_fields_; }
  const std::string& name() const override { return name_; }
  SourceFacts facts() const override { return index_.facts(); }
  std::vector<std::string> shard_paths() const override { return index_.paths(); }
  std::optional<uint64_t> stamp(int64_t index) const override { return index_.stamp(index); }
  std::optional<Hash128> fingerprint() const override { return index_.fingerprint(); }
  std::string id(int64_t index) const override;
  std::optional<std::vector<int64_t>> class_sizes() const override { return labels_.class_sizes(index_, {{0, size()}}); }
  bool multi_label() const override { return labels_.several(); }
  std::optional<std::vector<int32_t>> labels() const override { return labels_.of_samples(index_, {{0, size()}}); }
  std::optional<std::vector<std::vector<int32_t>>> label_lists() const override {
    return labels_.lists_of_samples(index_, {{0, size()}});
  }
  std::optional<std::string> read(int64_t index, Sample& sample) const override;

 private:
  std::string_view load(const ShardIndex::Place& place, PaddedBuffer& memory) const;

  std::string name_;
  WdsParts parts_;
  std::vector<std::string> text_fields_;
  ShardIndex index_;
  Labels labels_;
};

std::string_view Wds::load(const ShardIndex::Place& place, PaddedBuffer& memory) const {
  const Extent extent = index_.extent(place);
  check_sample_bytes(extent.length);
  memory.reset(static_cast<size_t>(extent.length));
  const std::span bytes(memory.data(), memory.size());
  index_.file(place.shard)->read(extent.offset, std::as_writable_bytes(bytes));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string Wds::id(int64_t index) const {
  const ShardIndex::Place place = index_.locate(index);
  const std::string& path = index_.path(place.shard);
  try {
    PaddedBuffer memory;
    return fmt::format("{}:{}", std::filesystem::path(path).filename().string(),
                       parse_wds_sample(path, load(place, memory)).key);
  } catch (const Error&) {
    return index_.id(index);
  }
}

std::optional<std::string> Wds::read(int64_t index, Sample& sample) const {
  sample.labels.clear();
  const ShardIndex::Place place = index_.locate(index);
  try {
    const WdsSample found = parse_wds_sample(index_.path(place.shard), load(place, sample.memory));
    if (parts_.label) {
      if (auto reason = set_json_label(labels_, parts_.label->name, part_value(found, *parts_.label), sample)) return reason;
    }
    const WdsMember* image = parts_.image(found);
    if (!image) return fmt::format("it has no image, only {}", extensions(found));
    sample.image = {reinterpret_cast<const uint8_t*>(image->data.data()), image->data.size()};
    std::vector<JsonField> texts;
    for (const WdsPart& part : parts_.texts) texts.push_back(part_value(found, part));
    return set_json_texts(text_fields_, texts, sample);
  } catch (const Error& error) {
    return error.message();
  }
}

// The first sample of the set.
void look_at_first(const std::vector<std::string>& paths, const std::string& where,
                   const std::function<void(const WdsSample&)>& look) {
  for (const std::string& path : paths) {
    bool seen = false;
    try {
      seen = visit_first_wds(path, *store::files_at(path).open(path), look);
    } catch (const Error& error) {
      throw data_error(error.message(), where, error.help());
    }
    if (seen) return;
  }
  throw data_error(fmt::format("`{}` {} no samples", paths.front(), paths.size() == 1 ? "holds" : "and the others hold"), where,
                   "a sample is an image and its label side by side: 000.jpg, 000.cls");
}

WdsParts choose_parts(const FieldArguments& arguments, const std::vector<std::string>& paths, const std::string& where) {
  WdsParts parts;
  parts.images = split(arguments.image.value_or(kImages), ';');
  for (const std::string& text : arguments.texts) parts.texts.emplace_back(text);
  look_at_first(paths, where, [&](const WdsSample& first) {
    const std::string place = fmt::format("the first sample, `{}` of `{}`,", first.key, paths.front());
    if (!parts.image(first))
      throw data_error(fmt::format("{} has no image", place), where, fmt::format("it has {}: say image=…", extensions(first)));
    if (!arguments.no_label && (arguments.label || first.find("cls"))) parts.label.emplace(arguments.label.value_or("cls"));
    std::vector<const WdsPart*> wanted;
    if (parts.label) wanted.push_back(&*parts.label);
    for (const WdsPart& text : parts.texts) wanted.push_back(&text);
    for (const WdsPart* part : wanted) {
      if (part_value(first, *part).kind == JsonField::Kind::kAbsent) {
        throw data_error(fmt::format("{} has no `{}`", place, part->name), where,
                         fmt::format("it has {}; fields of .json are written json.NAME", extensions(first)));
      }
    }
  });
  return parts;
}

// The names of classes that `tessera data convert` writes beside its shards; empty where there are none.
std::string classes_beside(const std::vector<std::string>& paths) {
  const std::string folder = store::parent_path(paths.front());
  const bool one_folder =
      std::ranges::all_of(paths, [&](const std::string& path) { return store::parent_path(path) == folder; });
  const std::string classes = store::join_path(folder, kClassList);
  store::FileSystem& files = store::files_at(folder);
  const bool converted = one_folder && files.info(store::join_path(folder, kManifestFile)) && files.info(classes);
  return converted ? classes : "";
}

std::shared_ptr<const Source> make_wds(CallReader& call, std::string_view where_view) {
  const std::string where(where_view), pattern = call.text("pattern");
  FieldArguments arguments = read_field_arguments(call);
  call.finish();
  std::vector<std::string> paths = find_shards(pattern, where);
  WdsParts parts = choose_parts(arguments, paths, where);
  const bool as_converted = !arguments.label || (arguments.several_labels && arguments.label == "json.labels");
  if (arguments.classes.empty() && as_converted && parts.label) arguments.classes = classes_beside(paths);
  ShardIndexOptions options{
      pattern,
      fmt::format("wds({}, {})", absolute_path(pattern), arguments.label_identity(parts.label ? parts.label->name : "")),
      where,
      {},
      {}};
  options.needs_labels = parts.label && arguments.classes.empty();
  options.label_lists = arguments.several_labels;
  options.scan = [label = parts.label, lists = options.label_lists](const std::string& path, const store::ReadableFile& file,
                                                                    bool with_labels) {
    ShardScan scan;
    if (!with_labels) {
      scan.extents = scan_wds(path, file);
    } else {
      scan.extents = scan_wds(path, file, label->extension(),
                              [&](const WdsSample& sample) { add_json_label(part_value(sample, *label), scan.labels, lists); });
    }
    return scan;
  };
  const bool labelled = parts.label.has_value();
  const auto source = std::make_shared<Wds>(std::move(paths), std::move(options), std::move(parts));
  if (labelled) source->set_labels(Labels(arguments, source->found(), where));
  return source;
}

}  // namespace

const SourceKind kWds{"wds", "wds(pattern[, image=jpg;png;webp][, label=cls][, text=txt])",
                      "WebDataset archives; fields of .json are written json.NAME; labels=json.NAME is a list of labels",
                      make_wds};

}  // namespace tessera::data
