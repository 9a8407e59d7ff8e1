// Every family against timm (tools/references/models/image_models.py): logits, gradients, five training steps, names of
// weights; and every named variant's parameters.

#include <gmock/gmock.h>

#include <fstream>

#include "base/hash.h"
#include "base/rng.h"
#include "interop/timm_config.h"
#include "interop/timm_import.h"
#include "models/reference.h"
#include "support/paths.h"

namespace tessera::models {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

struct Training {
  std::vector<double> losses;
  Arrays parameters, first;  // after the last step and before the first, under timm's names
};

// Training as the references have it: SGD with momentum 0.9.
class Trainer {
 public:
  Trainer(const Classifier& model, const Reference& reference)
      : model_(model), reference_(reference), batch_(reference.config["batch"]) {
    const ir::GraphScope graph_scope(graph_);
    const InputShape& in = model.input();
    images_ = graph_.add_parameter({DType::kF32, {batch_, in.height, in.width, in.channels}});
    const ir::Value labels = graph_.add_parameter({DType::kI32, {batch_}});
    const ir::Value logits = model.logits(nn::Scope(store_, {.training = true}), images_);
    const ir::Value target = ir::one_hot(labels, in.classes, DType::kF32);
    const ir::Value loss = -ir::sum_all(target * ir::log_softmax(logits)) / static_cast<double>(batch_);
    graph_.results = {loss};
    add_updates(ir::gradient(loss, store_.values()));
    program_.emplace(graph_, testing::quick_compile());
  }

  // With every weight and pixel moved up or down by this share of itself, in one way or another.
  Training run(double nudge, uint64_t way = 0) const {
    Training out;
    const Arrays file = formula_file(reference_.config);
    const interop::Imported imported = interop::import_timm(model_.timm_map(), views(file));
    std::vector<testing::HostArray> state;
    for (const nn::ParamSpec& spec : store_.specs()) {
      state.push_back({spec.type, imported.parameters.at(spec.name).data});
      if (spec.trained) state.back() = testing::f32_array(spec.type.dims, nudged(state.back().floats(), nudge, way));
    }
    out.first = under_timms_names(state);
    for (size_t i = 0; i < store_.specs().size(); ++i)
      state.push_back(testing::f32_array(state[i].type.dims, std::vector<float>(state[i].data.size() / 4)));
    for (size_t s = 0; s < reference_.at("losses").size(); ++s) {
      const std::vector<testing::HostArray> results = program_->run(arguments(static_cast<int64_t>(s), state, nudge, way));
      out.losses.push_back(static_cast<double>(results[0].floats()[0]));
      state.assign(results.begin() + 1, results.end());
    }
    out.parameters = under_timms_names(state);
    return out;
  }

 private:
  // The parameters and moments after a step, as results of the graph.
  void add_updates(const ir::Values& grads) {
    std::map<std::string, ir::Value> updates;
    for (const nn::BufferUpdate& update : store_.updates()) updates[update.name] = update.value;
    const double lr = reference_.config["lr"];
    ir::Values moments;
    for (const nn::ParamSpec& spec : store_.specs()) moments.push_back(graph_.add_parameter(spec.type));
    for (size_t i = 0; i < moments.size(); ++i) {
      const nn::ParamSpec& spec = store_.specs()[i];
      if (spec.trained) moments[i] = 0.9 * moments[i] + grads[i];
      graph_.results.push_back(spec.trained ? store_.values()[i] - lr * moments[i] : updates.at(spec.name));
    }
    graph_.results.insert(graph_.results.end(), moments.begin(), moments.end());
  }

