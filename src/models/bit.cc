// BiT's ResNet-v2 (Kolesnikov et al. 2020) as timm's resnetv2_*_bit and big_vision's bit.py have it: pre-activation
// bottlenecks, weight-standardised convolutions, group norm of 32 groups.
//
// Parameters; names as timm's but for the first block of a stage, which has another shape than the stacked rest:
//   stem/conv/kernel stages/<i>/first/downsample/conv/kernel
//   stages/<i>/{first,blocks}/{norm1,norm2,norm3}/{scale,bias} stages/<i>/{first,blocks}/{conv1,conv2,conv3}/kernel
//   norm/{scale,bias} head/fc/{kernel,bias}

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
#include "nn/norm/group_norm.h"

namespace tessera::models {

extern const Family kBiT;

namespace {

constexpr int64_t kGroups = 32;

struct BiTOptions {
  std::optional<std::string> variant;
  std::vector<int64_t> depths = {3, 4, 6, 3}, dims = {256, 512, 1024, 2048};
  int64_t width_factor = 1, stem_dim = 64;
  double bottleneck = 0.25;
  std::optional<int64_t> image_size, classes;
  double head_dropout = 0, drop_path = 0;
  bool head_zeros = false;
  std::string remat = "auto";

  template <class Visitor>
  void visit(Visitor&& field) {
    field("variant", variant, "a name of timm's, as resnetv2_50x1_bit; the options below override it");
    field("depths", depths, "blocks of each of the four stages");
    field("dims", dims, "channels of each stage, before width_factor");
    field("width_factor", width_factor, "all channels are multiplied by it: 3 in R50x3");
    field("stem_dim", stem_dim, "channels of the stem, before width_factor");
    field("bottleneck", bottleneck, "channels of a block's inner convolutions, as a part of the stage's");
    field("image_size", image_size, "side of the (square) images; from the data when not given");
    field("classes", classes, "number of classes; from the data when not given");
    field("head_zeros", head_zeros, "the head begins with zeros (big_vision), else normal (0.01)");
    field("head_dropout", head_dropout, "of what the head sees");
    field("drop_path", drop_path, "stochastic depth of the last block; grows linearly from 0 at the first of all stages");
    field("remat", remat,
          may_change("what the backward pass recomputes of each block: auto (none on GPUs where that fits, else dots), full "
                     "(all), none, dots (all but the convolutions) or "
                     "save(names…) of conv1, conv2, conv3"));
  }
};

BiTOptions bit_options_of_timm(std::string_view json, const std::string& where) {
  TimmArgs args(json, where);
  BiTOptions o;
  args.word("global_pool", "avg", {{"avg", "gap"}});
  o.depths = args.get("layers", o.depths);
  o.dims = args.get("channels", o.dims);
  o.width_factor = args.get<int64_t>("width_factor", 1);
  o.stem_dim = args.get<int64_t>("stem_chs", 64);
  o.bottleneck = args.get("bottle_ratio", 0.25);
  args.finish();
  return o;
}

// BiTOptions with every choice made and checked; channels are those of the model.
struct BiTConfig {
  InputShape input;
  std::vector<int64_t> depths, dims, inner;
  int64_t stem = 0;
  bool head_zeros = false;
  double head_dropout = 0, drop_path = 0;
  ir::RematPolicy remat;
  BiTOptions options;  // from which it was made
};

BiTConfig resolve(const BiTOptions& o, const InputShape& data, const FailOption& fail) {
  const OptionChecks check(fail);
  BiTConfig c;
  c.options = o;
  c.input = check.input(data, o.image_size, o.classes);
  const auto four = [&](const char* key, const std::vector<int64_t>& values) {
    if (values.size() != kStages) check.fail(key, fmt::format("must be {} numbers, and is {}", kStages, values.size()));
    for (const int64_t value : values) check.positive(key, value);
  };
  four("depths", o.depths);
  for (const int64_t depth : o.depths) check.blocks("depths", depth);
  four("dims", o.dims);
  check.positive("width_factor", o.width_factor);
  check.positive("bottleneck", o.bottleneck);
  const auto grouped = [&](const char* key, int64_t channels) {
    if (channels % kGroups == 0) return channels;
    check.fail(key, fmt::format("must make channels of {} groups, and makes {}", kGroups, channels));
  };
  c.depths = o.depths;
  c.stem = grouped("stem_dim", timm_divisible(check.positive("stem_dim", o.stem_dim) * o.width_factor));
  for (const int64_t dim : o.dims) {
    c.dims.push_back(grouped("dims", timm_divisible(dim * o.width_factor)));
    c.inner.push_back(grouped("bottleneck", timm_divisible(timm_hidden(c.dims.back(), o.bottleneck))));
  }
  c.head_zeros = o.head_zeros;
  c.head_dropout = check.rate("head_dropout", o.head_dropout);
  c.drop_path = check.rate("drop_path", o.drop_path);
  c.remat = check.remat(o.remat, {"conv1", "conv2", "conv3"});
  return c;
}

class BiT final : public Classifier {
 public:
  explicit BiT(BiTConfig config) : config_(std::move(config)) {}

