#pragma once
// timm's model directory: `config.json` beside `model.safetensors`, as timm's save_for_hf writes and `local-dir:` reads it.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"

namespace tessera::models {

// How timm prepares an image for evaluation: the shorter side resized to floor(size / crop_pct), a centre crop, (x / 255 -
// mean) / std.
struct TimmPreprocessing {
  int64_t channels = 3, height = 224, width = 224;
  std::vector<double> mean = {0.485, 0.456, 0.406}, std = {0.229, 0.224, 0.225};  // of values in [0, 1], by channel
  double crop_pct = 0.875;
  std::string crop_mode = "center";
  std::string interpolation = "bicubic";
};

// What a directory says of the weights in it.
struct ModelConfig {
  std::string architecture;
  std::unique_ptr<Classifier> model;
  std::optional<TimmPreprocessing> preprocessing;  // where it is known
  std::vector<std::string> label_names;            // by index; empty when the file has none
};

// Reads config.json. A data error (malformed, a model that this program does not have, an argument that has no counterpart
// here) names `where` and the entry.
ModelConfig parse_timm_config(std::string_view json, const std::string& where);

// config.json for a model: the registered architecture that it is, else a plain one of its family with arguments. A usage error
// when timm has no such model.
std::string write_timm_config(const Classifier& model, const TimmPreprocessing& preprocessing,
                              const std::vector<std::string>& label_names = {});

}  // namespace tessera::models