  // In the order of the graph's: images, labels, parameters, moments.
  std::vector<testing::HostArray> arguments(int64_t step, const std::vector<testing::HostArray>& state, double nudge,
                                            uint64_t way) const {
    const InputShape& in = model_.input();
    const std::vector<float> pixels =
        testing::formula_images(reference_.config["case"], step, batch_, in.channels, in.height, in.width);
    std::vector<testing::HostArray> out = {testing::f32_array(images_.dims(), nudged(pixels, nudge, way)),
                                           testing::i32_array({batch_}, testing::formula_labels(step, batch_, in.classes))};
    out.insert(out.end(), state.begin(), state.end());
    return out;
  }

  Arrays under_timms_names(const std::vector<testing::HostArray>& state) const {
    Arrays ours;
    for (size_t i = 0; i < store_.specs().size(); ++i) ours[store_.specs()[i].name] = {state[i].type, state[i].data};
    return interop::export_timm(model_.timm_map(), views(ours));
  }

  static std::vector<float> nudged(std::vector<float> values, double nudge, uint64_t way) {
    Rng rng(way);
    for (float& value : values) value *= static_cast<float>(1 + (rng.next() % 2 == 0 ? nudge : -nudge));
    return values;
  }

  const Classifier& model_;
  const Reference& reference_;
  int64_t batch_;
  ir::Graph graph_;
  nn::ParamStore store_{graph_};
  ir::Value images_;
  std::optional<testing::CompiledGraph> program_;
};

// How far a parameter has moved.
double moved(const Training& training, const std::string& name) {
  return distance(to_floats(views(training.parameters).at(name)), to_floats(views(training.first).at(name)));
}

// By how much of a parameter's movement the others' differ at most; in the median of `names` too.
double part_of_rounding(const Training& training, const std::vector<Training>& others, const std::string& name) {
  const double here = moved(training, name);
  double most = 0;
  for (const Training& other : others) most = std::max(most, std::abs(moved(other, name) - here));
  return here > 0 ? most / here : 0;
}
double median_part_of_rounding(const Training& training, const std::vector<Training>& others,
                               const std::vector<std::string>& names) {
  std::vector<double> parts;
  for (const std::string& name : names) parts.push_back(part_of_rounding(training, others, name));
  std::ranges::nth_element(parts, parts.begin() + static_cast<ptrdiff_t>(parts.size() / 2));
  return parts[parts.size() / 2];
}

class ImageModels : public ::testing::TestWithParam<std::string> {
 protected:
  Reference reference_ = load_reference("model_" + GetParam() + ".safetensors");
  std::unique_ptr<Classifier> model_ = reference_model(reference_);
};

TEST_P(ImageModels, LogitsLossAndGradientsAreTimms) { expect_run(*model_, reference_, {}); }

// What f32 rounds off differs from processor to processor, and torch's from ours.
//
// What it makes of the gradients is measured: of weights and pixels that are moved by a few roundings, in several ways. Where
// gradients cancel, as those of weights that are standardised, it is much more than in the mean.
// The few ways may all leave a parameter nearly alone by chance: each counts for what they make of the median one, at least.
constexpr double kNudge = 0x1p-22;
constexpr uint64_t kWays = 3;
constexpr double kTimes = 4;
// And the weights are rounded after each step, each by an equally distributed part of ulp(w), here and there. Of that the norm
// sees what lies along the movement: four standard deviations of it.
double rounding_of_weights(const std::vector<float>& first, size_t steps) {
  double largest = 0;
  for (const float w : first) largest = std::max(largest, std::abs(static_cast<double>(w)));
  return 4 * std::sqrt(2.0 * static_cast<double>(steps) / 12) * largest * 0x1p-23;
}

TEST_P(ImageModels, FiveStepsFollowTorch) {
  const Trainer trainer(*model_, reference_);
  const Training training = trainer.run(0);
  std::vector<Training> others;
  for (uint64_t way = 0; way < kWays; ++way) others.push_back(trainer.run(kNudge, way));
  const std::vector<float>& losses = reference_.at("losses");
  ASSERT_EQ(training.losses.size(), losses.size());
  for (size_t s = 0; s < losses.size(); ++s) {
    EXPECT_NEAR(training.losses[s] / static_cast<double>(losses[s]), 1, 1e-4) << "step " << s;
  }
  const auto zeros = reference_.config["zero_grads"].get<std::vector<std::string>>();
  std::map<std::string, double> wanted;  // of the parameters that have gradients
  std::vector<std::string> names;
  for (const auto& entry : reference_.config["parameters"]) {
    const auto name = entry[0].get<std::string>();
    const auto want = static_cast<double>(reference_.at("param_norms")[wanted.size()]);
    wanted[name] = want;
    if (std::ranges::count(zeros, name) == 0) names.push_back(name);
  }
  const double median = median_part_of_rounding(training, others, names);
  for (const std::string& name : names) {
    const double here = moved(training, name), want = wanted[name];
    const double in_gradients = kTimes * here * std::max(median, part_of_rounding(training, others, name));
    const double in_weights = rounding_of_weights(to_floats(views(training.first).at(name)), losses.size());
    EXPECT_NEAR(here, want, 2e-3 * want + in_gradients + in_weights) << name;
  }
  for (const auto& entry : reference_.config["buffers"]) {
    const auto name = entry[0].get<std::string>();
    const std::vector<float>& want = reference_.at("buffer/" + name);
    EXPECT_LT(distance(to_floats(views(training.parameters).at(name)), want), 1e-4 * norm(want)) << name;
  }
}

TEST_P(ImageModels, WeightsGoOutAndComeBackBitExact) {
  const Arrays file = formula_file(reference_.config);
  const TimmMap map = model_->timm_map();
  EXPECT_EQ(interop::export_timm(map, views(interop::import_timm(map, views(file)).parameters)), file);
}

INSTANTIATE_TEST_SUITE_P(Cases, ImageModels,
                         ::testing::Values("mixer", "mixer_ratio", "resmlp", "deit3", "siglip", "convnext", "convnext_conv_mlp",
                                           "convnext_hnf", "convnext_v2", "bit", "resnet_basic", "resnet", "resnet_d",
                                           "resnet_gn"),
                         [](const auto& test) { return test.param; });

std::unique_ptr<Classifier> make_named(const Family& family, const TimmArchitecture& architecture) {
  return family.from_timm(architecture.args, {architecture.image_size, architecture.image_size, 3, 1000}, architecture.name);
}

// tools/references/models/timm_variants.py: for each name the elements of all parameters and a hash of their names and shapes.
TEST(NamedModels, HaveTimmsParameters) {
  std::ifstream in(testing::source_path("tests/references/timm_variants.json"));
  const json known = json::parse(in);
  for (const Family* family : families()) {
    for (const TimmArchitecture& architecture : family->architectures) {
      std::vector<std::string> lines;
      int64_t elements = 0;
      for (const TimmEntry& entry : make_named(*family, architecture)->timm_map().entries) {
        if (!entry.spec.trained) continue;
        for (int64_t b = 0; b < std::max<int64_t>(entry.blocks, 1); ++b) {
          lines.push_back(fmt::format("{} {}\n", entry.timm_name(b), to_string(entry.dims)));
          elements += element_count(entry.dims);
        }
      }
      std::ranges::sort(lines);
      uint32_t hash = 2166136261u;
      for (const std::string& line : lines) {
        for (const char byte : line) hash = (hash ^ static_cast<unsigned char>(byte)) * 16777619u;
      }
      EXPECT_EQ(known.value(architecture.name, json()), (json{elements, hash})) << architecture.name;
    }
  }
}

// What timm's arguments are in a recipe's section makes the model of these arguments.
TEST(NamedModels, AreSectionsOfARecipe) {
  for (const Family* family : families()) {
    for (const TimmArchitecture& architecture : family->architectures) {
      const auto model = make_named(*family, architecture);
      const std::string keys = family->keys_from_timm(model->timm_args(), architecture.name);
      const std::string recipe = fmt::format("[model]\nname = \"{}\"\n{}", family->name, keys);
      const auto again = make_model(config::parse_recipe(recipe, architecture.name).section("model"), model->input());
      EXPECT_EQ(dynamic_cast<Classifier&>(*again).timm_args(), model->timm_args()) << recipe;
    }
  }
}

TEST(NamedModels, AreWrittenUnderTheirNames) {
  for (const Family* family : families()) {
    for (const TimmArchitecture& architecture : family->architectures) {
      const auto model = make_named(*family, architecture);
      const interop::ModelConfig back = interop::parse_timm_config(interop::write_timm_config(*model, {}), "config.json");
      EXPECT_EQ(back.model->timm_args(), model->timm_args()) << architecture.name;
      EXPECT_EQ(back.model->input().classes, 1000);
      // Another name may mean the same model of the same image size.
      EXPECT_EQ(find_named(back.architecture).family, family);
    }
  }
}

std::string describe(const std::string& section) {
  const config::Section recipe = config::parse_recipe("model = { " + section + " }");
  return make_model(config::Section(recipe).section("model"), {224, 224, 3, 10})->describe();
}

std::string refusal(const std::string& section) {
  try {
    describe(section);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kUsage);
    return error.what();
  }
  return "";
}

