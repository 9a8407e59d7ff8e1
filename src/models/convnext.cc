// ConvNeXt (Liu et al. 2022) and ConvNeXt V2 (Woo et al. 2023) as timm has them: stages of residual blocks, each a depthwise
// convolution, a layer norm and an MLP over channels.
//
// Parameters, names as timm's; blocks of a stage are stacked, first axis = their number:
//   stem/<n>/… stages/<i>/downsample/{0,1}/… stages/<i>/blocks/conv_dw/{kernel,bias} stages/<i>/blocks/norm/{scale,bias}
//   stages/<i>/blocks/mlp/{fc1,fc2}/{kernel,bias} stages/<i>/blocks/mlp/grn/{scale,bias} stages/<i>/blocks/gamma
//   norm_pre/… | head/norm/… head/pre_logits/fc/… head/fc/{kernel,bias}

#include <numeric>

#include "base/error.h"
#include "ir/functions.h"
#include "models/option_checks.h"
#include "models/timm_args.h"
#include "nn/blocks/blocks.h"
#include "nn/blocks/fused_block.h"
#include "nn/blocks/mlp.h"
#include "nn/conv.h"
#include "nn/dense.h"
#include "nn/dropout.h"
#include "nn/norm/layer_norm.h"
#include "nn/norm/layer_scale.h"
#include "nn/norm/response_norm.h"

namespace tessera::models {

extern const Family kConvNeXt;

namespace {

struct ConvNeXtOptions {
  std::optional<std::string> variant;
  std::vector<int64_t> dims = {96, 192, 384, 768}, depths = {3, 3, 9, 3}, kernel_sizes = {7};
  std::optional<int64_t> image_size, classes;
  std::string stem = "patch", gelu = "exact", remat = "auto";
  int64_t patch = 4, head_hidden = 0;
  double norm_epsilon = 1e-6;
  std::optional<double> layer_scale = 1e-6;
  bool bias = true, response_norm = false, norm_first = false, conv_mlp = false;
  double head_dropout = 0, drop_path = 0;

  template <class Visitor>
  void visit(Visitor&& field) {
    field("variant", variant, "a name of timm's, as convnext_tiny; the options below override it");
    field("dims", dims, "channels of each of the four stages");
    field("depths", depths, "blocks of each stage");
    field("kernel_sizes", kernel_sizes, "side of the depthwise window, one for all stages or one for each");
    field("image_size", image_size, "side of the (square) images; from the data when not given");
    field("classes", classes, "number of classes; from the data when not given");
    field("stem", stem, "patch (one convolution of stride `patch`), overlap, overlap_tiered or overlap_act (two of stride 2)");
    field("patch", patch, "side of the patches of the stem \"patch\"");
    field("norm_epsilon", norm_epsilon, "epsilon of the layer norms");
    field("layer_scale", layer_scale, "first value of the factor on each block's branch; 0 = none");
    field("bias", bias, "bias of convolutions");
    field("response_norm", response_norm, "global response normalisation in the MLP (V2)");
    field("norm_first", norm_first, "the last norm comes before pooling");
    field("head_hidden", head_hidden, "width of a GELU layer before the head; 0 = none");
    field("gelu", gelu, "exact or tanh");
    field("conv_mlp", conv_mlp, "timm's file keeps the MLPs as 1 x 1 convolutions; the same function");
    field("head_dropout", head_dropout, "of what the head sees");
    field("drop_path", drop_path, "stochastic depth of the last block; grows linearly from 0 at the first of all stages");
    field("remat", remat,
          may_change("what the backward pass recomputes of each block: auto (none on GPUs where that fits, else dots), full "
                     "(all), none, dots (all but the products) or "
                     "save(names…) of conv_dw, fc1, fc2"));
  }
};

ConvNeXtOptions convnext_options_of_timm(std::string_view json, const std::string& where) {
  TimmArgs args(json, where);
  ConvNeXtOptions o;
  args.word("global_pool", "avg", {{"avg", "gap"}});
  o.dims = args.get("dims", o.dims);
  o.depths = args.get("depths", o.depths);
  const Json sizes = args.raw("kernel_sizes");
  if (!sizes.is_null()) {
    o.kernel_sizes =
        sizes.is_array() ? args.get("kernel_sizes", o.dims) : std::vector<int64_t>{args.get<int64_t>("kernel_sizes", 7)};
  }
  o.stem = args.text("stem_type", "patch");
  o.patch = args.get<int64_t>("patch_size", 4);
  o.norm_epsilon = args.get("norm_eps", 1e-6);
  o.gelu = args.word("act_layer", "gelu", {{"gelu", "exact"}, {"gelu_tanh", "tanh"}});
  o.bias = args.get("conv_bias", true);
  o.response_norm = args.get("use_grn", false);
  o.norm_first = args.get("head_norm_first", false);
  o.conv_mlp = args.get("conv_mlp", false);
  o.head_hidden = args.get<int64_t>("head_hidden_size", 0);
  const Json scale = args.raw("ls_init_value");
  // Left out, it has a default; null means none.
  if (args.has("ls_init_value")) o.layer_scale = scale.is_null() ? 0 : args.get("ls_init_value", 1e-6);
  args.finish();
  return o;
}

// ConvNeXtOptions with every choice made and checked.
struct ConvNeXtConfig {
  InputShape input;
  std::vector<int64_t> dims, depths, kernel_sizes;
  std::string stem;
  nn::Activation gelu = nn::Activation::kGelu;
  int64_t patch = 4, head_hidden = 0;
  double norm_epsilon = 0, layer_scale = 0;  // layer_scale 0: none
  bool bias = true, response_norm = false, norm_first = false, conv_mlp = false;
  double head_dropout = 0, drop_path = 0;
  ir::RematPolicy remat;

