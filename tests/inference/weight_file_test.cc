// Weights of big_vision's and Hugging Face's files: the same logits as their own libraries give (tools/references/
// big_vision_weights.py and hugging_face_weights.py), and back into such files unchanged.
#include "state/weight_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/formats/npz.h"
#include "checkpoint/formats/safetensors.h"
#include "inference/timm_directory.h"
#include "interop/timm_import.h"
#include "ir/ops.h"
#include "models/image_text/cappa.h"
#include "models/image_text/two_tower.h"
#include "store/temp_dir.h"
#include "support/formula.h"
#include "support/paths.h"
#include "support/run_graph.h"

namespace tessera::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kFolder = testing::source_path("tests/references/weights/");

std::unique_ptr<models::ViT> small_vit(const std::string& kind) {
  models::ViTOptions vit;
  vit.width = 16, vit.depth = 2, vit.heads = 2, vit.mlp_dim = 24, vit.patch = 4, vit.image_size = 12, vit.classes = 5;
  if (kind == "map") vit.style = "big_vision", vit.pool = "map";
  if (kind == "scan") vit.style = "big_vision";
  return std::make_unique<models::ViT>(models::resolve(vit, {}));
}

std::unique_ptr<models::CapPa> small_cappa(const std::string& kind) {
  models::CapPaOptions o;
  o.width = 16, o.depth = 2, o.heads = 2, o.mlp_dim = 24, o.patch = 4, o.image_size = 12, o.tokens = 5, o.vocabulary = 11;
  o.decoder_width = 8, o.decoder_depth = 3, o.decoder_heads = 4, o.decoder_mlp_dim = 12, o.decoder_bias = kind == "cappa";
  return std::make_unique<models::CapPa>(models::resolve(o, {}));
}

std::unique_ptr<models::TwoTower> small_towers(const std::string& kind) {
  models::TwoTowerOptions o;
  models::ViTOptions& vit = o.image.vit;
  vit.width = 16, vit.depth = 2, vit.heads = 2, vit.mlp_dim = 24, vit.patch = 4, vit.image_size = 12, vit.pool = "map";
  o.text.width = 8, o.text.depth = 3, o.text.heads = 4, o.text.mlp_dim = 12, o.text.tokens = 5, o.text.vocabulary = 11;
  o.bias_init = -10;
  if (kind == "siglip_scan") o.text.pool = "map", o.out_dim = 6;
  return std::make_unique<models::TwoTower>(models::resolve(o, {}));
}

// (7 row + 3 column) % 11.
ir::Value small_captions() {
  std::vector<float> captions;
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 5; ++column) captions.push_back(static_cast<float>((7 * row + 3 * column) % 11));
  }
  return ir::convert(ir::constant_f32({3, 5}, captions), DType::kI32);
}

// What `answer` gives for three images, with the file's weights.
std::vector<float> run(const models::Model& model, const models::ArrayViews& timm, const std::vector<float>& images,
                       const std::function<ir::Value(const nn::Scope&, ir::Value)>& answer) {
  const interop::Imported imported = interop::import_timm(model.timm_map(), timm);
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  nn::ParamStore store(graph);
  std::vector<testing::HostArray> arguments;
  for (const nn::ParamSpec& spec : models::parameters(model)) {
    store.provide(spec.name, graph.add_parameter(spec.type, spec.name));
    arguments.push_back({spec.type, imported.parameters.at(spec.name).data});
  }
  const ir::Value in = graph.add_parameter({DType::kF32, {3, 12, 12, 3}}, "images");
  arguments.push_back(testing::f32_array({3, 12, 12, 3}, images));
  graph.results = {answer(nn::Scope(store, {}), in)};
  return testing::CompiledGraph(graph, testing::quick_compile()).run(arguments)[0].floats();
}

// Logits of images [3, 12, 12, 3].
std::vector<float> logits_of(const models::ViT& model, const models::ArrayViews& timm, const std::vector<float>& images) {
  return run(model, timm, images, [&](const nn::Scope& scope, ir::Value in) { return model.logits(scope, in); });
}

