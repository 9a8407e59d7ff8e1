// ResNet as timm has it: v1.5 (He et al. 2016, the stride in the 3 x 3 convolution), with its C, D, S and T stems, grouped and
// wide bottlenecks, batch or group norm.
//
// Parameters; names as timm's but for the first block of a stage, which may have another shape than the stacked rest. `bn`
// holds {scale,bias} and, of batch norm, the buffers {running_mean,running_var,num_batches_tracked}:
//   conv1/kernel bn1/… (conv1/{0,1,3,4,6}/… of a deep stem) layer<i>/first/downsample/{0,1,2}/…
//   layer<i>/{first,blocks}/conv{1,2,3}/kernel layer<i>/{first,blocks}/bn{1,2,3}/… fc/{kernel,bias}

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "ir/functions.h"
#include "models/option_checks.h"
#include "models/timm_args.h"
#include "nn/blocks/blocks.h"
#include "nn/conv.h"
#include "nn/dense.h"
#include "nn/dropout.h"
#include "nn/max_pool.h"
#include "nn/norm/batch_norm.h"
#include "nn/norm/group_norm.h"

namespace tessera::models {

extern const Family kResNet;

namespace {

// Of a block: what remat = "dots" keeps.
const std::vector<std::string>& products() {
  static const std::vector<std::string> kProducts = {"conv1", "conv2", "conv3"};
  return kProducts;
}

struct ResNetOptions {
  std::optional<std::string> variant;
  std::string block = "bottleneck", norm = "batch", stem = "plain", remat = "auto";
  std::vector<int64_t> depths = {3, 4, 6, 3}, dims = {64, 128, 256, 512};
  int64_t stem_width = 64, groups = 1, base_width = 64;
  bool avg_down = false, zero_init_last = true;
  std::optional<int64_t> image_size, classes;
  double head_dropout = 0, drop_path = 0, drop_block = 0, norm_momentum = 0.1, norm_epsilon = 1e-5;
  int64_t norm_splits = 1;

  template <class Visitor>
  void visit(Visitor&& field) {
    field("variant", variant, "a name of timm's, as resnet50; the options below override it");
    field("block", block, "basic (two 3 x 3 convolutions: ResNet-18 and 34) or bottleneck");
    field("depths", depths, "blocks of each of the four stages");
    field("dims", dims, "inner channels of each stage; a bottleneck gives four times as many");
    field("norm", norm, "batch (its statistics are those of the whole batch, on all devices) or group (of 32 groups)");
    field("stem", stem, "plain (7 x 7), deep or deep_tiered (three 3 x 3)");
    field("stem_width", stem_width, "channels of a deep stem's first convolutions; it gives twice as many");
    field("groups", groups, "groups of a bottleneck's 3 x 3 convolution (ResNeXt)");
    field("base_width", base_width, "inner channels of a bottleneck are dims x base_width / 64 x groups (ResNeXt, wide)");
    field("avg_down", avg_down, "shortcuts are halved by averages, not by a stride (ResNet-D)");
    field("zero_init_last", zero_init_last, "the last norm of a block begins with scale 0");
    field("image_size", image_size, "side of the (square) images; from the data when not given");
    field("classes", classes, "number of classes; from the data when not given");
    field("head_dropout", head_dropout, "of what the head sees");
    field("drop_path", drop_path, "stochastic depth of the last block; grows linearly from 0 at the first of all stages");
    field("drop_block", drop_block, "DropBlock in the last two stages, as timm's: squares of 5 and 3 pixels");
    field("norm_momentum", norm_momentum, "by which a batch norm's moving statistics take the batch's");
    field("norm_epsilon", norm_epsilon, "epsilon of the norms");
    field(
        "norm_splits", norm_splits,
        "parts of a training batch that have batch norms of their own, as the views of split(3): timm's --split-bn; the first "
        "part's evaluate");
    field("remat", remat,
          may_change("what the backward pass recomputes of each block: auto (none on GPUs where that fits, else dots), full "
                     "(all), none, dots (all but the convolutions) or "
                     "save(names…) of conv1, conv2, conv3"));
  }
};

const std::vector<TimmWord> kBlocks = {{"basic", "basic"}, {"bottleneck", "bottleneck"}};
const std::vector<TimmWord> kNorms = {{"batchnorm2d", "batch"}, {"groupnorm", "group"}};
const std::vector<TimmWord> kStems = {{"", "plain"}, {"deep", "deep"}, {"deep_tiered", "deep_tiered"}};

ResNetOptions resnet_options_of_timm(std::string_view json, const std::string& where) {
  TimmArgs args(json, where);
  ResNetOptions o;
  args.word("global_pool", "avg", {{"avg", "gap"}});
  o.block = args.word("block", "bottleneck", kBlocks);
  o.norm = args.word("norm_layer", "batchnorm2d", kNorms);
  o.stem = args.word("stem_type", "", kStems);
  o.depths = args.get("layers", o.depths);
  o.dims = args.get("channels", o.dims);
  o.stem_width = args.get<int64_t>("stem_width", 64);
  o.groups = args.get<int64_t>("cardinality", 1);
  o.base_width = args.get<int64_t>("base_width", 64);
  o.avg_down = args.get("avg_down", false);
  args.finish();
  return o;
}

constexpr int64_t kNormGroups = 32;

// ResNetOptions checked.
struct ResNetConfig {
  InputShape input;
  ResNetOptions options;
  bool bottleneck = true, batch_norm = true;
  ir::RematPolicy remat;

