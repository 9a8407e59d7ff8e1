#pragma once
// Two towers: a ViT for images and a transformer for texts, whose vectors are compared. CLIP (Radford et al. 2021) and SigLIP
// (Zhai et al. 2023), as big_vision's models/proj/image_text/two_towers.py.
//
// Parameters, and big_vision's names for them:
//   img/…                 img/…, as ViT of style big_vision without its head (models/vit/vit.h)
//   img/head/{kernel,bias}  img/head, where the tower has one
//   txt/…                 txt/…, as models/image_text/text_transformer.h says
//   txt/head/{kernel,bias}  txt/head
//   t [1]                 t, the logarithm of the temperature
//   b [1]                 b, where there is a bias

#include <optional>
#include <string_view>

#include "models/image_text/image_text.h"
#include "models/image_text/text_transformer.h"
#include "models/vit/vit.h"

namespace tessera::models {

// The options of a ViT, but for those of a classifier's head.
struct ImageTowerOptions {
  ViTOptions vit = {.style = "big_vision"};
  static bool is_of_head(std::string_view key) { return key == "classes" || key == "distilled" || key.starts_with("head_"); }
  template <class Visitor>
  void visit(Visitor&& field) {
    vit.visit([&](const char* key, auto& value, FieldHelp help) {
      if (!is_of_head(key)) field(key, value, help);
    });
  }
};

struct TwoTowerOptions {
  std::string variant;
  ImageTowerOptions image;
  TextOptions text;
  std::optional<int64_t> out_dim;
  std::optional<bool> image_head;
  double temperature_init = 10;
  std::optional<double> bias_init;

  template <class Visitor>
  void visit(Visitor&& field) {
    field("variant", variant, "a model of `tessera models two_tower`, as siglip_b16_224; the keys below change it");
    field("image", image, "the image tower");
    field("text", text, "the text tower");
    field("out_dim", out_dim, "size of the common space; what the image tower gives when not given");
    field("image_head", image_head,
          "whether a dense layer follows the image tower, as one follows the text tower; true where out_dim is given");
    field("temperature_init", temperature_init, "first value of the temperature, which is trained as its logarithm");
    field("bias_init", bias_init, "first value of the bias of similarities, -10 in SigLIP; no bias when not given");
  }
};

// TwoTowerOptions with every choice made and checked.
struct TwoTowerConfig {
  InputShape input;
  ViTConfig image;  // pools, without a head
  TextConfig text;
  int64_t out_dim = 0;
  bool image_head = false;
  double temperature_init = 10;
  std::optional<double> bias_init;
};

// Throws usage Errors as resolve() of ViTOptions does.
TwoTowerConfig resolve(const TwoTowerOptions& options, const InputShape& data = {}, const FailOption& fail = {});

class TwoTower : public ImageText {
 public:
  explicit TwoTower(TwoTowerConfig config) : config_(std::move(config)), image_(config_.image), text_(config_.text) {}

  ir::Value embed_images(const nn::Scope& scope, ir::Value images) const override;
  ir::Value embed_texts(const nn::Scope& scope, ir::Value texts) const override;
  ir::Value temperature(const nn::Scope& scope) const override;
  ir::Value bias(const nn::Scope& scope) const override;
  const InputShape& input() const override { return config_.input; }
  const Family& family() const override;
  TimmMap timm_map() const override;
  std::string describe() const override;
  const TwoTowerConfig& config() const { return config_; }
  const TwoTowerConfig* two_tower_config() const override { return &config_; }

 private:
  TwoTowerConfig config_;
  ViT image_;
  TextTransformer text_;
};

}  // namespace tessera::models