// A model with the file's weights, as load_model gives it.
state::LoadedModel loaded(std::unique_ptr<models::Model> model, const models::ArrayViews& timm) {
  state::LoadedModel out;
  interop::Imported imported = interop::import_timm(model->timm_map(), timm);
  out.layout = state::param_layout(models::parameters(*model));
  for (const nn::ParamSpec& spec : models::parameters(*model)) {
    out.params.push_back(store::own_bytes(std::move(imported.parameters.at(spec.name).data)));
  }
  out.model = std::move(model);
  return out;
}

models::Arrays npz_arrays(const std::string& path) {
  models::Arrays arrays;
  for (checkpoint::NpzArray& array : checkpoint::read_npz(path, {"params/"})) {
    arrays[array.name] = {array.type, std::move(array.data)};
  }
  return arrays;
}

models::Arrays safetensors_arrays(const std::string& path) {
  const checkpoint::SafetensorsFile file = checkpoint::SafetensorsFile::open(path);
  models::Arrays arrays;
  for (const checkpoint::TensorView& tensor : file.tensors()) {
    if (tensor.name != "logits") arrays[tensor.name] = {tensor.type, {tensor.data.begin(), tensor.data.end()}};
  }
  return arrays;
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void expect_near(const std::vector<float>& ours, const std::vector<float>& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  float largest = 0;
  for (const float value : theirs) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], theirs[i], 1e-4f * largest) << i;
}

std::vector<float> floats(const std::vector<std::byte>& data) {
  std::vector<float> values(data.size() / sizeof(float));
  std::memcpy(values.data(), data.data(), data.size());
  return values;
}

TEST(WeightFile, BigVisionsCheckpointsGiveItsLogits) {
  const std::vector<float> images = testing::formula_array("bv/images", 3 * 12 * 12 * 3);
  for (const std::string name : {"map", "scan"}) {
    const std::string path = kFolder + "bv_" + name + ".npz";
    const state::WeightFile file = state::read_weight_file({path, ""});
    EXPECT_EQ(file.naming, interop::Naming::kBigVision);
    expect_near(logits_of(*small_vit(name), file.arrays, images), floats(checkpoint::read_npz(path, {"logits"})[0].data));
    EXPECT_EQ(state::read_weight_file({path, "params"}).owned, file.owned);
  }
}

TEST(WeightFile, HuggingFacesFilesGiveItsLogits) {
  const std::string path = kFolder + "hugging_face.safetensors";
  const state::WeightFile file = state::read_weight_file({path, ""});
  EXPECT_EQ(file.naming, interop::Naming::kHuggingFace);
  models::ArrayViews timm = file.arrays;
  ASSERT_EQ(timm.erase("logits"), 1u);
  // [batch, channels, height, width] there.
  const std::vector<float> planes = testing::formula_array("hf/images", 3 * 3 * 144);
  std::vector<float> images(planes.size());
  for (size_t b = 0; b < 3; ++b) {
    for (size_t c = 0; c < 3; ++c) {
      for (size_t p = 0; p < 144; ++p) images[(b * 144 + p) * 3 + c] = planes[(b * 3 + c) * 144 + p];
    }
  }
  const checkpoint::SafetensorsFile original = checkpoint::SafetensorsFile::open(path);
  const checkpoint::TensorView* logits = original.find("logits");
  ASSERT_NE(logits, nullptr);
  expect_near(logits_of(*small_vit("timm"), timm, images), floats({logits->data.begin(), logits->data.end()}));
}