  ir::Value features(const nn::Scope& scope, ir::Value images) const override {
    ir::Value x = conv(scope / "stem" / "conv", images, config_.stem, 7, 2);
    // Zeros around, which the maximum sees: BiT's stand-in for TensorFlow's padding.
    x = nn::max_pool(scope, ir::pad(x, ir::constant(0, x.dtype()), {0, 1, 1, 0}, {0, 1, 1, 0}), 3, 2);
    const std::vector<int64_t>& depths = config_.depths;
    const std::vector<double> rates =
        nn::linear_rates(config_.drop_path, std::accumulate(depths.begin(), depths.end(), int64_t{0}));
    auto next = rates.begin();
    for (size_t i = 0; i < kStages; ++i) {
      x = stage(scope / "stages" / std::to_string(i), x, i, {next, next + depths[i]});
      next += depths[i];
    }
    x = norm(scope / "norm", x);
    return ir::mean(x, {1, 2});
  }

  ir::Value logits(const nn::Scope& scope, ir::Value images) const override {
    const ir::Value x = nn::dropout(scope / "head_drop", features(scope, images), config_.head_dropout);
    const nn::DenseOptions head{true, config_.head_zeros ? nn::init::zeros() : nn::init::normal(0.01), nn::init::zeros()};
    return ir::convert(nn::dense(scope / "head" / "fc", x, config_.input.classes, head), DType::kF32);
  }

  const InputShape& input() const override { return config_.input; }
  const Family& family() const override { return kBiT; }

  // timm's group_matcher: the stem, each block, the head; the last norm with the last block.
  std::vector<LayerRule> layers() const override {
    std::vector<LayerRule> rules = {{"stem/.*", 0}};
    int64_t next = 1;
    for (size_t i = 0; i < kStages; ++i) {
      rules.push_back({fmt::format("stages/{}/first/.*", i), next});
      rules.push_back({fmt::format("stages/{}/blocks/.*", i), next + 1});
      next += config_.depths[i];
    }
    rules.push_back({"norm/.*", next - 1});
    return rules;
  }

  std::string timm_args() const override {
    const BiTOptions& o = config_.options;
    return Json{{"layers", o.depths},
                {"width_factor", o.width_factor},
                {"channels", o.dims},
                {"stem_chs", o.stem_dim},
                {"bottle_ratio", o.bottleneck}}
        .dump();
  }

  TimmMap timm_map() const override {
    TimmMap map;
    map.entries = timm_entries(parameters(*this));
    for (TimmEntry& entry : map.entries) {
      first_of_stage(entry, "blocks.");
      if (entry.name == "head.fc.weight") entry.dims.insert(entry.dims.end(), {1, 1});
    }
    return map;
  }

  std::string describe() const override {
    const BiTConfig& c = config_;
    return fmt::format("BiT {} x {}, {} x {} images, {} classes", list_numbers(c.dims), list_numbers(c.depths), c.input.height,
                       c.input.width, c.input.classes);
  }