  // Channels at a stage's end and within its blocks.
  int64_t features(size_t stage) const { return options.dims[stage] * (bottleneck ? 4 : 1); }
  int64_t width(size_t stage) const {
    return bottleneck ? options.dims[stage] * options.base_width / 64 * options.groups : options.dims[stage];
  }
  int64_t stem() const { return options.stem == "plain" ? 64 : 2 * options.stem_width; }
};

void check_groups(const ResNetConfig& c, const OptionChecks& check) {
  const ResNetOptions& o = c.options;
  if (!c.bottleneck && (o.groups != 1 || o.base_width != 64)) {
    check.fail("block", "is \"basic\", which has neither groups nor base_width", "use block = \"bottleneck\"");
  }
  for (size_t i = 0; i < kStages; ++i) {
    if (c.width(i) < 1 || c.width(i) % o.groups != 0) check.fail("groups", fmt::format("must divide {} channels", c.width(i)));
    if (!c.batch_norm && (c.width(i) % kNormGroups != 0 || c.stem() % kNormGroups != 0)) {
      check.fail("norm", fmt::format("is \"group\": channels must be multiples of {}", kNormGroups));
    }
  }
}

ResNetConfig resolve(const ResNetOptions& o, const InputShape& data, const FailOption& fail) {
  const OptionChecks check(fail);
  ResNetConfig c;
  c.options = o;
  c.input = check.input(data, o.image_size, o.classes);
  c.bottleneck = check.choose("block", o.block, {"basic", "bottleneck"}) == 1;
  c.batch_norm = check.choose("norm", o.norm, {"batch", "group"}) == 0;
  check.choose("stem", o.stem, {"plain", "deep", "deep_tiered"});
  const auto four = [&](const char* key, const std::vector<int64_t>& values) {
    if (values.size() != kStages) check.fail(key, fmt::format("must be {} numbers, and is {}", kStages, values.size()));
    for (const int64_t value : values) check.positive(key, value);
  };
  four("depths", o.depths);
  for (const int64_t depth : o.depths) check.blocks("depths", depth);
  four("dims", o.dims);
  check.positive("stem_width", o.stem_width);
  check.positive("groups", o.groups);
  check.positive("base_width", o.base_width);
  check_groups(c, check);
  check.rate("head_dropout", o.head_dropout);
  check.rate("drop_path", o.drop_path);
  check.rate("drop_block", o.drop_block);
  if (!(o.norm_momentum > 0 && o.norm_momentum <= 1)) check.fail("norm_momentum", "must be above 0 and at most 1");
  if (!(o.norm_epsilon > 0)) check.fail("norm_epsilon", "must be above 0");
  check.positive("norm_splits", o.norm_splits);
  if (o.norm_splits > 1 && !c.batch_norm) check.fail("norm_splits", "splits batch norms, and norm is \"group\"");
  c.remat = check.remat(o.remat, products());
  return c;
}

// Means of 2 x 2 pixels, of fewer at the ends of odd sides: torch's AvgPool2d(2, ceil_mode=True, count_include_pad=False).
ir::Value halve(ir::Value x) {
  ir::WindowOptions window;
  window.dimensions = window.strides = {1, 2, 2, 1};
  window.padding = {{0, 0}, {0, x.dim(1) % 2}, {0, x.dim(2) % 2}, {0, 0}};
  const ir::Value ones = ir::constant(1, x.dtype(), {1, x.dim(1), x.dim(2), 1});
  return ir::reduce_window(ir::Reduce::kSum, x, window) / ir::reduce_window(ir::Reduce::kSum, ones, window);
}

class ResNet final : public Classifier {
 public:
  explicit ResNet(ResNetConfig config) : config_(std::move(config)) {}