  // A stem of stride 2 leaves another halving to the first stage, as in timm.
  bool halves(size_t stage) const { return stage > 0 || (stem == "patch" && patch == 2); }
  int64_t stride() const { return stem == "patch" && patch == 1 ? 8 : 32; }
};

ConvNeXtConfig resolve(const ConvNeXtOptions& o, const InputShape& data, const FailOption& fail) {
  const OptionChecks check(fail);
  ConvNeXtConfig c;
  c.input = check.input(data, o.image_size, o.classes);
  const auto four = [&](const char* key, std::vector<int64_t> values) {
    if (values.size() != kStages) check.fail(key, fmt::format("must be {} numbers, and is {}", kStages, values.size()));
    for (const int64_t value : values) check.positive(key, value);
    return values;
  };
  c.dims = four("dims", o.dims);
  c.depths = four("depths", o.depths);
  for (const int64_t depth : c.depths) check.blocks("depths", depth);
  c.kernel_sizes =
      four("kernel_sizes", o.kernel_sizes.size() == 1 ? std::vector<int64_t>(kStages, o.kernel_sizes[0]) : o.kernel_sizes);
  for (const int64_t size : c.kernel_sizes) {
    if (size % 2 == 0) check.fail("kernel_sizes", fmt::format("must be odd, and one is {}", size));
  }
  const std::vector<std::string> stems = {"patch", "overlap", "overlap_tiered", "overlap_act"};
  c.stem = stems[check.choose("stem", o.stem, stems)];
  c.patch = o.patch;
  if (c.patch != 1 && c.patch != 2 && c.patch != 4) check.fail("patch", fmt::format("must be 1, 2 or 4, and is {}", c.patch));
  c.gelu = static_cast<nn::Activation>(check.choose("gelu", o.gelu, {"exact", "tanh"}));
  c.norm_epsilon = check.positive("norm_epsilon", o.norm_epsilon);
  c.layer_scale = o.layer_scale.value_or(0);
  check.not_negative("head_hidden", o.head_hidden);
  if (o.head_hidden > 0 && o.norm_first)
    check.fail("head_hidden", "needs the last norm behind the pooling", "use norm_first = false");
  c.head_hidden = o.head_hidden;
  c.bias = o.bias, c.response_norm = o.response_norm, c.norm_first = o.norm_first, c.conv_mlp = o.conv_mlp;
  c.head_dropout = check.rate("head_dropout", o.head_dropout);
  c.drop_path = check.rate("drop_path", o.drop_path);
  c.remat = check.remat(o.remat, {"conv_dw", "fc1", "fc2"});
  if (std::min(c.input.height, c.input.width) < c.stride()) {
    check.fail("image_size", fmt::format("must be at least {}, which the stages reduce to one pixel", c.stride()));
  }
  return c;
}

class ConvNeXt final : public Classifier {
 public:
  explicit ConvNeXt(ConvNeXtConfig config) : config_(std::move(config)) {}

