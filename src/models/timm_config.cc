#include "models/timm_config.h"

#include <algorithm>
#include <tuple>

#include "models/timm_args.h"

namespace tessera::models {
namespace {

Json args_of(const Family& family, const TimmArchitecture& architecture) {
  InputShape input;
  input.height = input.width = architecture.image_size;
  input.classes = 1;
  return Json::parse(family.from_timm(architecture.args, input, architecture.name)->timm_args());
}

// Whether config.json can turn the architecture into a model of the arguments `wanted`: timm drops arguments that are null.
bool can_become(const Family& family, const Json& given, const Json& wanted) {
  for (const auto& [key, value] : wanted.items()) {
    const bool fixed = value.is_null() || std::ranges::find(family.fixed, key) != family.fixed.end();
    if (fixed && given[key] != value) return false;
  }
  return true;
}

// The architecture that is this very model, the first or the first of the same image size; else a plain one, and the arguments
// to give to it.
std::pair<const TimmArchitecture*, Json> nearest_architecture(const Classifier& model) {
  const Family& family = model.family();
  const Json wanted = Json::parse(model.timm_args());
  const TimmArchitecture* same = nullptr;
  for (const TimmArchitecture& architecture : family.architectures) {
    if (args_of(family, architecture) != wanted) continue;
    const int64_t side = model.input().height;
    if (same == nullptr || (same->image_size != side && architecture.image_size == side)) same = &architecture;
  }
  if (same != nullptr) return {same, Json::object()};
  for (const char* name : family.plain) {
    const TimmArchitecture* plain = find_named(name).architecture;
    if (!can_become(family, args_of(family, *plain), wanted)) continue;
    Json given = Json::object();
    for (const auto& [key, value] : wanted.items()) {
      if (!value.is_null() && std::ranges::find(family.fixed, key) == family.fixed.end()) given[key] = value;
    }
    return {plain, given};
  }
  Json fixed;
  for (const char* key : family.fixed) fixed[key] = wanted[key];
  throw usage_error(fmt::format("timm has no registered model of the family {} with {}", family.name, fixed.dump()), "model",
                    fmt::format("`tessera models {}` lists what it has", family.name));
}

TimmPreprocessing preprocessing_of(const Json& cfg, const std::string& where) {
  TimmPreprocessing p;
  const std::vector<double> size = get(cfg, "input_size", std::vector<double>{3, 224, 224}, where);
  if (size.size() != 3) throw data_error("`input_size` must be [channels, height, width]", where);
  p.channels = static_cast<int64_t>(size[0]), p.height = static_cast<int64_t>(size[1]), p.width = static_cast<int64_t>(size[2]);
  p.mean = get(cfg, "mean", p.mean, where);
  p.std = get(cfg, "std", p.std, where);
  p.crop_pct = get(cfg, "crop_pct", p.crop_pct, where);
  p.crop_mode = get(cfg, "crop_mode", p.crop_mode, where);
  p.interpolation = get(cfg, "interpolation", p.interpolation, where);
  return p;
}

// What the classifier sees.
int64_t feature_count(const Classifier& model) {
  const std::string head = model.heads().front();
  for (const TimmEntry& entry : model.timm_map().entries) {
    if (entry.name == head + ".weight") return entry.dims[1];
  }
  TESSERA_CHECK(false, "{} has no classifier {}", model.family().name, head);
}

// The layer that reads the image.
std::string first_conv(const Classifier& model) {
  for (const TimmEntry& entry : model.timm_map().entries) {
    if (!entry.window.empty()) return entry.name.substr(0, entry.name.rfind('.'));
  }
  TESSERA_CHECK(false, "{} has no kernel that reads the image", model.family().name);
}

}  // namespace

ModelConfig parse_timm_config(std::string_view json, const std::string& where) {
  const Json root = parse_object(json, where);
  ModelConfig config;
  config.architecture = get<std::string>(root, "architecture", "", where);
  const auto [family, architecture] = find_named(config.architecture);
  if (family == nullptr) {
    const auto near = nearest_name(config.architecture, named_models());
    throw data_error(fmt::format("`architecture` is \"{}\", which this program does not have", config.architecture), where,
                     near ? fmt::format("did you mean `{}`?", *near) : "`tessera models` lists what it has");
  }
  // An old file is the pretrained_cfg itself.
  const Json cfg = root.contains("pretrained_cfg") ? root["pretrained_cfg"] : root;
  Json args = Json::parse(architecture->args);
  if (root.contains("model_args") && root["model_args"].is_object()) args.update(root["model_args"]);
  config.preprocessing = preprocessing_of(cfg, where);

  InputShape input;
  input.height = config.preprocessing->height, input.width = config.preprocessing->width;
  std::tie(input.height, input.width) = get_image_size(args, "img_size", {input.height, input.width}, where);
  input.channels = get<int64_t>(args, "in_chans", config.preprocessing->channels, where);
  const int64_t classes = get<int64_t>(root, "num_classes", get<int64_t>(cfg, "num_classes", 1000, where), where);
  input.classes = get<int64_t>(args, "num_classes", classes, where);
  config.model = family->from_timm(args.dump(), input, where);
  const Json& labels = root.contains("label_names") ? root["label_names"] : cfg.value("label_names", Json());
  config.label_names = class_names(labels, "label_names", input.classes, where);
  return config;
}

std::string write_timm_config(const Classifier& model, const TimmPreprocessing& p,
                              const std::vector<std::string>& label_names) {
  const Family& family = model.family();
  const InputShape& input = model.input();
  const auto [architecture, different] = nearest_architecture(model);
  Json args = different;
  if (family.takes_image_size) args["img_size"] = {input.height, input.width};
  args["num_classes"] = input.classes;
  args["in_chans"] = input.channels;
  const std::vector<std::string> heads = model.heads();

  Json root;
  root["architecture"] = architecture->name;
  root["num_classes"] = input.classes;
  root["num_features"] = feature_count(model);
  if (!label_names.empty()) root["label_names"] = label_names;
  root["model_args"] = args;
  root["pretrained_cfg"] = {{"input_size", {p.channels, p.height, p.width}},
                            {"fixed_input_size", family.takes_image_size},
                            {"interpolation", p.interpolation},
                            {"crop_pct", p.crop_pct},
                            {"crop_mode", p.crop_mode},
                            {"mean", p.mean},
                            {"std", p.std},
                            {"num_classes", input.classes},
                            {"pool_size", nullptr},
                            {"first_conv", first_conv(model)},
                            {"classifier", heads.size() == 1 ? Json(heads[0]) : Json(heads)}};
  return root.dump(2) + "\n";
}

}  // namespace tessera::models
