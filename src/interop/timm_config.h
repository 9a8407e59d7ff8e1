#pragma once
// timm's model directory: `config.json` beside `model.safetensors`, as timm's save_for_hf writes and `local-dir:` reads it.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"

namespace tessera::interop {

// How timm prepares an image for evaluation: the shorter side resized to floor(size / crop_pct), a centre crop, (x / 255 -
// mean) / std.
struct TimmPreprocessing {
  int64_t channels = 3, height = 224, width = 224;
  std::vector<double> mean = {0.485, 0.456, 0.406}, std = {0.229, 0.224, 0.225};  // of values in [0, 1], by channel
  double crop_pct = 0.875;
  std::string crop_mode = "center";  // or "squash": both sides to floor(size / crop_pct), whatever the image's shape
  std::string interpolation = "bicubic";
  // Half of an odd number of pixels to spare is rounded down before a centre crop, as Hugging Face does, and not to even.
  bool crop_down = false;

  // What `size` is cut out of.
  int64_t resized(int64_t size) const;
};
// Whether timm and Tessera can crop so: a part of the image, and no tiny one.
bool is_crop_share(double crop_pct);
// The crop_pct with which `size` is cut out of `resized` pixels.
double crop_share(int64_t size, int64_t resized);

// What a directory says of the weights in it.
struct ModelConfig {
  std::string architecture;
  std::unique_ptr<models::Classifier> model;
  std::optional<TimmPreprocessing> preprocessing;  // where it is known
  std::vector<std::string> label_names;            // by index; empty when the file has none
  bool multi_label = false;                        // an image has any number of labels
};

// How Hugging Face's config.json says that an image has any number of labels; timm's has no word for it, and passes over this one.
inline constexpr const char* kProblemType = "problem_type";
inline constexpr const char* kMultiLabel = "multi_label_classification";

// Reads config.json. A data error (malformed, a model that this program does not have, an argument that has no counterpart
// here) names `where` and the entry.
ModelConfig parse_timm_config(std::string_view json, const std::string& where);

// config.json for a model: the registered architecture that it is, else a plain one of its family with arguments. A usage error
// when timm has no such model.
std::string write_timm_config(const models::Classifier& model, const TimmPreprocessing& preprocessing,
                              const std::vector<std::string>& label_names = {}, bool multi_label = false);

// Preprocessing as a chain: "decode | resize_small(256, interpolation=bicubic) | central_crop(224) | …". A crop_mode other than
// "center" and "squash" is a data error.
std::string timm_pp(const TimmPreprocessing& preprocessing);

}  // namespace tessera::interop
