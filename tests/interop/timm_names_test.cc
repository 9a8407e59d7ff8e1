// Weights between our parameters and timm's files.

#include "models/timm_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "config/section.h"
#include "interop/patches.h"
#include "interop/timm_import.h"
#include "models/vit/vit.h"
#include "support/formula.h"

namespace tessera::models {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ViTOptions small_options() {
  ViTOptions o;
  o.width = 8, o.depth = 2, o.heads = 2, o.patch = 4;
  return o;
}

ViT small(const ViTOptions& options, int64_t side = 16, int64_t classes = 10) {
  return ViT(resolve(options, {side, side, 3, classes}));
}

Arrays formula_parameters(const Model& model) {
  Arrays arrays;
  for (const nn::ParamSpec& spec : parameters(model)) {
    arrays[spec.name] = array_f32(spec.type.dims, testing::formula_array(spec.name, element_count(spec.type.dims)));
  }
  return arrays;
}

float element(const Array& array, size_t i) { return to_floats({array.type, array.data})[i]; }

std::string refusal(const TimmMap& map, const Arrays& file, const interop::ImportOptions& options = {}) {
  try {
    interop::import_timm(map, views(file), options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kData);
    return error.what();
  }
  return "";
}

TEST(TimmNames, EveryKindOfParameterGoesOutAndComesBackBitExact) {
  ViTOptions everything = small_options();
  everything.pool = "map", everything.class_token = true, everything.reg_tokens = 2, everything.qk_norm = true;
  everything.layer_scale = 0.1;
  ViTOptions gap = small_options();
  gap.pool = "gap", gap.pre_norm = true;
  for (const ViTOptions& options : {small_options(), everything, gap}) {
    const ViT model = small(options);
    const Arrays ours = formula_parameters(model);
    const TimmMap map = model.timm_map();
    const Arrays timms = interop::export_timm(map, views(ours));
    EXPECT_EQ(interop::import_timm(map, views(timms)).parameters, ours);
    EXPECT_TRUE(interop::import_timm(map, views(timms)).notes.empty());
  }
}

// timm's convert_splitbn_model copies a norm to its auxiliary ones; a plain model of timm's has the main norms alone.
TEST(TimmNames, AuxiliaryNormsStayHereAndBeginAsTheMainOnes) {
  const auto resnet = [](int splits) {
    config::Section recipe = config::parse_recipe(fmt::format(
        "model = {{ name = \"resnet\", block = \"basic\", depths = [2, 1, 1, 1], dims = [4, 4, 4, 4], norm_splits = {} }}",
        splits));
    return make_model(recipe.section("model"), {32, 32, 3, 5});
  };
  const auto plain = resnet(1), split = resnet(3);
  const Arrays of_plain = interop::export_timm(plain->timm_map(), views(formula_parameters(*plain)));
  EXPECT_EQ(interop::export_timm(split->timm_map(), views(formula_parameters(*split))), of_plain);
  const Arrays taken = interop::import_timm(split->timm_map(), views(of_plain)).parameters;
  EXPECT_EQ(taken.size(), parameters(*split).size());
  EXPECT_EQ(taken.at("bn1/aux_bn/1/scale"), taken.at("bn1/scale"));
  EXPECT_EQ(taken.at("layer1/blocks/bn2/aux_bn/0/running_var"), taken.at("layer1/blocks/bn2/running_var"));
  // And a file that has them keeps them.
  Arrays file = of_plain;
  file["bn1.aux_bn.1.weight"] = array_f32({64}, std::vector<float>(64, 7));
  EXPECT_EQ(element(interop::import_timm(split->timm_map(), views(file)).parameters.at("bn1/aux_bn/1/scale"), 3), 7);
  EXPECT_EQ(main_norm("layer1/0/bn1/aux_bn/0/bias"), "layer1/0/bn1/bias");
  EXPECT_EQ(main_norm("bn1.weight"), std::nullopt);
}

TEST(TimmNames, LayoutsAreTheirs) {
  const ViT model = small(small_options());
  const Arrays ours = formula_parameters(model);
  const Arrays timms = interop::export_timm(model.timm_map(), views(ours));
  EXPECT_EQ(timms.at("patch_embed.proj.weight").type.dims, (Dims{8, 3, 4, 4}));
  EXPECT_EQ(timms.at("blocks.1.attn.qkv.weight").type.dims, (Dims{24, 8}));
  EXPECT_EQ(timms.at("blocks.1.norm2.weight").type.dims, (Dims{8}));
  EXPECT_EQ(timms.at("head.weight").type.dims, (Dims{10, 8}));
  EXPECT_TRUE(timms.contains("cls_token") && timms.contains("pos_embed") && timms.contains("norm.bias"));
  // Ours is [row, column, channel, feature]; timm's [feature, channel, row, column].
  const size_t row = 2, column = 3, channel = 1, feature = 5;
  EXPECT_EQ(element(timms.at("patch_embed.proj.weight"), ((feature * 3 + channel) * 4 + row) * 4 + column),
            element(ours.at("patch_embed/kernel"), ((row * 4 + column) * 3 + channel) * 8 + feature));
  EXPECT_EQ(element(timms.at("blocks.1.attn.qkv.weight"), 7 * 8 + 3),
            element(ours.at("blocks/attn/qkv/kernel"), 8 * 24 + 3 * 24 + 7));
  EXPECT_EQ(element(timms.at("blocks.1.norm2.weight"), 3), element(ours.at("blocks/norm2/scale"), 8 + 3));
}

TEST(TimmNames, WhatDoesNotFitIsListedAtOnce) {
  const ViT model = small(small_options());
  const TimmMap map = model.timm_map();
  Arrays file = interop::export_timm(map, views(formula_parameters(model)));
  file.erase("blocks.1.mlp.fc1.bias");
  file.erase("norm.weight");
  file["fc_norm.weight"] = array_f32({8}, std::vector<float>(8));
  file["head.weight"] = array_f32({12, 8}, std::vector<float>(96));
  file["cls_token"].type = {DType::kI32, {1, 1, 8}};
  interop::ImportOptions options;
  options.where = "dir/model.safetensors";
  const std::string text = refusal(map, file, options);
  EXPECT_THAT(text, HasSubstr("missing in the file (2):\n    blocks.1.mlp.fc1.bias [32]\n    norm.weight [8]"));
  EXPECT_THAT(text, HasSubstr("in the file, not in the model (1):\n    fc_norm.weight f32[8]"));
  EXPECT_THAT(text, HasSubstr("of another shape or kind (2):\n    cls_token is i32[1, 1, 8], wanted [1, 1, 8]\n"
                              "    head.weight is f32[12, 8], wanted [10, 8]"));
  EXPECT_THAT(text, HasSubstr("--> dir/model.safetensors"));
  EXPECT_THAT(text, HasSubstr("dont_load"));
}

TEST(TimmNames, DontLoadKeepsInitialValues) {
  const ViT other = small(small_options(), 16, 12), model = small(small_options());
  const TimmMap map = model.timm_map();
  Arrays file = interop::export_timm(other.timm_map(), views(formula_parameters(other)));
  EXPECT_THAT(refusal(map, file), HasSubstr("head.weight is f32[12, 8], wanted [10, 8]"));
  file["fc_norm.weight"] = array_f32({8}, std::vector<float>(8));
  file.erase("blocks.0.norm1.bias");
  interop::ImportOptions options;
  options.dont_load = {"head/.*", "fc_norm\\..*", "blocks/norm1/bias"};
  const interop::Imported imported = interop::import_timm(map, views(file), options);
  EXPECT_FALSE(imported.parameters.contains("head/kernel") || imported.parameters.contains("blocks/norm1/bias"));
  EXPECT_EQ(imported.parameters.size(), map.entries.size() - 3);
  EXPECT_EQ(imported.notes.size(), 4u);
  EXPECT_THAT(imported.notes[0], HasSubstr("blocks/norm1/bias keeps its initial value"));
  options.dont_load = {"haed/.*"};
  try {
    interop::import_timm(map, views(file), options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("`dont_load`: no parameter matches \"haed/.*\"; did you mean `head`"));
  }
}

TEST(TimmNames, AClassifierOfOtherClassesMayBeginAnew) {
  const ViT other = small(small_options(), 16, 12), model = small(small_options());
  const TimmMap map = model.timm_map();
  Arrays file = interop::export_timm(other.timm_map(), views(formula_parameters(other)));
  interop::ImportOptions options;
  options.new_classifier = {"head"};
  const interop::Imported imported = interop::import_timm(map, views(file), options);
  EXPECT_THAT(imported.kept, ::testing::ElementsAre("head/kernel", "head/bias"));
  EXPECT_EQ(imported.parameters.size(), map.entries.size() - 2);
  EXPECT_THAT(imported.notes[0],
              HasSubstr("head/kernel keeps its initial value, for the file has 12 classes and the model 10"));
  file.erase("head.weight");
  file.erase("head.bias");
  EXPECT_THAT(interop::import_timm(map, views(file), options).notes[0], HasSubstr("for the file has no classifier"));
  // The same classes are a classifier to take, whatever else it is.
  Arrays same = interop::export_timm(map, views(formula_parameters(model)));
  EXPECT_TRUE(interop::import_timm(map, views(same), options).kept.empty());
  same["head.weight"] = array_f32({10, 9}, std::vector<float>(90));
  EXPECT_THAT(refusal(map, same, options), HasSubstr("head.weight is f32[10, 9], wanted [10, 8]"));
}

TEST(TimmNames, PatchesAndChannelsAreAdapted) {
  ViTOptions large = small_options(), grey = small_options();
  large.patch = 8, grey.image_size = 16;
  const ViT other = small(small_options()), model = small(large, 32);
  const ViT one_channel(resolve(grey, {16, 16, 1, 10}));
  const Arrays parameters = formula_parameters(other);
  const auto adapted = [&](const ViT& to, bool own) {
    const Arrays file = own ? Arrays() : interop::export_timm(other.timm_map(), views(parameters));
    Arrays blocks = parameters;  // our own files have one array a block
    for (const TimmEntry& entry : other.timm_map().entries) {
      if (entry.blocks == 0) continue;
      const Array whole = blocks.extract(entry.spec.name).mapped();
      const auto bytes = static_cast<ptrdiff_t>(whole.data.size()) / entry.blocks;
      for (int64_t b = 0; b < entry.blocks; ++b) {
        std::string name = entry.spec.name;
        name.insert(nn::block_at(name), fmt::format("/{}", b));
        const auto begin = whole.data.begin() + b * bytes;
        blocks[name] = {{DType::kF32, entry.spec.layer_dims()}, {begin, begin + bytes}};
      }
    }
    return interop::import_timm(own ? own_map(to.timm_map()) : to.timm_map(), own ? views(blocks) : views(file));
  };
  const std::vector<float> kernel = to_floats(views(parameters).at("patch_embed/kernel"));
  for (const bool own : {false, true}) {
    const interop::Imported larger = adapted(model, own);
    EXPECT_THAT(larger.notes, ::testing::ElementsAre(HasSubstr("is resampled from patches of 4 to 8")));
    EXPECT_EQ(to_floats(views(larger.parameters).at("patch_embed/kernel")),
              interop::resample_patches(kernel, 4, 8, 3 * 8, interop::Resample::kBicubic));
    EXPECT_EQ(larger.parameters.at("blocks/attn/qkv/kernel"), parameters.at("blocks/attn/qkv/kernel"));
    const interop::Imported single = adapted(one_channel, own);
    EXPECT_THAT(single.notes, ::testing::ElementsAre(HasSubstr("is adapted from 3 channels to 1")));
    EXPECT_EQ(to_floats(views(single.parameters).at("patch_embed/kernel")), interop::adapt_channels(kernel, 16, 1, 8));
    EXPECT_EQ(adapted(other, own).parameters, parameters);
  }
}

// Timm's model of that name, for 21 classes.
std::unique_ptr<Classifier> named_model(const std::string& name) {
  const NamedModel named = find_named(name);
  const int64_t side = named.architecture->image_size;
  return named.family->from_timm(named.architecture->args, {side, side, 3, 21}, name);
}

Arrays zeros_of(const Model& model) {
  Arrays zeros;
  for (const TimmEntry& entry : model.timm_map().entries) {
    for (int64_t b = 0; b < std::max<int64_t>(entry.blocks, 1); ++b) {
      zeros[entry.timm_name(b)] = array_f32(entry.dims, std::vector<float>(static_cast<size_t>(element_count(entry.dims))));
    }
  }
  return zeros;
}

TEST(TimmNames, AnotherArchitectureIsNamed) {
  const auto theirs = named_model("test_vit");
  Arrays zeros = zeros_of(*theirs);
  zeros.erase("blocks.4.norm1.bias");
  const std::string text = refusal(small(small_options()).timm_map(), zeros);
  EXPECT_THAT(text, HasSubstr("the weights don't fit the model: 0 of its 32 arrays do"));
  EXPECT_THAT(text, HasSubstr("in the file, not in the model (47):"));
  EXPECT_THAT(text, HasSubstr("and 35 more"));
  EXPECT_THAT(text, HasSubstr("the file has 79 of the 80 arrays of model = { name = \"vit\", variant = \"test_vit\" }"));
  // A model that the file fits as well is not talked out of.
  EXPECT_THAT(refusal(theirs->timm_map(), zeros), Not(HasSubstr("variant =")));
}

TEST(TimmNames, AnotherArchitectureMayHaveTwoHeadsOfOtherClasses) {
  const Arrays zeros = zeros_of(*named_model("deit_tiny_distilled_patch16_224"));
  EXPECT_THAT(refusal(small(small_options()).timm_map(), zeros),
              HasSubstr("the file has 155 of the 155 arrays of model = { name = \"vit\", variant = "
                        "\"deit_tiny_distilled_patch16_224\" }"));
}

TEST(TimmNames, PositionsMoveToTheModelsGrid) {
  const ViT other = small(small_options(), 16), model = small(small_options(), 24);
  const Arrays file = interop::export_timm(other.timm_map(), views(formula_parameters(other)));
  const interop::Imported imported = interop::import_timm(model.timm_map(), views(file));
  ASSERT_EQ(imported.notes.size(), 1u);
  EXPECT_EQ(imported.notes[0], "pos_embed is resampled from 4 x 4 to 6 x 6");
  const auto old_values = to_floats(views(file).at("pos_embed"));
  EXPECT_EQ(to_floats(views(imported.parameters).at("pos_embed")),
            interop::resample_positions(old_values, 1, {4, 4}, {6, 6}, 8, interop::Resample::kBicubic));
  interop::ImportOptions bilinear;
  bilinear.resample = interop::Resample::kBilinear;
  EXPECT_EQ(to_floats(views(interop::import_timm(model.timm_map(), views(file), bilinear).parameters).at("pos_embed")),
            interop::resample_positions(old_values, 1, {4, 4}, {6, 6}, 8, interop::Resample::kBilinear));
  interop::ImportOptions oblong;
  oblong.old_grid = {2, 8};
  EXPECT_EQ(interop::import_timm(model.timm_map(), views(file), oblong).notes[0], "pos_embed is resampled from 2 x 8 to 6 x 6");
  oblong.old_grid = {3, 5};
  EXPECT_THAT(refusal(model.timm_map(), file, oblong), HasSubstr("pos_embed is f32[1, 17, 8], wanted [1, 37, 8]"));
}

TEST(TimmNames, FixedPositionsAreWrittenAndChecked) {
  ViTOptions options = small_options();
  options.posemb = "sincos2d", options.pool = "gap";
  const ViT model = small(options);
  const TimmMap map = model.timm_map();
  const Arrays ours = formula_parameters(model);
  EXPECT_FALSE(ours.contains("pos_embed"));
  Arrays file = interop::export_timm(map, views(ours));
  EXPECT_EQ(file.at("pos_embed"), array_f32({1, 16, 8}, sincos2d_values(4, 4, 8)));
  EXPECT_EQ(interop::import_timm(map, views(file)).parameters, ours);
  file.erase("pos_embed");
  EXPECT_EQ(interop::import_timm(map, views(file)).parameters, ours);
  file["pos_embed"] = array_f32({1, 16, 8}, testing::formula_array("pos", 128));
  EXPECT_THAT(refusal(map, file), HasSubstr("pos_embed differs from the fixed positions"));
}

TEST(Weights, HalfPrecisionFilesAreRead) {
  const std::vector<uint16_t> half = {0x3c00, 0xc000, 0x3555, 0x0001, 0x8400, 0x7bff, 0x0000}, brain = {0x3f80, 0xc000};
  const auto view = [](DType dtype, const std::vector<uint16_t>& bits) {
    return ArrayView{{dtype, {static_cast<int64_t>(bits.size())}}, std::as_bytes(std::span(bits))};
  };
  EXPECT_EQ(to_floats(view(DType::kF16, half)),
            (std::vector<float>{1, -2, 0.333251953125f, 5.9604644775390625e-8f, -6.103515625e-5f, 65504, 0}));
  EXPECT_EQ(to_floats(view(DType::kBF16, brain)), (std::vector<float>{1, -2}));
  const std::vector<double> wide = {0.1};
  EXPECT_EQ(to_floats({{DType::kF64, {1}}, std::as_bytes(std::span(wide))}), (std::vector<float>{0.1f}));
  // At an odd address, as in a file of another program.
  std::vector<std::byte> bytes(5);
  const float value = 1.5f;
  std::memcpy(bytes.data() + 1, &value, 4);
  EXPECT_EQ(to_floats({{DType::kF32, {1}}, std::span(bytes).subspan(1)}), (std::vector<float>{1.5f}));
}

}  // namespace
}  // namespace tessera::models