TEST(WeightFile, BigVisionsCapPaGivesItsLogits) {
  const std::vector<float> images = testing::formula_array("bv/images", 3 * 12 * 12 * 3);
  for (const std::string name : {"cappa", "cappa_scan"}) {
    const std::string path = kFolder + "bv_" + name + ".npz";
    const std::unique_ptr<models::CapPa> model = small_cappa(name);
    const std::vector<float> logits = run(
        *model, state::read_weight_file({path, ""}).arrays, images,
        [&](const nn::Scope& scope, ir::Value in) { return model->decode(scope, model->encode(scope, in), small_captions()); });
    expect_near(logits, floats(checkpoint::read_npz(path, {"logits"})[0].data));
  }
}

TEST(WeightFile, BigVisionsTwoTowersGiveItsSimilarities) {
  const std::vector<float> images = testing::formula_array("bv/images", 3 * 12 * 12 * 3);
  for (const std::string name : {"siglip", "siglip_scan"}) {
    const std::string path = kFolder + "bv_" + name + ".npz";
    const state::WeightFile file = state::read_weight_file({path, ""});
    EXPECT_EQ(file.naming, interop::Naming::kBigVision);
    const std::unique_ptr<models::TwoTower> model = small_towers(name);
    const std::vector<float> logits = run(*model, file.arrays, images, [&](const nn::Scope& scope, ir::Value in) {
      const ir::Value image_vectors = model->embed_images(scope, in),
                      text_vectors = model->embed_texts(scope, small_captions());
      return models::similarities(*model, scope, image_vectors, text_vectors);
    });
    expect_near(logits, floats(checkpoint::read_npz(path, {"logits"})[0].data));
  }
}

TEST(WeightFile, ATowerForImagesIsAViT) {
  const state::WeightFile file = state::read_weight_file({kFolder + "bv_siglip.npz", "img"});
  interop::ImportOptions options;
  options.dont_load = {"head/.*"};
  const models::Arrays tower = interop::import_timm(small_vit("map")->timm_map(), file.arrays, options).parameters;
  const models::Arrays whole =
      interop::import_timm(small_towers("siglip")->timm_map(), state::read_weight_file({kFolder + "bv_siglip.npz", ""}).arrays)
          .parameters;
  for (const auto& [name, array] : tower) EXPECT_EQ(array, whole.at("img/" + name)) << name;
}

TEST(WeightFile, AnEncoderOfCapPaIsAViT) {
  const std::string path = kFolder + "bv_cappa.npz";
  const models::Arrays whole =
      interop::import_timm(small_cappa("cappa")->timm_map(), state::read_weight_file({path, ""}).arrays).parameters;
  interop::ImportOptions options;
  options.dont_load = {"head/.*"};
  for (const char* scope : {"encoder", "params/encoder"}) {
    const state::WeightFile file = state::read_weight_file({path, scope});
    const models::Arrays encoder = interop::import_timm(small_vit("scan")->timm_map(), file.arrays, options).parameters;
    EXPECT_EQ(encoder.size(), 17u);
    for (const auto& [name, array] : encoder) EXPECT_EQ(array, whole.at("encoder/" + name)) << name;
  }
}

TEST(WeightFile, TypesOfNumpysFilesAreThoseOfTheirArrays) {
  for (const char* name : {"map", "scan", "cappa", "siglip", "siglip_scan"}) {
    const std::string path = kFolder + "bv_" + name + ".npz";
    const state::WeightFile file = state::read_weight_file({path, ""}), types = state::read_weight_types({path, ""});
    EXPECT_EQ(types.naming, file.naming);
    ASSERT_EQ(types.arrays.size(), file.arrays.size()) << name;
    for (const auto& [array, view] : types.arrays) {
      ASSERT_TRUE(file.arrays.contains(array)) << array;
      EXPECT_EQ(view.type, file.arrays.at(array).type) << array;
      EXPECT_TRUE(view.data.empty());
    }
  }
}

