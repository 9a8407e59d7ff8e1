// Weights of big_vision's and Hugging Face's files: the same logits as their own libraries give (tools/references/
// big_vision_weights.py and hugging_face_weights.py), and back under their names unchanged.
#include "train/weight_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "checkpoint/npz.h"
#include "checkpoint/safetensors.h"
#include "models/timm_names.h"
#include "models/vit.h"
#include "support/formula.h"
#include "support/run_graph.h"

namespace tessera::train {
namespace {

const std::string kFolder = TESSERA_SOURCE_DIR "/tests/references/weights/";

models::ViT small_vit(const std::string& kind) {
  models::ViTOptions vit;
  vit.width = 16, vit.depth = 2, vit.heads = 2, vit.mlp_dim = 24, vit.patch = 4, vit.image_size = 12, vit.classes = 5;
  if (kind == "map") vit.style = "big_vision", vit.pool = "map";
  if (kind == "scan") vit.style = "big_vision";
  return models::ViT(models::resolve(vit, {}));
}

// Logits of images [3, 12, 12, 3].
std::vector<float> logits_of(const models::ViT& model, const models::ArrayViews& timm, const std::vector<float>& images) {
  const models::Imported imported = models::import_timm(model.timm_map(), timm);
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
  graph.results = {model.logits(nn::Scope(store, {}), in)};
  return testing::CompiledGraph(graph, testing::quick_compile()).run(arguments)[0].floats();
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
    const WeightFile file = read_weight_file({path, ""});
    EXPECT_EQ(file.naming, models::Naming::kBigVision);
    expect_near(logits_of(small_vit(name), file.arrays, images), floats(checkpoint::read_npz(path, "logits")[0].data));
    EXPECT_EQ(read_weight_file({path, "params"}).owned, file.owned);
  }
}

TEST(WeightFile, HuggingFacesFilesGiveItsLogits) {
  const std::string path = kFolder + "hugging_face.safetensors";
  const WeightFile file = read_weight_file({path, ""});
  EXPECT_EQ(file.naming, models::Naming::kHuggingFace);
  models::ArrayViews timm = file.arrays;
  ASSERT_EQ(timm.erase("logits"), 1u);
  const models::ViT model = small_vit("timm");
  // [batch, channels, height, width] there.
  const std::vector<float> planes = testing::formula_array("hf/images", 3 * 3 * 144);
  std::vector<float> images(planes.size());
  for (size_t b = 0; b < 3; ++b) {
    for (size_t c = 0; c < 3; ++c) {
      for (size_t p = 0; p < 144; ++p) images[(b * 144 + p) * 3 + c] = planes[(b * 3 + c) * 144 + p];
    }
  }
  const checkpoint::SafetensorsFile original = checkpoint::SafetensorsFile::open(path);
  const checkpoint::TensorView& logits = original.at("logits");
  expect_near(logits_of(model, timm, images), floats({logits.data.begin(), logits.data.end()}));
}

TEST(WeightFile, NamesThereAndBackAreTheIdentity) {
  models::Arrays big_vision;
  for (checkpoint::NpzArray& array : checkpoint::read_npz(kFolder + "bv_map.npz", "params/")) {
    big_vision[array.name] = {array.type, std::move(array.data)};
  }
  const models::Arrays timm = models::to_timm_naming(models::views(big_vision), models::Naming::kBigVision, "");
  EXPECT_EQ(models::from_timm_naming(timm, models::Naming::kBigVision, 2), big_vision);

  const checkpoint::SafetensorsFile file = checkpoint::SafetensorsFile::open(kFolder + "hugging_face.safetensors");
  models::Arrays hugging_face;
  for (const checkpoint::TensorView& tensor : file.tensors()) {
    if (tensor.name != "logits") hugging_face[tensor.name] = {tensor.type, {tensor.data.begin(), tensor.data.end()}};
  }
  const models::Arrays also_timm = models::to_timm_naming(models::views(hugging_face), models::Naming::kHuggingFace, "");
  EXPECT_EQ(models::from_timm_naming(also_timm, models::Naming::kHuggingFace, 2), hugging_face);
  // What another library's model does not have is said.
  EXPECT_THROW(models::from_timm_naming(timm, models::Naming::kHuggingFace, 2), Error);
}

TEST(WeightFile, PathsMayNameAScope) {
  EXPECT_EQ(parse_weight_path("a.npz:params/img").path, "a.npz");
  EXPECT_EQ(parse_weight_path("a.npz:params/img").scope, "params/img");
  EXPECT_EQ(parse_weight_path(kFolder + "bv_map.npz").scope, "");
  try {
    read_weight_file({kFolder + "bv_map.npz", "params/img"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("no array whose name begins with `params/img/`"));
  }
}

}  // namespace
}  // namespace tessera::train