TEST(NamedModels, AreVariantsInRecipesThatOtherOptionsOverride) {
  EXPECT_EQ(describe(R"(name = "mixer", variant = "mixer_b16_224", depth = 3)"),
            "Mixer 768 x 3, patch 16, 224 x 224 images, 10 classes");
  EXPECT_EQ(describe(R"(name = "resmlp", variant = "resmlp_12_224")"),
            "ResMLP 384 x 12, patch 16, 224 x 224 images, 10 classes");
  EXPECT_EQ(describe(R"(name = "convnext", variant = "convnext_atto")"),
            "ConvNeXt 40, 80, 160, 320 x 2, 2, 6, 2, 224 x 224 images, 10 classes");
  EXPECT_EQ(describe(R"(name = "vit", variant = "deit3_small_patch16_224", depth = 2)"),
            "ViT 384 x 2, 6 heads, patch 16, 224 x 224 images, 10 classes");
}

TEST(NamedModels, MistakesNameTheKey) {
  EXPECT_THAT(refusal(R"(name = "mixer", variant = "mixer_s16")"), HasSubstr("did you mean `mixer_s16_224`?"));
  EXPECT_THAT(refusal(R"(name = "vit", variant = "deit3_smal_patch16_224")"),
              HasSubstr("did you mean `deit3_small_patch16_224`?"));
  EXPECT_THAT(refusal(R"(name = "mixer", width = 8, depth = 1)"), HasSubstr("`model.patch` is not given"));
  EXPECT_THAT(refusal(R"(name = "mixer", width = 8, depth = 1, patch = 5)"), HasSubstr("`model.patch` must divide"));
  EXPECT_THAT(refusal(R"(name = "resmlp", width = 8, depth = 1, patch = 16, drop_path = 1.5)"),
              HasSubstr("`model.drop_path` must be in [0, 1)"));
  EXPECT_THAT(refusal(R"(name = "convnext", dims = [8, 16])"), HasSubstr("`model.dims` must be 4 numbers, and is 2"));
  EXPECT_THAT(refusal(R"(name = "convnext", kernel_sizes = [6])"), HasSubstr("`model.kernel_sizes` must be odd"));
  EXPECT_THAT(refusal(R"(name = "convnext", image_size = 16)"), HasSubstr("`model.image_size` must be at least 32"));
  EXPECT_THAT(refusal(R"(name = "convnext", patch = 8)"), HasSubstr("`model.patch` must be 1, 2 or 4"));
  EXPECT_THAT(refusal(R"(name = "convnext", head_hidden = 8, norm_first = true)"), HasSubstr("`model.head_hidden` needs"));
}

}  // namespace
}  // namespace tessera::models