// A file of a megabyte may unpack to a gigabyte. Its elements are damaged here, which is told only if they are read.
TEST(WeightFile, NumpysArraysOfOtherShapesAreNotUnpacked) {
  const testing::TempDir dir;
  std::vector<checkpoint::NpzArray> arrays = checkpoint::read_npz(kFolder + "bv_map.npz");
  const auto spill_damaged = [&](const std::string& path) {
    checkpoint::write_npz(path, arrays);
    std::string bytes = testing::slurp(path);
    const size_t header = bytes.find("NUMPY", bytes.find("params/head/kernel.npy"));
    bytes[bytes.find('\n', header) + 5] ^= 1;
    testing::spill(path, bytes);
    const std::unique_ptr<models::ViT> model = small_vit("map");
    const state::StateLayout layout = state::param_layout(models::parameters(*model));
    state::HostArrays params = state::empty_params(layout);
    return refusal([&] { state::init_from({.from = path}, *model, layout, params); });
  };
  EXPECT_THAT(spill_damaged(dir / "same.npz"), HasSubstr("the array `params/head/kernel.npy` is damaged"));
  for (checkpoint::NpzArray& array : arrays) {
    if (array.name != "params/head/kernel") continue;
    array.type.dims = {16, 7};
    array.data.resize(static_cast<size_t>(byte_count(array.type)));
  }
  const std::string error = spill_damaged(dir / "other.npz");
  EXPECT_THAT(error, HasSubstr("head.weight is f32[7, 16], wanted [5, 16]"));
  EXPECT_THAT(error, HasSubstr("--> " + dir / "other.npz"));
}

// Queries, keys and values become one array, of which all have to have the columns.
TEST(WeightFile, PartsThatDoNotGoTogetherAreRefused) {
  const auto refusal_of = [](const char* name, const Dims& dims) {
    models::Arrays arrays;
    const std::string block = "vit.encoder.layer.0.attention.attention.";
    for (const char* part : {"query", "key", "value"}) {
      arrays[block + part + ".weight"] = models::array_f32({2, 3}, {1, 2, 3, 4, 5, 6});
      arrays[block + part + ".bias"] = models::array_f32({2}, {1, 2});
    }
    EXPECT_EQ(interop::to_timm_naming(models::views(arrays), interop::Naming::kHuggingFace, "file").size(), 2u);
    arrays[block + name] = models::array_f32(dims, std::vector<float>(static_cast<size_t>(element_count(dims))));
    return refusal([&] { interop::to_timm_naming(models::views(arrays), interop::Naming::kHuggingFace, "file"); });
  };
  EXPECT_THAT(refusal_of("value.weight", {2, 0}), HasSubstr("value.weight` is f32[2, 0], which cannot stand below the others"));
  EXPECT_THAT(refusal_of("key.weight", {2, 3, 1}), HasSubstr("key.weight` is f32[2, 3, 1], which"));
  EXPECT_THAT(refusal_of("query.bias", {}), HasSubstr("query.bias` is f32[], which"));
}

TEST(WeightFile, BigVisionsFilesAreWrittenAsTheyWereRead) {
  const testing::TempDir dir;
  for (const std::string name : {"map", "cappa", "siglip"}) {
    std::unique_ptr<models::Model> model;
    if (name == "map") model = small_vit(name);
    if (name == "cappa") model = small_cappa(name);
    if (name == "siglip") model = small_towers(name);
    const state::WeightFile file = state::read_weight_file({kFolder + "bv_" + name + ".npz", ""});
    inference::write_big_vision_file(loaded(std::move(model), file.arrays), dir / (name + ".npz"));
    EXPECT_EQ(npz_arrays(dir / (name + ".npz")), npz_arrays(kFolder + "bv_" + name + ".npz"));
    EXPECT_EQ(state::read_weight_file({dir / (name + ".npz"), ""}).owned, file.owned);
  }
}

state::LoadedModel hugging_faces_vit() {
  state::WeightFile file = state::read_weight_file({kFolder + "hugging_face.safetensors", ""});
  file.arrays.erase("logits");
  state::LoadedModel model = loaded(small_vit("timm"), file.arrays);
  model.pp = "decode | resize(12, interpolation=bicubic) | value_range(-1, 1)";
  model.class_names = {"a", "b", "c", "d", "e"};
  return model;
}