  ir::Value features(const nn::Scope& scope, ir::Value images) const override {
    ir::Value x = stem(scope / "stem", images);
    const std::vector<double> rates = nn::linear_rates(config_.drop_path, total(config_.depths));
    auto next = rates.begin();
    for (size_t i = 0; i < kStages; ++i) {
      const auto end = next + config_.depths[i];
      x = stage(scope / "stages" / std::to_string(i), x, i, {next, end});
      next = end;
    }
    if (config_.norm_first) x = norm(scope / "norm_pre", x);
    x = ir::mean(x, {1, 2});
    if (config_.norm_first) return x;
    x = norm(scope / "head" / "norm", x);
    // timm's head has the exact GELU whatever the blocks have.
    if (config_.head_hidden > 0)
      x = ir::gelu_exact(nn::dense(scope / "head" / "pre_logits" / "fc", x, config_.head_hidden, dense()));
    return x;
  }

  ir::Value logits(const nn::Scope& scope, ir::Value images) const override {
    const ir::Value x = nn::dropout(scope / "head_drop", features(scope, images), config_.head_dropout);
    return ir::convert(nn::dense(scope / "head" / "fc", x, config_.input.classes, dense()), DType::kF32);
  }

  const InputShape& input() const override { return config_.input; }
  const Family& family() const override { return kConvNeXt; }

  // timm's group_matcher: the stem, each block, the head; the last norm with the last block.
  std::vector<LayerRule> layers() const override {
    std::vector<LayerRule> rules = {{"stem/.*", 0}};
    int64_t next = 1;
    for (size_t i = 0; i < kStages; ++i) {
      rules.push_back({fmt::format("stages/{}/(downsample|blocks)/.*", i), next});
      next += config_.depths[i];
    }
    rules.push_back({"norm_pre/.*", next - 1});
    return rules;
  }

  std::string timm_args() const override {
    const ConvNeXtConfig& c = config_;
    Json args;
    args["dims"] = c.dims;
    args["depths"] = c.depths;
    args["kernel_sizes"] = c.kernel_sizes;
    args["ls_init_value"] = c.layer_scale == 0 ? Json() : Json(c.layer_scale);
    args["stem_type"] = c.stem;
    if (c.stem == "patch") args["patch_size"] = c.patch;
    args["head_norm_first"] = c.norm_first;
    args["head_hidden_size"] = c.head_hidden == 0 ? Json(0) : Json(c.head_hidden);
    args["conv_mlp"] = c.conv_mlp;
    args["conv_bias"] = c.bias;
    args["use_grn"] = c.response_norm;
    args["act_layer"] = c.gelu == nn::Activation::kGelu ? "gelu" : "gelu_tanh";
    args["norm_eps"] = c.norm_epsilon;
    return args.dump();
  }

  TimmMap timm_map() const override {
    TimmMap map;
    map.entries = timm_entries(parameters(*this));
    for (TimmEntry& entry : map.entries) {
      const bool of_mlp = entry.name.find(".mlp.fc") != std::string::npos && entry.name.ends_with(".weight");
      if (config_.conv_mlp && of_mlp) entry.dims.insert(entry.dims.end(), {1, 1});
    }
    return map;
  }

  std::string describe() const override {
    const ConvNeXtConfig& c = config_;
    return fmt::format("ConvNeXt {} x {}, {} x {} images, {} classes", list_numbers(c.dims), list_numbers(c.depths),
                       c.input.height, c.input.width, c.input.classes);
  }