  ir::Value features(const nn::Scope& scope, ir::Value images) const override {
    ir::Value x = norm_relu(scope / "bn1", stem(scope / "conv1", images));
    x = nn::max_pool(scope, x, 3, 2, 1);
    const std::vector<int64_t>& depths = config_.options.depths;
    const std::vector<double> rates =
        nn::linear_rates(config_.options.drop_path, std::accumulate(depths.begin(), depths.end(), int64_t{0}));
    auto next = rates.begin();
    for (size_t i = 0; i < kStages; ++i) {
      x = stage(scope / fmt::format("layer{}", i + 1), x, i, {next, next + depths[i]});
      next += depths[i];
    }
    return ir::mean(x, {1, 2});
  }

  ir::Value logits(const nn::Scope& scope, ir::Value images) const override {
    const ir::Value x = nn::dropout(scope / "head_drop", features(scope, images), config_.options.head_dropout);
    const nn::Init init = nn::init::uniform(1 / std::sqrt(static_cast<double>(x.dim(-1))));  // torch's own of a dense layer
    return ir::convert(nn::dense(scope / "fc", x, config_.input.classes, {true, init, init}), DType::kF32);
  }

  const InputShape& input() const override { return config_.input; }
  const Family& family() const override { return kResNet; }

  int64_t batch_parts() const override { return config_.options.norm_splits; }

  // timm's group_matcher: the stem, each block, the head.
  std::vector<LayerRule> layers() const override {
    std::vector<LayerRule> rules = {{"(conv1|bn1)/.*", 0}};
    int64_t next = 1;
    for (size_t i = 0; i < kStages; ++i) {
      rules.push_back({fmt::format("layer{}/first/.*", i + 1), next});
      rules.push_back({fmt::format("layer{}/blocks/.*", i + 1), next + 1});
      next += config_.options.depths[i];
    }
    return rules;
  }

  std::string timm_args() const override {
    const ResNetOptions& o = config_.options;
    const auto timm = [](const std::vector<TimmWord>& words, const std::string& ours) {
      return std::ranges::find_if(words, [&](const TimmWord& word) { return ours == word.ours; })->timm;
    };
    Json args;
    args["block"] = timm(kBlocks, o.block);
    args["layers"] = o.depths;
    args["channels"] = o.dims;
    args["norm_layer"] = timm(kNorms, o.norm);
    args["stem_type"] = timm(kStems, o.stem);
    if (o.stem != "plain") args["stem_width"] = o.stem_width;
    args["cardinality"] = o.groups;
    args["base_width"] = o.base_width;
    args["avg_down"] = o.avg_down;
    return args.dump();
  }

  TimmMap timm_map() const override {
    TimmMap map;
    map.entries = timm_entries(parameters(*this));
    for (TimmEntry& entry : map.entries) first_of_stage(entry, "");
    return map;
  }

  std::string describe() const override {
    const ResNetConfig& c = config_;
    return fmt::format("ResNet, {} blocks of {}, {} x {} images, {} classes", c.options.block, list_numbers(c.options.depths),
                       c.input.height, c.input.width, c.input.classes);
  }

 private:
  static ir::Value conv(const nn::Scope& scope, ir::Value x, int64_t features, int64_t window, int64_t stride = 1,
                        int64_t groups = 1) {
    const nn::ConvOptions options{stride, (window - 1) / 2, groups, false, nn::kaiming_fan_out(features, window), {}, {}};
    return nn::conv(scope, x, features, window, options);
  }