TEST(WeightFile, HuggingFacesDirectoriesAreWrittenAsTheyWereRead) {
  const testing::TempDir dir;
  state::LoadedModel model = hugging_faces_vit();
  EXPECT_TRUE(inference::write_hugging_face_directory(model, dir / "out").empty());
  EXPECT_EQ(safetensors_arrays(dir / "out/model.safetensors"), safetensors_arrays(kFolder + "hugging_face.safetensors"));

  const auto parse = [&](const char* name) {
    return nlohmann::json::parse(store::read_text(store::local_files(), dir / (std::string("out/") + name)));
  };
  const nlohmann::json config = parse("config.json"), processor = parse("preprocessor_config.json");
  EXPECT_EQ(config["architectures"][0], "ViTForImageClassification");
  EXPECT_EQ(config["intermediate_size"], 24);
  EXPECT_EQ(config["hidden_act"], "gelu");
  EXPECT_EQ(config["id2label"]["3"], "d");
  EXPECT_EQ(config["label2id"]["d"], 3);
  EXPECT_EQ(processor["size"], (nlohmann::json{{"height", 12}, {"width", 12}}));
  EXPECT_EQ(processor["resample"], 3);
  EXPECT_EQ(processor["image_std"], (nlohmann::json{0.5, 0.5, 0.5}));
  model.pp = "decode | resize_small(14) | central_crop(12) | value_range(-1, 1)";
  EXPECT_THAT(inference::write_hugging_face_directory(model, dir / "cropped"), ElementsAre(HasSubstr("crops nothing")));
}

// What write_hugging_face_directory wrote is a model with its preprocessing.
TEST(WeightFile, HuggingFacesDirectoriesAreModels) {
  const testing::TempDir dir;
  state::LoadedModel model = hugging_faces_vit();
  inference::write_hugging_face_directory(model, dir / "out");
  const state::LoadedModel back = state::load_model(dir / "out");
  EXPECT_EQ(back.model->describe(), model.model->describe());
  EXPECT_EQ(back.class_names, model.class_names);
  EXPECT_THAT(back.pp, HasSubstr("resize(12, 12, interpolation=bicubic) | central_crop(12, 12)"));
  for (size_t i = 0; i < model.params.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(back.params[i].data, model.params[i].data)) << i;
  }
  std::filesystem::remove(dir / "out/preprocessor_config.json");
  EXPECT_EQ(state::load_model(dir / "out").pp, "");
}