 private:
  static int64_t total(const std::vector<int64_t>& counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

  // timm's trunc_normal_(std=.02) cuts at a hundred standard deviations: a plain normal.
  static nn::DenseOptions dense() { return {true, nn::init::normal(0.02), nn::init::zeros()}; }
  nn::ConvOptions conv(int64_t stride, int64_t padding, int64_t groups = 1) const {
    return {stride, padding, groups, config_.bias, nn::init::normal(0.02), nn::init::zeros()};
  }
  ir::Value norm(const nn::Scope& scope, ir::Value x) const { return nn::layer_norm(scope, x, config_.norm_epsilon); }
  ir::Value gelu(ir::Value x) const { return config_.gelu == nn::Activation::kGelu ? ir::gelu_exact(x) : ir::gelu_tanh(x); }

  ir::Value stem(const nn::Scope& scope, ir::Value x) const {
    const int64_t width = config_.dims[0];
    if (config_.stem == "patch") {
      return norm(scope / "1", nn::conv(scope / "0", x, width, config_.patch, conv(config_.patch, 0)));
    }
    const bool act = config_.stem == "overlap_act";
    x = nn::conv(scope / "0", x, config_.stem == "overlap_tiered" ? timm_divisible(width / 2) : width, 3, conv(2, 1));
    if (act) x = gelu(x);
    x = nn::conv(scope / (act ? "2" : "1"), x, width, 3, conv(2, 1));
    return norm(scope / (act ? "3" : "2"), x);
  }

  ir::Value stage(const nn::Scope& scope, ir::Value x, size_t i, const std::vector<double>& rates) const {
    const int64_t width = config_.dims[i];
    if (config_.halves(i)) {
      const nn::Scope down = scope / "downsample";
      x = nn::conv(down / "1", norm(down / "0", x), width, 2, conv(2, 0));
    }
    const nn::BlockOptions options{config_.depths[i], rates, config_.remat, false};
    return nn::scan_blocks(scope / "blocks", x, options, [&](const nn::Scope& inner, ir::Value carry, ir::Value rate) {
      return block(inner, carry, config_.kernel_sizes[i], rate);
    });
  }

  ir::Value block(const nn::Scope& scope, ir::Value x, int64_t window, ir::Value drop_rate) const {
    const int64_t batch = x.dim(0), width = x.dim(-1);
    ir::Value y = nn::conv(scope / "conv_dw", x, width, window, conv(1, window / 2, width));
    y = ir::reshape(ir::checkpoint_name(y, "conv_dw"), {-1, width});
    y = ir::reshape(normed_mlp(scope / "norm", scope / "mlp", y, x.dims()), x.dims());
    if (config_.layer_scale != 0) y = nn::layer_scale(scope, y, config_.layer_scale);
    return x + (drop_rate ? nn::drop_path(scope / "drop_path", y, batch, drop_rate) : y);
  }

  // Of x [rows, features]; `image` has the dimensions [batch, h, w, features].
  ir::Value normed_mlp(const nn::Scope& norm_scope, const nn::Scope& scope, ir::Value x, const Dims& image) const {
    if (config_.response_norm) return mlp_with_response_norm(scope, norm(norm_scope, x), image);
    const nn::MlpOptions options{4 * image.back(), config_.gelu, true, 0, nn::init::normal(0.02), nn::init::zeros()};
    if (!nn::fused_mlp_fits(scope, x, options)) return nn::mlp(scope, norm(norm_scope, x), options);
    return nn::fused_mlp_branch(norm_scope, scope, x, config_.norm_epsilon, options, nn::Residual::kLeft);
  }

  ir::Value mlp_with_response_norm(const nn::Scope& scope, ir::Value x, const Dims& image) const {
    const int64_t width = image.back(), hidden = 4 * width;
    ir::Value y = ir::checkpoint_name(nn::dense(scope / "fc1", x, hidden, dense()), "fc1");
    y = ir::reshape(gelu(y), {image[0], image[1], image[2], hidden});
    y = ir::reshape(nn::response_norm(scope / "grn", y), {-1, hidden});
    return ir::checkpoint_name(nn::dense(scope / "fc2", y, width, dense()), "fc2");
  }

  ConvNeXtConfig config_;
};

std::unique_ptr<Model> make_convnext(config::Section section, const InputShape& data) {
  ConvNeXtOptions options;
  if (section.has("variant")) options = convnext_options_of_timm(variant_args(section, kConvNeXt), "variant");
  section.bind(options);
  return std::make_unique<ConvNeXt>(resolve(options, data, fail_in(section)));
}

std::unique_ptr<Classifier> convnext_from_timm(std::string_view args, const InputShape& input, const std::string& where) {
  return std::make_unique<ConvNeXt>(resolve(convnext_options_of_timm(args, where), input, {}));
}

constexpr TimmArchitecture kConvNeXtArchitectures[] = {
    {"convnext_atto", 224, R"({"depths": [2, 2, 6, 2], "dims": [40, 80, 160, 320], "conv_mlp": true})"},
    {"convnext_atto_ols", 224,
     R"({"depths": [2, 2, 6, 2], "dims": [40, 80, 160, 320], "conv_mlp": true, "stem_type": "overlap_tiered"})"},
    {"convnext_femto", 224, R"({"depths": [2, 2, 6, 2], "dims": [48, 96, 192, 384], "conv_mlp": true})"},
    {"convnext_femto_ols", 224,
     R"({"depths": [2, 2, 6, 2], "dims": [48, 96, 192, 384], "conv_mlp": true, "stem_type": "overlap_tiered"})"},
    {"convnext_pico", 224, R"({"depths": [2, 2, 6, 2], "dims": [64, 128, 256, 512], "conv_mlp": true})"},
    {"convnext_pico_ols", 224,
     R"({"depths": [2, 2, 6, 2], "dims": [64, 128, 256, 512], "conv_mlp": true, "stem_type": "overlap_tiered"})"},
    {"convnext_nano", 224, R"({"depths": [2, 2, 8, 2], "dims": [80, 160, 320, 640], "conv_mlp": true})"},
    {"convnext_nano_ols", 224,
     R"({"depths": [2, 2, 8, 2], "dims": [80, 160, 320, 640], "conv_mlp": true, "stem_type": "overlap"})"},
    {"convnext_tiny_hnf", 224,
     R"({"depths": [3, 3, 9, 3], "dims": [96, 192, 384, 768], "conv_mlp": true, "head_norm_first": true})"},
    {"convnext_tiny", 224, R"({"depths": [3, 3, 9, 3], "dims": [96, 192, 384, 768]})"},
    {"convnext_small", 224, R"({"depths": [3, 3, 27, 3], "dims": [96, 192, 384, 768]})"},
    {"convnext_base", 224, R"({"depths": [3, 3, 27, 3], "dims": [128, 256, 512, 1024]})"},
    {"convnext_large", 224, R"({"depths": [3, 3, 27, 3], "dims": [192, 384, 768, 1536]})"},
    {"convnext_large_mlp", 224, R"({"depths": [3, 3, 27, 3], "dims": [192, 384, 768, 1536], "head_hidden_size": 1536})"},
    {"convnext_xlarge", 224, R"({"depths": [3, 3, 27, 3], "dims": [256, 512, 1024, 2048]})"},
    {"convnext_xxlarge", 224, R"({"depths": [3, 4, 30, 3], "dims": [384, 768, 1536, 3072], "norm_eps": 1e-5})"},
    {"convnextv2_atto", 224,
     R"({"depths": [2, 2, 6, 2], "dims": [40, 80, 160, 320], "conv_mlp": true, "use_grn": true, "ls_init_value": null})"},
    {"convnextv2_femto", 224,
     R"({"depths": [2, 2, 6, 2], "dims": [48, 96, 192, 384], "conv_mlp": true, "use_grn": true, "ls_init_value": null})"},
    {"convnextv2_pico", 224,
     R"({"depths": [2, 2, 6, 2], "dims": [64, 128, 256, 512], "conv_mlp": true, "use_grn": true, "ls_init_value": null})"},
    {"convnextv2_nano", 224,
     R"({"depths": [2, 2, 8, 2], "dims": [80, 160, 320, 640], "conv_mlp": true, "use_grn": true, "ls_init_value": null})"},
    {"convnextv2_tiny", 224,
     R"({"depths": [3, 3, 9, 3], "dims": [96, 192, 384, 768], "use_grn": true, "ls_init_value": null})"},
    {"convnextv2_small", 224,
     R"({"depths": [3, 3, 27, 3], "dims": [96, 192, 384, 768], "use_grn": true, "ls_init_value": null})"},
    {"convnextv2_base", 224,
     R"({"depths": [3, 3, 27, 3], "dims": [128, 256, 512, 1024], "use_grn": true, "ls_init_value": null})"},
    {"convnextv2_large", 224,
     R"({"depths": [3, 3, 27, 3], "dims": [192, 384, 768, 1536], "use_grn": true, "ls_init_value": null})"},
    {"convnextv2_huge", 224,
     R"({"depths": [3, 3, 27, 3], "dims": [352, 704, 1408, 2816], "use_grn": true, "ls_init_value": null})"},
    {"test_convnext", 160, R"({"depths": [1, 2, 4, 2], "dims": [24, 32, 48, 64], "norm_eps": 1e-5, "act_layer": "gelu_tanh"})"},
};

}  // namespace

const Family kConvNeXt = {
    .name = "convnext",
    .title = "ConvNeXt and ConvNeXt V2",
    .make = make_convnext,
    .keys = [](const std::string& prefix) { return config::describe<ConvNeXtOptions>({}, prefix); },
    .from_timm = convnext_from_timm,
    .keys_from_timm = [](std::string_view args,
                         const std::string& where) { return config::changed_keys(convnext_options_of_timm(args, where)); },
    .architectures = kConvNeXtArchitectures,
    .plain = {"convnext_tiny", "convnextv2_tiny"},
    .fixed = {},
    .takes_image_size = false,
    .first_conv = "stem.0",
    .classifier = "head.fc",
};

}  // namespace tessera::models
