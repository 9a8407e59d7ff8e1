#include "interop/timm_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "models/timm_args.h"

namespace tessera::interop {
namespace {

models::Json args_of(const models::Family& family, const models::TimmArchitecture& architecture) {
  models::InputShape input;
  input.height = input.width = architecture.image_size;
  input.classes = 1;
  return models::parse_object(family.from_timm(architecture.args, input, architecture.name)->timm_args(), architecture.name);
}

// Whether config.json can turn the architecture into a model of the arguments `wanted`: timm drops arguments that are null.
bool can_become(const models::Family& family, const models::Json& given, const models::Json& wanted) {
  for (const auto& [key, value] : wanted.items()) {
    const bool fixed = value.is_null() || std::ranges::find(family.fixed, key) != family.fixed.end();
    if (fixed && given[key] != value) return false;
  }
  return true;
}

// The architecture that is this very model, the first or the first of the same image size; else a plain one, and the arguments
// to give to it.
std::pair<const models::TimmArchitecture*, models::Json> nearest_architecture(const models::Classifier& model) {
  const models::Family& family = model.family();
  const models::Json wanted = models::parse_object(model.timm_args(), family.name);
  const models::TimmArchitecture* same = nullptr;
  for (const models::TimmArchitecture& architecture : family.architectures) {
    if (args_of(family, architecture) != wanted) continue;
    const int64_t side = model.input().height;
    if (same == nullptr || (same->image_size != side && architecture.image_size == side)) same = &architecture;
  }
  if (same != nullptr) return {same, models::Json::object()};
  for (const char* name : family.plain) {
    const models::TimmArchitecture* plain = models::find_named(name).architecture;
    if (!can_become(family, args_of(family, *plain), wanted)) continue;
    models::Json given = models::Json::object();
    for (const auto& [key, value] : wanted.items()) {
      if (!value.is_null() && std::ranges::find(family.fixed, key) == family.fixed.end()) given[key] = value;
    }
    return {plain, given};
  }
  models::Json fixed;
  for (const char* key : family.fixed) fixed[key] = wanted[key];
  throw usage_error(fmt::format("timm has no registered model of the family {} with {}", family.name, fixed.dump()), "model",
                    fmt::format("`tessera models {}` lists what it has", family.name));
}

TimmPreprocessing preprocessing_of(const models::Json& cfg, const std::string& where) {
  TimmPreprocessing p;
  const std::vector<int64_t> size = models::get(cfg, "input_size", std::vector<int64_t>{3, 224, 224}, where);
  if (size.size() != 3) throw data_error("`input_size` must be [channels, height, width]", where);
  p.channels = size[0], p.height = size[1], p.width = size[2];
  p.mean = models::get(cfg, "mean", p.mean, where);
  p.std = models::get(cfg, "std", p.std, where);
  p.crop_pct = models::get(cfg, "crop_pct", p.crop_pct, where);
  if (!is_crop_share(p.crop_pct)) models::bad_entry("crop_pct", cfg["crop_pct"], "a share of the image, up to 1", where);
  p.crop_mode = models::get(cfg, "crop_mode", p.crop_mode, where);
  p.interpolation = models::get(cfg, "interpolation", p.interpolation, where);
  return p;
}

// What the classifier sees.
int64_t feature_count(const models::Classifier& model) {
  const std::string head = model.heads().front();
  for (const models::TimmEntry& entry : model.timm_map().entries) {
    if (entry.name == head + ".weight") return entry.dims[1];
  }
  TESSERA_CHECK(false, "{} has no classifier {}", model.family().name, head);
}

// The layer that reads the image.
std::string first_conv(const models::Classifier& model) {
  for (const models::TimmEntry& entry : model.timm_map().entries) {
    if (!entry.window.empty()) return entry.name.substr(0, entry.name.rfind('.'));
  }
  TESSERA_CHECK(false, "{} has no kernel that reads the image", model.family().name);
}

}  // namespace

int64_t TimmPreprocessing::resized(int64_t size) const {
  return static_cast<int64_t>(std::floor(static_cast<double>(size) / crop_pct));
}

bool is_crop_share(double crop_pct) { return crop_pct >= 0.01 && crop_pct <= 1; }

double crop_share(int64_t size, int64_t resized) {
  const auto wanted = static_cast<double>(resized);
  double share = static_cast<double>(size) / wanted;
  // The nearest number may fall short by rounding.
  while (std::floor(static_cast<double>(size) / share) < wanted) share = std::nextafter(share, 0.0);
  return share;
}

ModelConfig parse_timm_config(std::string_view json, const std::string& where) {
  const models::Json root = models::parse_object(json, where);
  ModelConfig config;
  config.architecture = models::get<std::string>(root, "architecture", "", where);
  const auto [family, architecture] = models::find_named(config.architecture);
  if (family == nullptr) {
    const auto near = nearest_name(config.architecture, models::named_models());
    throw data_error(fmt::format("`architecture` is \"{}\", which this program does not have", config.architecture), where,
                     near ? fmt::format("did you mean `{}`?", *near) : "`tessera models` lists what it has");
  }
  // An old file is the pretrained_cfg itself.
  const models::Json cfg = root.contains("pretrained_cfg") ? root["pretrained_cfg"] : root;
  models::Json args = models::parse_object(architecture->args, where);
  if (root.contains("model_args") && root["model_args"].is_object()) {
    // Each is looked for among those before it.
    constexpr size_t kMaxArgs = 1000;
    if (root["model_args"].size() > kMaxArgs) {
      throw data_error(fmt::format("`model_args` has {} entries, more than {}", root["model_args"].size(), kMaxArgs), where);
    }
    args.update(root["model_args"]);
  }
  config.preprocessing = preprocessing_of(cfg, where);

  models::InputShape input;
  input.height = config.preprocessing->height, input.width = config.preprocessing->width;
  std::tie(input.height, input.width) = models::get_image_size(args, "img_size", {input.height, input.width}, where);
  input.channels = models::get<int64_t>(args, "in_chans", config.preprocessing->channels, where);
  const int64_t classes =
      models::get<int64_t>(root, "num_classes", models::get<int64_t>(cfg, "num_classes", 1000, where), where);
  input.classes = models::get<int64_t>(args, "num_classes", classes, where);
  config.model = family->from_timm(args.dump(), input, where);
  const models::Json& labels = root.contains("label_names") ? root["label_names"]
                               : cfg.is_object()            ? cfg.value("label_names", models::Json())
                                                            : models::Json();
  config.label_names = models::class_names(labels, "label_names", input.classes, where);
  return config;
}

std::string write_timm_config(const models::Classifier& model, const TimmPreprocessing& p,
                              const std::vector<std::string>& label_names, bool multi_label) {
  const models::Family& family = model.family();
  const models::InputShape& input = model.input();
  const auto [architecture, different] = nearest_architecture(model);
  models::Json args = different;
  if (family.takes_image_size) args["img_size"] = {input.height, input.width};
  args["num_classes"] = input.classes;
  args["in_chans"] = input.channels;
  const std::vector<std::string> heads = model.heads();

  models::Json root;
  root["architecture"] = architecture->name;
  root["num_classes"] = input.classes;
  root["num_features"] = feature_count(model);
  if (!label_names.empty()) root["label_names"] = label_names;
  if (multi_label) root[kProblemType] = kMultiLabel;
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
                            {"classifier", heads.size() == 1 ? models::Json(heads[0]) : models::Json(heads)}};
  return root.dump(2) + "\n";
}