// As save_pretrained(max_shard_size=…) writes them.
TEST(WeightFile, HuggingFacesDirectoriesMayHaveSeveralFiles) {
  const testing::TempDir dir;
  const std::string whole = testing::source_path("tests/references/hugging_face_dir");
  const auto file = checkpoint::SafetensorsFile::open(whole + "/model.safetensors");
  const std::string names[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
  std::vector<checkpoint::TensorView> parts[2];
  nlohmann::json index = {{"metadata", {{"total_size", 1}}}, {"weight_map", nlohmann::json::object()}};
  for (const checkpoint::TensorView& tensor : file.tensors()) {
    const size_t part = parts[0].size() > parts[1].size() ? 1 : 0;
    parts[part].push_back(tensor);
    index["weight_map"][tensor.name] = names[part];
  }
  for (size_t part = 0; part < 2; ++part) {
    checkpoint::write_safetensors(store::local_files(), dir / names[part], parts[part], {{"format", "pt"}});
  }
  for (const char* name : {"config.json", "preprocessor_config.json"}) {
    std::filesystem::copy(whole + "/" + name, dir / name);
  }
  const std::string path = dir / "model.safetensors.index.json";
  testing::spill(path, index.dump());
  const state::LoadedModel one = state::load_model(whole), several = state::load_model(dir.path());
  for (size_t i = 0; i < one.params.size(); ++i) EXPECT_TRUE(std::ranges::equal(several.params[i].data, one.params[i].data));
  EXPECT_EQ(state::read_weight_file({path, ""}).owned, state::read_weight_file({whole + "/model.safetensors", ""}).owned);

  const auto with = [&](const char* array, const char* where) {
    nlohmann::json other = index;
    other["weight_map"][array] = where;
    testing::spill(path, other.dump());
    return refusal([&] { state::read_weight_file({path, ""}); });
  };
  EXPECT_THAT(with("gone", names[0].c_str()), HasSubstr("arrays that the index says are in it"));
  EXPECT_THAT(with("gone", "../other.safetensors"), HasSubstr("names no .safetensors file beside it"));
  EXPECT_THAT(with("gone", "model-00003-of-00002.safetensors"), HasSubstr("No such file"));
  testing::spill(path, std::string(100'000, '['));
  const std::string deep = refusal([&] { state::read_weight_file({path, ""}); });
  EXPECT_THAT(deep, AllOf(HasSubstr("nests more than 64 levels deep"), HasSubstr("\nhelp: ")));
  testing::spill(path, "{}");
  EXPECT_THAT(refusal([&] { state::read_weight_file({path, ""}); }), HasSubstr("it has no `weight_map`"));
}

TEST(WeightFile, ModelsThatTheOthersHaveNotAreRefused) {
  const state::LoadedModel map = loaded(small_vit("map"), state::read_weight_file({kFolder + "bv_map.npz", ""}).arrays);
  EXPECT_THAT(refusal([&] { inference::write_hugging_face_directory(map, "out"); }), HasSubstr("it would need pool = \"tok\""));
  EXPECT_THAT(refusal([&] { inference::write_big_vision_file(map, "out.safetensors"); }),
              HasSubstr("does not name an .npz file"));
  state::WeightFile file = state::read_weight_file({kFolder + "hugging_face.safetensors", ""});
  file.arrays.erase("logits");
  const state::LoadedModel timm = loaded(small_vit("timm"), file.arrays);
  EXPECT_THAT(refusal([&] { inference::write_big_vision_file(timm, "out.npz"); }), HasSubstr("it would need gelu = \"tanh\""));
  const state::LoadedModel cappa = loaded(small_cappa("cappa"), state::read_weight_file({kFolder + "bv_cappa.npz", ""}).arrays);
  EXPECT_THAT(refusal([&] { inference::write_timm_directory(cappa, "out"); }), HasSubstr("timm has no such model"));
  EXPECT_THAT(refusal([&] { inference::write_hugging_face_directory(cappa, "out"); }), HasSubstr("only ViT is written"));
  models::TwoTowerOptions towers;
  towers.image.vit.variant = "mu/16", towers.image.vit.gelu = "exact";
  towers.text.variant = "mu";
  const auto refusal_of = [&] {
    state::LoadedModel model;
    model.model =
        std::make_unique<models::TwoTower>(models::resolve(towers, {.height = 16, .width = 16, .tokens = 4, .vocabulary = 9}));
    return refusal([&] { inference::write_big_vision_file(model, "out.npz"); });
  };
  EXPECT_THAT(refusal_of(), HasSubstr("it would need image.gelu = \"tanh\""));
  towers.image.vit.gelu.reset();
  towers.text.causal = true;
  EXPECT_THAT(refusal_of(), HasSubstr("it would need text.causal = false"));
}

TEST(WeightFile, PathsMayNameAScope) {
  EXPECT_EQ(state::parse_weight_path("a.npz:params/img").path, "a.npz");
  EXPECT_EQ(state::parse_weight_path("a.npz:params/img").scope, "params/img");
  EXPECT_EQ(state::parse_weight_path(kFolder + "bv_map.npz").scope, "");
  try {
    state::read_weight_file({kFolder + "bv_map.npz", "params/img"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no array whose name begins with `params/img/`"));
  }
}

}  // namespace
}  // namespace tessera::train
