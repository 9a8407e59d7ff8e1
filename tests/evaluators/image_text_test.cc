// Retrieval and zero-shot classification over splits of any size, on one device and on eight, against figures of the embeddings
// of all images and texts at once (the figures themselves are compared with big_vision's in tests/metrics).

#include "models/image_text/image_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text/text.h"
#include "evaluators/split_images.h"
#include "evaluators/zero_shot.h"
#include "inference/use_model.h"
#include "metrics/retrieval.h"
#include "support/formula.h"

namespace tessera::train {
namespace {

using ::testing::HasSubstr;
using testing::HostArray;
using testing::kSplitClasses;
using testing::kSplitSize;
using testing::Picture;
using testing::pictures;
using testing::split_folder;
using testing::split_source;

constexpr int64_t kSplits[] = {1, 7, 1000, 1003};
constexpr int64_t kTokens = 6;
constexpr const char* kChain = "decode | central_crop(8) | value_range(-1, 1)";
constexpr const char* kTokenize = "tokenize(6, model=fake(5000)";
const std::vector<std::string> kPrompts = {"A photo of: a {}.", "{} in_the WILD", "{}"};

// ---- a model, and what it makes of all images and texts at once

state::LoadedModel make_model() {
  state::LoadedModel loaded;
  config::Section recipe = config::parse_recipe(R"(
[model]
name    = "two_tower"
image   = { width = 12, depth = 1, heads = 2, patch = 4 }
text    = { width = 8, depth = 1, heads = 2, mlp_dim = 16 }
out_dim = 10)");
  models::InputShape input{kSplitSize, kSplitSize, 3};
  input.tokens = kTokens, input.vocabulary = 5000;
  loaded.model = models::make_model(recipe.section("model"), input);
  const std::vector<nn::ParamSpec> specs = models::parameters(*loaded.model);
  loaded.layout = state::param_layout(specs);
  for (const nn::ParamSpec& spec : specs) {
    const double offset = spec.name.ends_with("scale") ? 1 : 0;
    const auto values = testing::formula_array(spec.name, element_count(spec.type.dims), 0.5, offset);
    loaded.params.push_back(store::copy_bytes(std::as_bytes(std::span(values))));
  }
  return loaded;
}

const state::LoadedModel& model() {
  static const state::LoadedModel loaded = make_model();
  return loaded;
}

std::vector<int32_t> encoded(const std::vector<std::string>& texts) {
  const data::Pp pp(fmt::format("{} | {})", kChain, kTokenize), data::PpUse::kEval, "pp");
  std::vector<int32_t> ids(texts.size() * kTokens);
  for (size_t i = 0; i < texts.size(); ++i) pp.token_fields()[0].encoder->encode(texts[i], ids.data() + i * kTokens);
  return ids;
}

using Embed = std::function<ir::Value(const models::ImageText&, const nn::Scope&, ir::Value)>;

metrics::Features embedded(const HostArray& input, const Embed& embed) {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  nn::ParamStore store(graph);
  std::vector<HostArray> arguments;
  for (const nn::ParamSpec& spec : models::parameters(*model().model)) {
    store.provide(spec.name, graph.add_parameter(spec.type, spec.name));
    const auto bytes = model().params[arguments.size()].data;
    arguments.emplace_back(spec.type, std::vector<std::byte>(bytes.begin(), bytes.end()));
  }
  arguments.push_back(input);
  const ir::Value x = graph.add_parameter(input.type, "input");
  graph.results = {embed(dynamic_cast<const models::ImageText&>(*model().model), nn::Scope(store, {}), x)};
  const auto results = testing::run_graph(graph, arguments, testing::quick_compile());
  return {results[0].type.dims[1], results[0].floats()};
}

metrics::Features embedded_texts(const std::vector<std::string>& texts) {
  return embedded(testing::i32_array({static_cast<int64_t>(texts.size()), kTokens}, encoded(texts)),
                  [](const auto& towers, const nn::Scope& scope, ir::Value x) { return towers.embed_texts(scope, x); });
}

metrics::Features embedded_images(const std::vector<Picture>& images) {
  std::vector<float> pixels;
  for (const Picture& one : images) {
    for (const uint8_t value : one.rgb) pixels.push_back(static_cast<float>(value) / 127.5f - 1);
  }
  return embedded(testing::f32_array({static_cast<int64_t>(images.size()), kSplitSize, kSplitSize, 3}, pixels),
                  [](const auto& towers, const nn::Scope& scope, ir::Value x) { return towers.embed_images(scope, x); });
}

std::vector<double> expected_recalls(const std::vector<Picture>& images, const metrics::Features& features) {
  std::vector<std::string> texts;
  std::vector<int64_t> image_of;
  for (size_t i = 0; i < images.size(); ++i) {
    for (const std::string& text : images[i].texts) texts.push_back(text), image_of.push_back(static_cast<int64_t>(i));
  }
  const metrics::Recalls recalls = metrics::retrieval_recalls(features, embedded_texts(texts), image_of);
  std::vector<double> all(recalls.image_to_text.begin(), recalls.image_to_text.end());
  all.insert(all.end(), recalls.text_to_image.begin(), recalls.text_to_image.end());
  return all;
}

std::vector<std::string> class_words() {
  std::vector<std::string> words;
  for (int64_t c = 0; c < kSplitClasses; ++c) words.push_back(fmt::format("class{}", c));
  return words;
}

double expected_accuracy(const std::vector<Picture>& images, const metrics::Features& features) {
  std::vector<std::string> texts;
  std::vector<int32_t> class_of_text, labels;
  for (int32_t c = 0; c < kSplitClasses; ++c) {
    for (const char* prompt : {"a photo of a {}", "{} in the wild", "{}"}) {
      texts.push_back(fmt::format(fmt::runtime(prompt), class_words()[static_cast<size_t>(c)]));
      class_of_text.push_back(c);
    }
  }
  for (const Picture& one : images) labels.push_back(one.label);
  const metrics::Features classes = metrics::class_embeddings(embedded_texts(texts), class_of_text, kSplitClasses);
  return metrics::share_equal(metrics::nearest_classes(features, classes), labels);
}

// ---- evaluated

std::string training() {
  return fmt::format(
      "data = {{ source = \"none\", batch = 64, pp = \"{} | {})\" }}\nobjective = {{ name = \"contrastive\" }}\n", kChain,
      kTokenize);
}

std::string retrieval(int64_t split, const std::string& tokenize = ", key=captions, texts=3, fewer=true)") {
  return fmt::format("[eval.find{}]\ntype = \"retrieval\"\nbatch = 64\ndata = {{ source = \"{}\", pp = \"{} | {}{}\" }}\n",
                     split, split_source(split), kChain, kTokenize, tokenize);
}

std::string zero_shot(int64_t split, const std::vector<std::string>& prompts = kPrompts,
                      const std::vector<std::string>& words = class_words()) {
  const std::string prompts_file = split_folder() / "prompts.txt", words_file = split_folder() / "words.txt";
  testing::spill(prompts_file, join(prompts, "\n") + "\n");
  testing::spill(words_file, join(words, "\n") + "\n");
  return fmt::format(
      "[eval.zero{}]\ntype = \"zero_shot\"\nbatch = 64\nprompts = \"{}\"\nclass_names = \"{}\"\n"
      "data = {{ source = \"{}\", pp = \"{}\" }}\n",
      split, prompts_file, words_file, split_source(split), kChain);
}

std::map<std::string, Scores> evaluate_text(const std::string& recipe, int64_t device_count = 1) {
  std::map<std::string, Scores> scores;
  for (const inference::NamedScore& one :
       inference::evaluate(config::parse_recipe(training() + recipe), model(), testing::devices(device_count))) {
    scores[one.name] = one.scores;
  }
  return scores;
}

TEST(ImageTextEvaluators, GiveTheFiguresOfAllAtOnce) {
  std::string recipe;
  for (const int64_t n : kSplits) recipe += retrieval(n) + zero_shot(n);
  const auto one = evaluate_text(recipe, 1), eight = evaluate_text(recipe, 8);
  for (const int64_t n : kSplits) {
    const std::vector<Picture> images = pictures(n, 2);
    const metrics::Features features = embedded_images(images);
    const std::vector<double> recalls = expected_recalls(images, features);
    const double accuracy = expected_accuracy(images, features);
    for (const auto& scores : {one, eight}) {
      const Scores& found = scores.at(fmt::format("find{}", n));
      ASSERT_EQ(found.values.size(), recalls.size());
      for (size_t i = 0; i < recalls.size(); ++i) EXPECT_DOUBLE_EQ(found.values[i].value, recalls[i]) << n << " " << i;
      EXPECT_EQ(found.count, n);
      EXPECT_EQ(scores.at(fmt::format("zero{}", n)).at("prec@1"), accuracy) << n;
    }
  }
  EXPECT_EQ(one.at("find7").values[3].name, "txt2img_R@1");
}

// big_vision's canonicalize_text.
TEST(ZeroShot, TextsAreMadeCanonical) {
  EXPECT_EQ(evaluators::canonical_text("  A photo_of: the \"cool\" {}!\t(really) "), "a photo of the cool {} really");
  EXPECT_EQ(evaluators::canonical_text("Jack-o'-lantern"), "jackolantern");
  EXPECT_EQ(evaluators::canonical_text("a - b"), "a b");
}

std::string failure(const std::string& recipe) {
  try {
    evaluate_text(recipe);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kUsage) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(ImageTextEvaluators, MistakesNameTheirKey) {
  EXPECT_THAT(failure(zero_shot(7, {"a photo of it"})),
              HasSubstr("`eval.zero7.prompts` has \"a photo of it\", without a place"));
  EXPECT_THAT(failure(zero_shot(7, {})), HasSubstr("which is empty"));
  EXPECT_THAT(failure(zero_shot(7, kPrompts, {"cat"})), HasSubstr("`eval.zero7.class_names` gives 1 names"));
  EXPECT_THAT(failure(retrieval(7, ", key=captions, texts=3, fewer=true, pad=3)")), HasSubstr("`eval.find7.texts`"));
  std::string untold = retrieval(7);
  untold.replace(untold.find(" | tokenize"), untold.rfind(')') + 1 - untold.find(" | tokenize"), "");
  EXPECT_THAT(failure(untold), HasSubstr("`eval.find7.texts` names tokens, and the data has none"));
  std::string mean = retrieval(7);
  mean.replace(mean.find("retrieval"), 9, "mean");
  EXPECT_THAT(failure(mean),
              HasSubstr("`eval.find7.type` is mean, and the objective's loss of an example depends on the others"));
  try {
    recipe::read_recipe(testing::small_run().section({"eval.val.type=zero_shot"}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("`eval.val.type` compares images with texts, and training reads no texts"));
  }
}

}  // namespace
}  // namespace tessera::train