  // [relu](norm(x) [+ residual]).
  struct After {
    bool relu = false;
    ir::Value residual = {};
    bool last = false;  // of a branch
  };
  ir::Value norm(const nn::Scope& scope, ir::Value x, const After& after) const {
    const nn::Init scale = after.last && config_.options.zero_init_last ? nn::init::zeros() : nn::init::ones();
    if (config_.batch_norm) {
      return nn::batch_norm(scope, x,
                            {.momentum = config_.options.norm_momentum,
                             .epsilon = config_.options.norm_epsilon,
                             .scale_init = scale,
                             .relu = after.relu,
                             .residual = after.residual,
                             .splits = config_.options.norm_splits});
    }
    ir::Value y = nn::group_norm(scope, x, kNormGroups, config_.options.norm_epsilon, scale);
    if (after.residual) y = y + after.residual;
    return after.relu ? ir::relu(y) : y;
  }
  ir::Value norm_relu(const nn::Scope& scope, ir::Value x) const { return norm(scope, x, {.relu = true}); }

  // In the last two stages, as timm's drop_blocks().
  ir::Value drop_block(const nn::Scope& scope, ir::Value x, size_t i) const {
    if (i + 2 < kStages) return x;
    const bool last = i + 1 == kStages;
    return nn::drop_block(scope / "drop_block", x, {config_.options.drop_block, last ? 3 : 5, last ? 1.0 : 0.25});
  }

  ir::Value stem(const nn::Scope& scope, ir::Value x) const {
    const ResNetOptions& o = config_.options;
    if (o.stem == "plain") return conv(scope, x, config_.stem(), 7, 2);
    const int64_t first = o.stem == "deep_tiered" ? 3 * (o.stem_width / 4) : o.stem_width;
    x = norm_relu(scope / "1", conv(scope / "0", x, first, 3, 2));
    x = norm_relu(scope / "4", conv(scope / "3", x, o.stem_width, 3));
    return conv(scope / "6", x, config_.stem(), 3);
  }

  ir::Value stage(const nn::Scope& scope, ir::Value x, size_t i, const std::vector<double>& rates) const {
    const int64_t stride = i > 0 ? 2 : 1;
    const auto run = [&](int64_t by) {
      return
          [this, i, by](const nn::Scope& inner, ir::Value carry, ir::Value rate) { return block(inner, carry, i, by, rate); };
    };
    return nn::stage(scope, x,
                     {config_.options.depths[i], rates, config_.remat, nn::written_out(scope, config_.remat, products())},
                     run(stride), run(1));
  }

  ir::Value shortcut(const nn::Scope& scope, ir::Value x, size_t i, int64_t stride) const {
    if (stride == 1 && x.dim(-1) == config_.features(i)) return x;
    const bool average = config_.options.avg_down;
    if (average && stride == 2) x = halve(x);
    const nn::Scope own = scope / "downsample";
    const ir::Value y = conv(own / (average ? "1" : "0"), x, config_.features(i), 1, average ? 1 : stride);
    return norm(own / (average ? "2" : "1"), y, {});
  }

  // Up to the last norm, whose scope is named, too.
  struct Branch {
    ir::Value x;
    const char* last_norm;
  };
  Branch branch(const nn::Scope& scope, ir::Value x, size_t i, int64_t stride) const {
    const int64_t width = config_.width(i), features = config_.features(i);
    const auto kept = [](ir::Value y, const char* name) { return ir::checkpoint_name(y, name); };
    if (!config_.bottleneck) {
      x = norm_relu(scope / "bn1", kept(conv(scope / "conv1", x, width, 3, stride), "conv1"));
      x = drop_block(scope, x, i);
      return {kept(conv(scope / "conv2", x, features, 3), "conv2"), "bn2"};
    }
    x = norm_relu(scope / "bn1", kept(conv(scope / "conv1", x, width, 1), "conv1"));
    x = norm_relu(scope / "bn2", kept(conv(scope / "conv2", x, width, 3, stride, config_.options.groups), "conv2"));
    x = drop_block(scope, x, i);
    return {kept(conv(scope / "conv3", x, features, 1), "conv3"), "bn3"};
  }

  ir::Value block(const nn::Scope& scope, ir::Value x, size_t i, int64_t stride, ir::Value drop_rate) const {
    const auto [y, last_norm] = branch(scope, x, i, stride);
    if (!drop_rate) return norm(scope / last_norm, y, {.relu = true, .residual = shortcut(scope, x, i, stride), .last = true});
    const ir::Value normed = norm(scope / last_norm, y, {.last = true});
    return ir::relu(nn::drop_path(scope / "drop_path", normed, x.dim(0), drop_rate) + shortcut(scope, x, i, stride));
  }