std::string timm_pp(const TimmPreprocessing& p) {
  const bool squash = p.crop_mode == "squash";
  if (!squash && p.crop_mode != "center") {
    throw data_error(fmt::format("crop_mode \"{}\" is not supported", p.crop_mode), "config.json",
                     "use \"center\" or \"squash\"");
  }
  if (p.channels != 1 && p.channels != 3) {
    throw data_error(fmt::format("the model takes images of {} channels", p.channels), "config.json", "1 and 3 are supported");
  }
  if (p.channels == 1 && (p.mean.size() != 1 || p.std.size() != 1)) {
    throw data_error("mean and std of a model of one channel must be one number each", "config.json");
  }
  const auto list = [](const std::vector<double>& values) { return fmt::format("[{}]", fmt::join(values, ", ")); };
  const std::string resize = squash ? fmt::format("resize({}, {}", p.resized(p.width), p.resized(p.height))
                                    : fmt::format("resize_small({}", p.resized(std::min(p.height, p.width)));
  return fmt::format("decode | {}, interpolation={}) | central_crop({}, {}{}) | {}normalise(mean={}, std={})", resize,
                     p.interpolation, p.width, p.height, p.crop_down ? ", library=tensorflow" : "",
                     p.channels == 1 ? "grayscale | " : "", list(p.mean), list(p.std));
}

}  // namespace tessera::interop
