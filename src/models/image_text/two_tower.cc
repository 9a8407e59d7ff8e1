#include "models/image_text/two_tower.h"

#include <cmath>

#include "base/error.h"
#include "ir/functions.h"
#include "nn/dense.h"

namespace tessera::models {

extern const Family kTwoTower;

namespace {

using ir::Value;

// big_vision's image head has zeros at first, at which the norm of its vectors has no gradient: both heads are as the text's.
Value head(const nn::Scope& scope, Value x, int64_t out_dim) {
  return nn::shard(scope, nn::dense(scope / "head", x, out_dim), {nn::Along::kBatch});
}

// Unit vectors, by big_vision's formula.
Value normalize(Value x) {
  x = ir::convert(x, DType::kF32);
  return x / (ir::sqrt(ir::sum(ir::square(x), {1}, true)) + 1e-8);
}

}  // namespace

Value TwoTower::embed_images(const nn::Scope& scope, Value images) const {
  const nn::Scope tower = scope / "img";
  const Value x = image_.features(tower, images);
  return normalize(config_.image_head ? head(tower, x, config_.out_dim) : x);
}

Value TwoTower::embed_texts(const nn::Scope& scope, Value texts) const {
  const nn::Scope tower = scope / "txt";
  return normalize(head(tower, text_.features(tower, texts), config_.out_dim));
}

Value TwoTower::temperature(const nn::Scope& scope) const {
  return ir::exp(scope.param("t", {1}, nn::init::constant(std::log(config_.temperature_init))));
}

Value TwoTower::bias(const nn::Scope& scope) const {
  return config_.bias_init ? scope.param("b", {1}, nn::init::constant(*config_.bias_init)) : Value{};
}

std::string TwoTower::describe() const {
  const ViTConfig& image = config_.image;
  const TextConfig& text = config_.text;
  return fmt::format("two towers: ViT {} x {}, patch {}, {} x {} images; text {} x {}, {} tokens of {}; {} dimensions",
                     image.width, image.depth, image.patch, image.input.height, image.input.width, text.width, text.depth,
                     text.tokens, text.vocabulary, config_.out_dim);
}

namespace {

// Turns the options into a config.
class TwoTowerResolver : private OptionChecks {
 public:
  TwoTowerResolver(const TwoTowerOptions& options, const InputShape& data, const FailOption& fail)
      : OptionChecks(fail), o_(options), data_(data) {}

  TwoTowerConfig run() {
    image();
    c_.text = resolve(o_.text, data_, within("text."));
    const InputShape& in = c_.image.input;
    c_.input = {in.height, in.width, in.channels, data_.classes, c_.text.tokens, c_.text.vocabulary};
    common_space();
    c_.temperature_init = positive("temperature_init", o_.temperature_init), c_.bias_init = o_.bias_init;
    return c_;
  }

 private:
  void image() {
    ViTOptions vit = o_.image.vit;
    vit.classes = 1;  // there is no head
    c_.image = resolve(vit, data_, within("image."));
    if (c_.image.pool == Pool::kNone) fail("image.pool", "keeps every token", "use gap, map or tok");
  }

  void common_space() {
    const int64_t features = c_.image.rep_size > 0 ? c_.image.rep_size : c_.image.width;
    c_.out_dim = positive("out_dim", o_.out_dim.value_or(features));
    c_.image_head = o_.image_head.value_or(o_.out_dim.has_value());
    if (c_.image_head || c_.out_dim == features) return;
    fail("out_dim", fmt::format("is {}, and the image tower, which has no head, gives {}", c_.out_dim, features),
         "leave it out, or set image_head = true");
  }

  const TwoTowerOptions& o_;
  const InputShape& data_;
  TwoTowerConfig c_;
};

}  // namespace

TimmMap TwoTower::timm_map() const { return tower_map(*this, "img", image_); }

TwoTowerConfig resolve(const TwoTowerOptions& options, const InputShape& data, const FailOption& fail) {
  return TwoTowerResolver(options, data, fail).run();
}

namespace {

// The named model's options where there is a name, and the recipe's own over them.
TwoTowerOptions read_options(config::Section section) {
  TwoTowerOptions options;
  if (const std::string named = variant_options(section, kTwoTower); !named.empty()) {
    config::parse_recipe("model = { " + named + " }", kTwoTower.name).section("model").bind(options);
  }
  section.bind(options);
  return options;
}

}  // namespace

#define TESSERA_SIGLIP(image, pixels, text, tokens, vocabulary)                                              \
  "image = { variant = \"" image "\", image_size = " pixels ", pool = \"map\" }, text = { variant = \"" text \
  "\", tokens = " tokens ", vocabulary = " vocabulary " }, bias_init = -10"

const Family kTwoTower = {
    .name = "two_tower",
    .title = "two towers, images and texts in one space: SigLIP, CLIP",
    .make = [](config::Section section, const InputShape& data) -> std::unique_ptr<Model> {
      const FailOption fail = fail_in(section);
      return std::make_unique<TwoTower>(resolve(read_options(std::move(section)), data, fail));
    },
    .keys = [](const std::string& prefix) { return config::describe<TwoTowerOptions>({}, prefix); },
    .architectures = {},
    // As big_vision released them (configs/proj/image_text/SigLIP_demo.ipynb); of So400m/14's 384 pixels its convolution reads
    // 378.
    .others =
        {
            {"siglip_b16_224", TESSERA_SIGLIP("B/16", "224", "B", "64", "32000")},
            {"siglip_b16_256", TESSERA_SIGLIP("B/16", "256", "B", "64", "32000")},
            {"siglip_b16_384", TESSERA_SIGLIP("B/16", "384", "B", "64", "32000")},
            {"siglip_b16_512", TESSERA_SIGLIP("B/16", "512", "B", "64", "32000")},
            {"siglip_l16_256", TESSERA_SIGLIP("L/16", "256", "L", "64", "32000")},
            {"siglip_l16_384", TESSERA_SIGLIP("L/16", "384", "L", "64", "32000")},
            {"siglip_so400m14_224", TESSERA_SIGLIP("So400m/14", "224", "So400m", "16", "32000")},
            {"siglip_so400m14_378", TESSERA_SIGLIP("So400m/14", "378", "So400m", "64", "32000")},
            {"siglip_b16_i18n_256", TESSERA_SIGLIP("B/16", "256", "B", "64", "250000")},
        },
    .first_conv = "img.patch_embed.proj",
};

const Family& TwoTower::family() const { return kTwoTower; }

}  // namespace tessera::models