  ResNetConfig config_;
};

std::unique_ptr<Model> make_resnet(config::Section section, const InputShape& data) {
  ResNetOptions options;
  if (section.has("variant")) options = resnet_options_of_timm(variant_args(section, kResNet), "variant");
  section.bind(options);
  return std::make_unique<ResNet>(resolve(options, data, fail_in(section)));
}

std::unique_ptr<Classifier> resnet_from_timm(std::string_view args, const InputShape& input, const std::string& where) {
  return std::make_unique<ResNet>(resolve(resnet_options_of_timm(args, where), input, {}));
}

constexpr TimmArchitecture kResNetArchitectures[] = {
    {"resnet18", 224, R"({"block": "basic", "layers": [2, 2, 2, 2]})"},
    {"resnet18d", 224,
     R"({"block": "basic", "layers": [2, 2, 2, 2], "stem_width": 32, "stem_type": "deep", "avg_down": true})"},
    {"resnet34", 224, R"({"block": "basic", "layers": [3, 4, 6, 3]})"},
    {"resnet34d", 224,
     R"({"block": "basic", "layers": [3, 4, 6, 3], "stem_width": 32, "stem_type": "deep", "avg_down": true})"},
    {"resnet26", 224, R"({"layers": [2, 2, 2, 2]})"},
    {"resnet26d", 224, R"({"layers": [2, 2, 2, 2], "stem_width": 32, "stem_type": "deep", "avg_down": true})"},
    {"resnet26t", 256, R"({"layers": [2, 2, 2, 2], "stem_width": 32, "stem_type": "deep_tiered", "avg_down": true})"},
    {"resnet50", 224, R"({"layers": [3, 4, 6, 3]})"},
    {"resnet50c", 224, R"({"layers": [3, 4, 6, 3], "stem_width": 32, "stem_type": "deep"})"},
    {"resnet50d", 224, R"({"layers": [3, 4, 6, 3], "stem_width": 32, "stem_type": "deep", "avg_down": true})"},
    {"resnet50s", 224, R"({"layers": [3, 4, 6, 3], "stem_width": 64, "stem_type": "deep"})"},
    {"resnet50t", 224, R"({"layers": [3, 4, 6, 3], "stem_width": 32, "stem_type": "deep_tiered", "avg_down": true})"},
    {"resnet50_gn", 224, R"({"layers": [3, 4, 6, 3], "norm_layer": "groupnorm"})"},
    {"resnet101", 224, R"({"layers": [3, 4, 23, 3]})"},
    {"resnet101c", 224, R"({"layers": [3, 4, 23, 3], "stem_width": 32, "stem_type": "deep"})"},
    {"resnet101d", 224, R"({"layers": [3, 4, 23, 3], "stem_width": 32, "stem_type": "deep", "avg_down": true})"},
    {"resnet101s", 224, R"({"layers": [3, 4, 23, 3], "stem_width": 64, "stem_type": "deep"})"},
    {"resnet152", 224, R"({"layers": [3, 8, 36, 3]})"},
    {"wide_resnet50_2", 224, R"({"layers": [3, 4, 6, 3], "base_width": 128})"},
    {"wide_resnet101_2", 224, R"({"layers": [3, 4, 23, 3], "base_width": 128})"},
    {"resnext50_32x4d", 224, R"({"layers": [3, 4, 6, 3], "cardinality": 32, "base_width": 4})"},
    {"resnext101_32x8d", 224, R"({"layers": [3, 4, 23, 3], "cardinality": 32, "base_width": 8})"},
};

}  // namespace

const Family kResNet = {
    .name = "resnet",
    .title = "ResNet v1.5, ResNet-D, ResNeXt",
    .make = make_resnet,
    .keys = [](const std::string& prefix) { return config::describe<ResNetOptions>({}, prefix); },
    .from_timm = resnet_from_timm,
    .keys_from_timm = [](std::string_view args,
                         const std::string& where) { return config::changed_keys(resnet_options_of_timm(args, where)); },
    .architectures = kResNetArchitectures,
    // No argument says the kind of block.
    .plain = {"resnet50", "resnet18"},
    .fixed = {"block"},
    .takes_image_size = false,
    .first_conv = "conv1",
    .classifier = "fc",
};

}  // namespace tessera::models
