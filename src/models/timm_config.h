#pragma once
// timm's model directory: `config.json` beside `model.safetensors`, as timm's save_for_hf writes and `local-dir:` reads it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/vit_options.h"

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

struct TimmConfig {
  std::string architecture;
  ViTOptions model;  // every option that the file decides is set: image size and classes too
  InputShape input;
  TimmPreprocessing preprocessing;
  std::vector<std::string> label_names;  // by index; empty when the file has none
};

// Reads config.json. A data error (malformed, not a ViT, an argument that has no counterpart here) names `where` and the entry.
TimmConfig parse_timm_config(std::string_view json, const std::string& where);
// The options that `args`, arguments of timm's VisionTransformer as JSON, mean; everything unnamed has timm's default.
ViTOptions vit_options_of_timm(std::string_view args, const std::string& where);

// config.json for a model: the registered architecture that it is, else a plain one with the arguments that differ. A usage
// error when timm has no such model (rep_size, another norm epsilon than 1e-6 and 1e-5).
std::string write_timm_config(const ViTConfig& config, const TimmPreprocessing& preprocessing,
                              const std::vector<std::string>& label_names = {});

}  // namespace tessera::models
