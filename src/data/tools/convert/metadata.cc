#include "data/tools/convert/metadata.h"

#include <nlohmann/json.hpp>

#include "base/text/text.h"
#include "data/formats/manifest.h"
#include "store/file.h"
#include "store/servers/buckets.h"

namespace tessera::data {
namespace {

using nlohmann::ordered_json;

void write(const std::string& path, const std::string& text) { store::write_atomic(store::files_at(path), path, text + "\n"); }

constexpr const char* kFeatures = "tensorflow_datasets.core.features.";

ordered_json text_feature() {
  return {{"pythonClassName", std::string(kFeatures) + "text_feature.Text"}, {"text", ordered_json::object()}};
}

ordered_json list_feature(ordered_json feature) {
  return {{"pythonClassName", std::string(kFeatures) + "sequence_feature.Sequence"},
          {"sequence", {{"feature", std::move(feature)}, {"length", "-1"}}}};
}

const char* label_key(const ConvertFields& fields) { return fields.multi_label ? "labels" : "label"; }

ordered_json features_json(const ConvertFields& fields, const TextLists& lists, size_t classes) {
  ordered_json features = ordered_json::object();
  features["image"] = {
      {"pythonClassName", std::string(kFeatures) + "image_feature.Image"},
      {"image", {{"dtype", "uint8"}, {"encodingFormat", "jpeg"}, {"shape", {{"dimensions", {"-1", "-1", "3"}}}}}}};
  features["file_name"] = text_feature();
  if (fields.labelled) {
    const ordered_json label = {{"pythonClassName", std::string(kFeatures) + "class_label_feature.ClassLabel"},
                                {"classLabel", {{"numClasses", std::to_string(classes)}}}};
    features[label_key(fields)] = fields.multi_label ? list_feature(label) : label;
  }
  for (size_t i = 0; i < fields.texts.size(); ++i)
    features[fields.texts[i]] = lists[i] ? list_feature(text_feature()) : text_feature();
  return {{"pythonClassName", std::string(kFeatures) + "features_dict.FeaturesDict"},
          {"featuresDict", {{"features", features}}}};
}

ordered_json info_json(const std::string& name, ConvertFormat format, const ConvertFields& fields,
                       const std::vector<ConvertedSplit>& splits) {
  ordered_json json = {{"name", name},
                       {"version", "1.0.0"},
                       {"fileFormat", convert_format_name(format)},
                       {"moduleName", "tessera"},
                       {"splits", ordered_json::array()}};
  for (const ConvertedSplit& split : splits) {
    ordered_json lengths = ordered_json::array();
    for (const int64_t length : split.shard_lengths) lengths.push_back(std::to_string(length));
    json["splits"].push_back({{"name", split.name},
                              {"filepathTemplate", "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"},
                              {"numBytes", std::to_string(split.bytes)},
                              {"shardLengths", std::move(lengths)}});
  }
  if (fields.labelled) {
    const ordered_json items = {{{"featureKey", "image"}}, {{"featureKey", label_key(fields)}}};
    json["supervisedKeys"] = {{"tuple", {{"items", items}}}};
  }
  return json;
}

}  // namespace

std::string write_tfds_metadata(const std::string& folder, const std::string& name, ConvertFormat format,
                                const ConvertFields& fields, const TextLists& lists, const std::vector<std::string>& classes,
                                const std::vector<ConvertedSplit>& splits) {
  std::string list = fields.labelled ? fmt::format("{}.labels.txt", label_key(fields)) : "";
  if (fields.labelled) write(store::join_path(folder, list), join(classes, "\n"));
  write(folder + "/features.json",
        features_json(fields, lists, classes.size()).dump(2, ' ', false, ordered_json::error_handler_t::replace));
  write(folder + "/dataset_info.json",
        info_json(name, format, fields, splits).dump(2, ' ', false, ordered_json::error_handler_t::replace));
  return list;
}

std::string write_tar_metadata(const std::string& folder, const std::vector<std::string>& classes,
                               const std::vector<ConvertedSplit>& splits) {
  if (!classes.empty()) write(store::join_path(folder, kClassList), join(classes, "\n"));
  ordered_json json = {{"splits", ordered_json::object()}};
  for (const ConvertedSplit& split : splits) {
    json["splits"][split.name] = {{"name", split.name},
                                  {"filenames", split.files},
                                  {"shard_lengths", split.shard_lengths},
                                  {"num_samples", split.samples}};
  }
  write(folder + "/_info.json", json.dump(2, ' ', false, ordered_json::error_handler_t::replace));
  return classes.empty() ? "" : std::string(kClassList);
}

}  // namespace tessera::data
