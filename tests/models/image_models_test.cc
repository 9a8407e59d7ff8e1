// Every family against timm (tools/references/image_models.py): logits, gradients, five training steps, names of weights; and
// every named variant's parameters.

#include <gmock/gmock.h>

#include <fstream>

#include "base/hash.h"
#include "interop/timm_config.h"
#include "interop/timm_import.h"
#include "models/reference.h"

namespace tessera::models {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// Training as the references have it: SGD with momentum 0.9.
struct Training {
  std::vector<double> losses;
  Arrays parameters, first;  // after the last step and before the first, under timm's names
};

Training train(const Classifier& model, const Reference& reference) {
  const json& config = reference.config;
  const int64_t batch = config["batch"], steps = static_cast<int64_t>(reference.at("losses").size());
  const InputShape& in = model.input();
  ir::Graph graph;
  const ir::GraphScope graph_scope(graph);
  const ir::Value images = graph.add_parameter({DType::kF32, {batch, in.height, in.width, in.channels}});
  const ir::Value labels = graph.add_parameter({DType::kI32, {batch}});
  nn::ParamStore store(graph);
  const ir::Value logits = model.logits(nn::Scope(store, {.training = true}), images);
  const ir::Value target = ir::one_hot(labels, in.classes, DType::kF32);
  const ir::Value loss = -ir::sum_all(target * ir::log_softmax(logits)) / static_cast<double>(batch);
  const ir::Values grads = ir::gradient(loss, store.values());
  const size_t count = store.specs().size();
  std::map<std::string, ir::Value> updates;
  for (const nn::BufferUpdate& update : store.updates()) updates[update.name] = update.value;
  ir::Values moments;
  for (size_t i = 0; i < count; ++i) moments.push_back(graph.add_parameter(store.specs()[i].type));
  graph.results = {loss};
  for (size_t i = 0; i < count; ++i) {
    if (store.specs()[i].trained) moments[i] = 0.9 * moments[i] + grads[i];
    const nn::ParamSpec& spec = store.specs()[i];
    graph.results.push_back(spec.trained ? store.values()[i] - config["lr"].get<double>() * moments[i] : updates.at(spec.name));
  }
  graph.results.insert(graph.results.end(), moments.begin(), moments.end());
  const testing::CompiledGraph program(graph, testing::quick_compile());

  Training out;
  out.first = formula_file(config);
  const interop::Imported imported = interop::import_timm(model.timm_map(), views(out.first));
  std::vector<testing::HostArray> state;
  for (const nn::ParamSpec& spec : store.specs()) state.push_back({spec.type, imported.parameters.at(spec.name).data});
  for (size_t i = 0; i < count; ++i)
    state.push_back(testing::f32_array(state[i].type.dims, std::vector<float>(state[i].data.size() / 4)));
  for (int64_t s = 0; s < steps; ++s) {
    std::vector<testing::HostArray> arguments = state;
    const std::vector<float> pixels = testing::formula_images(config["case"], s, batch, in.channels, in.height, in.width);
    arguments.insert(arguments.begin(), {testing::f32_array(images.dims(), pixels),
                                         testing::i32_array({batch}, testing::formula_labels(s, batch, in.classes))});
    // Arguments stand in the order of the graph's: images, labels, parameters, moments.
    std::vector<testing::HostArray> results = program.run(arguments);
    out.losses.push_back(static_cast<double>(results[0].floats()[0]));
    state.assign(results.begin() + 1, results.end());
  }
  Arrays ours;
  for (size_t i = 0; i < count; ++i) ours[store.specs()[i].name] = {state[i].type, state[i].data};
  out.parameters = interop::export_timm(model.timm_map(), views(ours));
  return out;
}

class ImageModels : public ::testing::TestWithParam<std::string> {
 protected:
  Reference reference_ = load_reference("model_" + GetParam() + ".safetensors");
  std::unique_ptr<Classifier> model_ = reference_model(reference_);
};

TEST_P(ImageModels, LogitsLossAndGradientsAreTimms) { expect_run(*model_, reference_, {}); }

TEST_P(ImageModels, FiveStepsFollowTorch) {
  const Training training = train(*model_, reference_);
  const std::vector<float>& losses = reference_.at("losses");
  ASSERT_EQ(training.losses.size(), losses.size());
  for (size_t s = 0; s < losses.size(); ++s) {
    EXPECT_NEAR(training.losses[s] / static_cast<double>(losses[s]), 1, 1e-4) << "step " << s;
  }
  const auto zeros = reference_.config["zero_grads"].get<std::vector<std::string>>();
  size_t i = 0;
  for (const auto& entry : reference_.config["parameters"]) {
    const auto name = entry[0].get<std::string>();
    const auto want = static_cast<double>(reference_.at("param_norms")[i++]);
    if (std::ranges::count(zeros, name) > 0) continue;
    const std::vector<float> first = to_floats(views(training.first).at(name));
    const double moved = distance(to_floats(views(training.parameters).at(name)), first);
    EXPECT_NEAR(moved, want, 2e-3 * want + 3e-7 * norm(first)) << name;  // the second: what f32 rounds off
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

// tools/references/timm_variants.py: for each name the elements of all parameters and a hash of their names and shapes.
TEST(NamedModels, HaveTimmsParameters) {
  std::ifstream in(TESSERA_SOURCE_DIR "/tests/references/timm_variants.json");
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