 private:
  static ir::Value conv(const nn::Scope& scope, ir::Value x, int64_t features, int64_t window, int64_t stride = 1) {
    nn::ConvOptions options{stride, (window - 1) / 2, 1, false, nn::kaiming_fan_out(features, window), {}};
    options.standardize = 1e-8;
    return nn::conv(scope, x, features, window, options);
  }
  // Group norm and ReLU.
  static ir::Value norm(const nn::Scope& scope, ir::Value x) { return ir::relu(nn::group_norm(scope, x, kGroups, 1e-5)); }

  ir::Value stage(const nn::Scope& scope, ir::Value x, size_t i, const std::vector<double>& rates) const {
    const auto run = [&](bool first) {
      return [this, i, first](const nn::Scope& inner, ir::Value carry, ir::Value rate) {
        return block(inner, carry, i, first, rate);
      };
    };
    return nn::stage(scope, x, {config_.depths[i], rates, config_.remat, false}, run(true), run(false));
  }

  ir::Value block(const nn::Scope& scope, ir::Value x, size_t i, bool first, ir::Value drop_rate) const {
    const int64_t stride = first && i > 0 ? 2 : 1;
    const ir::Value active = norm(scope / "norm1", x);
    const ir::Value shortcut = first ? conv(scope / "downsample" / "conv", active, config_.dims[i], 1, stride) : x;
    ir::Value y = ir::checkpoint_name(conv(scope / "conv1", active, config_.inner[i], 1), "conv1");
    y = ir::checkpoint_name(conv(scope / "conv2", norm(scope / "norm2", y), config_.inner[i], 3, stride), "conv2");
    y = ir::checkpoint_name(conv(scope / "conv3", norm(scope / "norm3", y), config_.dims[i], 1), "conv3");
    return shortcut + (drop_rate ? nn::drop_path(scope / "drop_path", y, x.dim(0), drop_rate) : y);
  }

  BiTConfig config_;
};

std::unique_ptr<Model> make_bit(config::Section section, const InputShape& data) {
  BiTOptions options;
  if (section.has("variant")) options = bit_options_of_timm(variant_args(section, kBiT), "variant");
  section.bind(options);
  return std::make_unique<BiT>(resolve(options, data, fail_in(section)));
}

std::unique_ptr<Classifier> bit_from_timm(std::string_view args, const InputShape& input, const std::string& where) {
  return std::make_unique<BiT>(resolve(bit_options_of_timm(args, where), input, {}));
}

constexpr TimmArchitecture kBiTArchitectures[] = {
    {"resnetv2_50x1_bit", 224, R"({"layers": [3, 4, 6, 3], "width_factor": 1})"},
    {"resnetv2_50x3_bit", 224, R"({"layers": [3, 4, 6, 3], "width_factor": 3})"},
    {"resnetv2_101x1_bit", 224, R"({"layers": [3, 4, 23, 3], "width_factor": 1})"},
    {"resnetv2_101x3_bit", 224, R"({"layers": [3, 4, 23, 3], "width_factor": 3})"},
    {"resnetv2_152x2_bit", 224, R"({"layers": [3, 8, 36, 3], "width_factor": 2})"},
    {"resnetv2_152x4_bit", 224, R"({"layers": [3, 8, 36, 3], "width_factor": 4})"},
};

}  // namespace

// timm's entry points of these pass `layers` and `width_factor` beside what they are given, and Python refuses the second
// value.
const Family kBiT = {
    .name = "bit",
    .title = "BiT: ResNet-v2 with group norm and standardised weights",
    .make = make_bit,
    .keys = [](const std::string& prefix) { return config::describe<BiTOptions>({}, prefix); },
    .from_timm = bit_from_timm,
    .keys_from_timm = [](std::string_view args,
                         const std::string& where) { return config::changed_keys(bit_options_of_timm(args, where)); },
    .architectures = kBiTArchitectures,
    .plain = {"resnetv2_50x1_bit", "resnetv2_101x1_bit", "resnetv2_152x2_bit"},
    .fixed = {"layers", "width_factor"},
    .takes_image_size = false,
    .first_conv = "stem.conv",
    .classifier = "head.fc",
};

}  // namespace tessera::models
