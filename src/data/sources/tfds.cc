// tfds(name): data sets that TFDS prepared.

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "data/formats/json_fields.h"
#include "data/formats/tfds_info.h"
#include "data/index/listing.h"
#include "data/records/example_source.h"
#include "data/source_call.h"
#include "store/file.h"
#include "store/servers/buckets.h"
#include "store/small_file.h"

namespace tessera::data {
namespace {

std::string default_data_dir() {
  if (const char* own = std::getenv("TFDS_DATA_DIR"); own && *own) return own;
  const char* home = std::getenv("HOME");
  return store::join_path(home ? home : "", "tensorflow_datasets");
}

bool exists(const std::string& path) { return store::files_at(path).info(path).has_value(); }

std::vector<std::string> folders_in(const std::string& path) {
  std::vector<std::string> names;
  list_directory(path, [&](std::string_view name, EntryKind kind) {
    if (kind != EntryKind::kFile) names.emplace_back(name);
  });
  std::sort(names.begin(), names.end());
  return names;
}

// "1.2.0" -> {1, 2, 0}; nothing for other names.
std::optional<std::vector<int64_t>> version_of(const std::string& name) {
  std::vector<int64_t> parts;
  for (const std::string& part : split(name, '.')) {
    if (part.empty() || part.size() > 9 || part.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
    parts.push_back(std::stoll(part));
  }
  if (parts.size() != 3) return std::nullopt;
  return parts;
}

std::optional<std::string> latest_version(const std::string& path) {
  std::optional<std::string> latest;
  for (const std::string& name : folders_in(path)) {
    if (version_of(name) && (!latest || version_of(name) > version_of(*latest))) latest = name;
  }
  return latest;
}

// The configuration to take where none is named: what TFDS says, or the only one.
std::optional<std::string> default_config(const std::string& path) {
  const std::string metadata = path + "/.config/metadata.json";
  if (exists(metadata)) {
    const auto fields = parse_json_fields(store::read_small_file(store::files_at(metadata), metadata), {"default_config_name"});
    if (fields && (*fields)[0].kind == JsonField::Kind::kText) return (*fields)[0].text;
  }
  const std::vector<std::string> names = folders_in(path);
  if (names.size() == 1) return names[0];
  return std::nullopt;
}

// The folder that holds dataset_info.json for "name[/config][:version]".
std::string find_folder(const std::string& data_dir, const std::string& dataset, const std::string& where) {
  const size_t colon = dataset.rfind(':');
  const std::string version = colon == std::string::npos ? "" : dataset.substr(colon + 1);
  std::string path = store::join_path(data_dir, dataset.substr(0, colon));
  if (!exists(path)) {
    const std::vector<std::string> known = exists(data_dir) ? folders_in(data_dir) : std::vector<std::string>();
    throw data_error(fmt::format("there is no data set `{}`: no folder `{}`", dataset, path), where,
                     known.empty() ? "name the folder that TFDS prepared it in with data_dir=…"
                                   : suggest_name(dataset.substr(0, std::min(colon, dataset.find('/'))), known));
  }
  if (version.empty() && !latest_version(path)) {
    const auto config = default_config(path);
    if (!config || !exists(path + "/" + *config)) {
      throw data_error(fmt::format("`{}` has several configurations", dataset), where,
                       fmt::format("name one: {}/NAME, of: {}", dataset, join(folders_in(path), ", ")));
    }
    path += "/" + *config;
  }
  const std::string chosen = version.empty() ? latest_version(path).value_or("") : version;
  path += "/" + chosen;
  if (chosen.empty() || !exists(path + "/dataset_info.json")) {
    throw data_error(
        fmt::format("the data set `{}` has no `{}/dataset_info.json`", dataset, path), where,
        fmt::format("it is not prepared there in this version; folders: {}", join(folders_in(store::parent_path(path)), ", ")));
  }
  return path;
}

const TfdsFeature* find_feature(const std::vector<TfdsFeature>& features, std::string_view key) {
  const auto it = std::ranges::find(features, key, &TfdsFeature::key);
  return it == features.end() ? nullptr : &*it;
}

// The feature named so, or, where none is named, the one of this kind: the set's own choice first.
const TfdsFeature* choose(const std::vector<TfdsFeature>& features, const std::optional<std::string>& named,
                          const std::vector<std::string>& supervised, TfdsKind kind, const std::string& where) {
  if (named) {
    if (const TfdsFeature* feature = find_feature(features, *named)) return feature;
    std::vector<std::string> keys;
    for (const TfdsFeature& feature : features) keys.push_back(feature.key);
    throw data_error(fmt::format("the data set has no feature `{}`", *named), where, suggest_name(*named, keys));
  }
  for (const std::string& key : supervised) {
    const TfdsFeature* feature = find_feature(features, key);
    if (feature && feature->kind == kind) return feature;
  }
  const TfdsFeature* only = nullptr;
  for (const TfdsFeature& feature : features) {
    if (feature.kind == kind && only) return nullptr;
    if (feature.kind == kind) only = &feature;
  }
  return only;
}

ExampleFields choose_fields(const FieldArguments& arguments, const TfdsInfo& info, const std::vector<TfdsFeature>& features,
                            const std::string& where) {
  std::vector<std::string> known;
  for (const TfdsFeature& feature : features) known.push_back(fmt::format("{} ({})", feature.key, feature.type));
  const TfdsFeature* image = choose(features, arguments.image, info.supervised, TfdsKind::kImage, where);
  if (!image)
    throw data_error("the data set has not one image feature", where,
                     fmt::format("say image=…; it has: {}", one_line(join(known, ", "))));
  ExampleFields fields{image->key, {}, arguments.texts};
  if (!arguments.no_label) {
    const TfdsFeature* label = choose(features, arguments.label, info.supervised, TfdsKind::kClassLabel, where);
    if (label) fields.label = label->key;
    if (label && !arguments.several_labels && label->kind == TfdsKind::kClassLabels) {
      throw data_error(fmt::format("the feature `{}` is a {}", label->key, label->type), where,
                       fmt::format("labels={} takes several labels an image", label->key));
    }
  }
  for (const std::string& text : fields.texts) choose(features, text, {}, TfdsKind::kText, where);
  return fields;
}

// Names of classes from <feature>.labels.txt, or numbers.
std::string classes_of(const std::string& folder, const TfdsFeature& label) {
  std::string file = label.key;
  std::ranges::replace(file, '/', '-');
  file = fmt::format("{}/{}.labels.txt", folder, file);
  if (exists(file)) return file;
  return label.num_classes > 0 ? std::to_string(label.num_classes) : "";
}

// The shards of the splits in use, and which of their samples.
struct Selection {
  std::vector<std::string> paths;
  std::vector<int64_t> counts;
  std::vector<SampleRange> ranges;
};

void add_split(Selection& selection, const TfdsInfo& info, const TfdsSplit& split, const std::string& folder) {
  for (size_t i = 0; i < split.shard_lengths.size(); ++i) {
    if (split.shard_lengths[i] == 0) continue;
    selection.paths.push_back(store::join_path(folder, tfds_shard_name(info, split, i)));
    selection.counts.push_back(split.shard_lengths[i]);
  }
}

// What the call says of splits.
struct SplitArguments {
  std::string text;
  TfdsRounding rounding = TfdsRounding::kClosest;
  int64_t even_splits = 1, index = 0;
  bool drop_remainder = false;
};

SplitArguments read_split(CallReader& call, std::string text) {
  SplitArguments out{std::move(text)};
  const std::string rounding = call.text("rounding", "closest");
  if (rounding == "pct1_dropremainder") {
    out.rounding = TfdsRounding::kPct1DropRemainder;
  } else if (rounding != "closest") {
    call.fail(fmt::format("unknown rounding `{}`", rounding), suggest_name(rounding, {"closest", "pct1_dropremainder"}));
  }
  out.even_splits = call.integer("even_splits", 1);
  if (out.even_splits < 1) call.fail(fmt::format("`even_splits` is {}, and must be at least 1", out.even_splits));
  out.index = call.integer("index", out.even_splits == 1 ? std::optional<int64_t>(0) : std::nullopt);
  if (out.index < 0 || out.index >= out.even_splits)
    call.fail(fmt::format("`index` is {}, and the parts are 0 to {}", out.index, out.even_splits - 1));
  out.drop_remainder = call.boolean("drop_remainder", false);
  return out;
}

// The terms of the split; "all" is each of the set's.
std::vector<TfdsSlice> terms_of(const TfdsInfo& info, const std::string& text, const std::string& where) {
  std::vector<TfdsSlice> terms;
  for (TfdsSlice& slice : parse_tfds_split(text, where)) {
    if (slice.split != "all" || info.find("all")) {
      terms.push_back(std::move(slice));
      continue;
    }
    if (slice.from || slice.to)
      throw usage_error(fmt::format("`all` of `{}` cannot be cut", text), where, "cut each split: train[:50%]+test[:50%]");
    for (const TfdsSplit& split : info.splits) terms.push_back({split.name, {}, {}});
  }
  return terms;
}

const TfdsSplit& find_split(const TfdsInfo& info, const std::string& name, const std::string& where) {
  if (const TfdsSplit* split = info.find(name)) return *split;
  std::vector<std::string> names;
  for (const TfdsSplit& one : info.splits) names.push_back(one.name);
  throw data_error(fmt::format("the data set has no split `{}`", name), where, suggest_name(name, names));
}

Selection select(const TfdsInfo& info, const SplitArguments& wanted, const std::string& folder, const std::string& where) {
  Selection selection;
  std::map<std::string, int64_t> begins;
  int64_t total = 0;
  for (const TfdsSlice& slice : terms_of(info, wanted.text, where)) {
    const TfdsSplit& split = find_split(info, slice.split, where);
    const int64_t samples = std::accumulate(split.shard_lengths.begin(), split.shard_lengths.end(), int64_t{0});
    const auto range = resolve_tfds_slice(slice, split.shard_lengths, wanted.rounding);
    if (!range) {
      throw usage_error(
          fmt::format("`{}` asks for samples beyond the {} of the split `{}`", wanted.text, human_count(samples), slice.split),
          where,
          wanted.rounding == TfdsRounding::kClosest ? "" : "rounding=pct1_dropremainder needs a hundred samples at least");
    }
    if (!begins.contains(slice.split)) {
      begins[slice.split] = total;
      total += samples;
      add_split(selection, info, split, folder);
    }
    const TfdsRange part = even_tfds_part(*range, wanted.index, wanted.even_splits, wanted.drop_remainder);
    const int64_t begin = begins[slice.split];
    selection.ranges.push_back({begin + part.from, begin + part.to});
  }
  const auto is_empty = [](const SampleRange& range) { return range.begin == range.end; };
  if (std::ranges::all_of(selection.ranges, is_empty))
    throw data_error(fmt::format("the split `{}` holds no samples", wanted.text), where);
  return selection;
}

void check_selected_shards(const Selection& selection, const std::string& folder, const std::string& where) {
  std::vector<std::string> names;
  list_directory(folder, [&](std::string_view name, EntryKind) { names.emplace_back(name); });
  std::sort(names.begin(), names.end());
  int64_t missing = 0;
  const std::string* first = nullptr;
  for (const std::string& path : selection.paths) {
    if (path.find('/', folder.size() + 1) != std::string::npos) continue;  // the template names a folder
    if (std::binary_search(names.begin(), names.end(), std::string_view(path).substr(folder.size() + 1))) continue;
    if (missing++ == 0) first = &path;
  }
  if (missing == 0) return;
  throw data_error(fmt::format("{} of {} shards {} missing, first `{}`", human_count(missing),
                               human_count(static_cast<int64_t>(selection.paths.size())), missing == 1 ? "is" : "are", *first),
                   where, "copy the missing files there, or prepare the data set again");
}

std::unique_ptr<RecordSet> open_set(const TfdsInfo& info, Selection& selection, RecordSetOptions options) {
  if (info.file_format == "tfrecord") return open_tfrecords(std::move(selection.paths), std::move(options));
  if (info.file_format == "array_record") return open_array_records(std::move(selection.paths), std::move(options));
  throw data_error(fmt::format("the data set is kept as {} files, which this program cannot read", info.file_format),
                   options.where, "prepare it as array_record: tfds build --file_format=array_record");
}

std::shared_ptr<const Source> make_tfds(CallReader& call, std::string_view where_view) {
  const std::string where(where_view), dataset = call.text("name"), split_text = call.text("split", "train"),
                                       data_dir = call.text("data_dir", default_data_dir());
  FieldArguments arguments = read_field_arguments(call);
  const SplitArguments split = read_split(call, split_text);
  call.finish();
  try {
    const std::string folder = find_folder(data_dir, dataset, where);
    const std::string info_path = folder + "/dataset_info.json", features_path = folder + "/features.json";
    const TfdsInfo info = parse_tfds_info(info_path, store::read_small_file(store::files_at(info_path), info_path));
    const std::vector<TfdsFeature> features =
        parse_tfds_features(features_path, store::read_small_file(store::files_at(features_path), features_path));
    ExampleFields fields = choose_fields(arguments, info, features, where);
    const TfdsFeature* label = find_feature(features, fields.label);
    if (label && arguments.classes.empty()) arguments.classes = classes_of(folder, *label);
    Selection selection = select(info, split, folder, where);
    check_selected_shards(selection, folder, where);
    RecordSetOptions options{
        dataset, fmt::format("tfds({}, {})", absolute_path(folder), split.text), where, {}, selection.counts};
    if (arguments.several_labels) options.call += arguments.label_identity(fields.label);
    if (label) options.find_label = example_label_finder(fields.label, arguments.several_labels);
    options.needs_labels = label && arguments.classes.empty();
    options.label_lists = arguments.several_labels;
    std::unique_ptr<RecordSet> records = open_set(info, selection, std::move(options));
    Labels labels = label ? Labels(arguments, records->index().labels(), where) : Labels();
    return open_examples(folder, std::move(records), std::move(fields), std::move(labels), std::move(selection.ranges));
  } catch (const Error& error) {
    if (!error.where().empty()) throw;
    throw data_error(error.message(), where, error.help());
  }
}

}  // namespace

const SourceKind kTfds{
    "tfds",
    "tfds(name[/config][:version][, split=train[:90%]][, data_dir=~/tensorflow_datasets][, rounding=closest][, even_splits=1]"
    "[, index=0][, drop_remainder=false][, label=FEATURE or labels=FEATURE])",
    "a data set that TFDS prepared, as tfrecord or array_record; splits as TFDS writes them (train[:1shard]+test, all); "
    "rounding may be pct1_dropremainder, and of even_splits=N parts the source is that of `index`",
    make_tfds};

}  // namespace tessera::data
