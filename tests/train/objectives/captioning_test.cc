// Training and scoring of captions: the same on a mesh as on one device, resumable, and what a recipe can get wrong.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "inference/use_model.h"
#include "train/json_lines.h"
#include "train/small_run.h"

namespace tessera::train {
namespace {

using ::testing::HasSubstr;

const testing::TempDir& folder() {
  static const testing::TempDir dir;
  return dir;
}

config::Section recipe(const std::vector<std::string>& overrides = {}) {
  const std::string prompts = folder() / "prompts.txt";
  testing::spill(prompts, "1 2 3\n4 5\n6 7 8 9\n10\n");
  const std::string text = fmt::format(R"toml(
total      = "4 steps"
log        = "1 steps"
accumulate = 2
checkpoint = {{ every = "2 steps" }}
data       = {{ source = "fake(images=32, classes=4, fill=noise, words=7)", batch = 16, pp = "decode | resize(8) | value_range(-1, 1) | tokenize(6, model=fake(30))" }}
model      = {{ name = "cappa", width = 16, depth = 2, heads = 2, patch = 4, decoder_depth = 2, decoder_width = 8, decoder_heads = 2, decoder_mlp_dim = 16, masking_ratio = 0.5 }}
objective  = {{ name = "captioning", label_smoothing = 0.1 }}
optimizer  = {{ name = "sgd", lr = "constant(0.1)" }}
[eval.nll]
type  = "perplexity"
data  = {{ source = "fake(images=9, classes=4, fill=noise, words=7)", pp = "decode | resize(8) | value_range(-1, 1) | tokenize(6, model=fake(30))" }}
every = "4 steps"
batch = 8
[eval.mean]
type  = "mean"
data  = {{ source = "fake(images=9, classes=4, fill=noise, words=7)", pp = "decode | resize(8) | value_range(-1, 1) | tokenize(6, model=fake(30))" }}
every = "4 steps"
batch = 8
[eval.choice]
type    = "caption_scoring"
prompts = "{}"
data    = {{ source = "fake(images=9, classes=4, fill=noise)", pp = "decode | resize(8) | value_range(-1, 1)" }}
every   = "4 steps"
batch   = 8
)toml",
                                       prompts);
  return config::parse_recipe(text, "captions.toml", overrides);
}

TrainResult run(const std::string& workdir, int64_t devices = 1, const std::vector<std::string>& overrides = {}) {
  TrainOptions options = testing::small_run().options(workdir);
  options.workdir = folder() / workdir;
  options.device.devices = devices;
  return train(recipe(overrides), options);
}

std::vector<nlohmann::json> lines_of(const std::string& workdir) {
  return testing::json_lines((folder() / workdir) + "/metrics.jsonl");
}

void expect_same(const std::string& workdir, const std::string& reference) {
  const auto lines = lines_of(workdir), wanted = lines_of(reference);
  ASSERT_EQ(lines.size(), wanted.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    for (const char* key : {"training_loss", "l2_grads", "l2_params", "nll/perplexity", "mean/loss", "choice/prec@1"}) {
      const bool score = std::string_view(key).find('/') != std::string_view::npos;
      if (!wanted[i].contains(key) || (score && !lines[i].contains(key))) continue;
      ASSERT_TRUE(lines[i].contains(key)) << key;
      const double want = wanted[i][key], got = lines[i][key];
      EXPECT_NEAR(got, want, 1e-5 * std::abs(want)) << workdir << ", " << key << " of step " << i + 1;
    }
  }
}

// In micro-batches, on one device; scored at the end.
const TrainResult& on_one_device() {
  static const TrainResult result = run("one");
  return result;
}

TEST(Captioning, OnAMeshAsOnOneDevice) {
  EXPECT_EQ(on_one_device().scores[0].second.count, 9);
  EXPECT_TRUE(!on_one_device().classifier && on_one_device().evaluators);
  const auto lines = lines_of("one");
  EXPECT_FALSE(lines[0].contains("training_prec@1"));
  EXPECT_LT(lines[3]["training_loss"], lines[0]["training_loss"]);
  run("mesh", 4, {"mesh=replica=2, fsdp=2"});
  expect_same("mesh", "one");
}

TEST(Captioning, OverATensorAxisToo) {
  on_one_device();
  run("tensor", 4, {"mesh=fsdp=2, tensor=2", "eval={}"});
  expect_same("tensor", "one");
}

TEST(Captioning, ResumesBitForBitAndIsScoredAgain) {
  const TrainResult& whole = on_one_device();
  run("resumed");
  std::filesystem::remove_all((folder() / "resumed") + "/checkpoints/step_000000004");
  run("resumed");
  const std::string weights = "/checkpoints/step_000000004/state.safetensors";
  EXPECT_EQ(testing::slurp((folder() / "resumed") + weights), testing::slurp((folder() / "one") + weights));
  const auto again =
      inference::evaluate(recipe(), state::load_model(folder() / "one"), testing::small_run().options("").device);
  ASSERT_EQ(again.size(), 3u);
  EXPECT_EQ(again[0].scores.at("perplexity"), whole.scores[0].second.at("perplexity"));
  EXPECT_EQ(again[1].scores.at("loss"), whole.scores[1].second.at("loss"));
  EXPECT_EQ(again[2].scores.at("prec@1"), whole.scores[2].second.at("prec@1"));
}

std::string failure(const std::vector<std::string>& overrides) {
  try {
    recipe::read_recipe(recipe(overrides));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kUsage) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(Captioning, MistakesNameTheirKey) {
  const std::string chain = "decode | resize(8) | value_range(-1, 1)";
  EXPECT_THAT(failure({"data.pp=" + chain}), HasSubstr("`objective.tokens` names tokens, and the data has none"));
  EXPECT_THAT(failure({"objective.tokens=captions"}), HasSubstr("`objective.tokens` is \"captions\""));
  EXPECT_THAT(failure({"objective.label_smoothing=1"}), HasSubstr("objective.label_smoothing"));
  const std::string both = chain + " | tokenize(6, model=fake(30)) | tokenize(5, model=fake(30), to=masks)";
  EXPECT_THAT(failure({"data.pp=" + both, "objective.tokens=labels", "objective.label_masks=masks"}), HasSubstr("are 5 long"));
  EXPECT_THAT(failure({"data.pp=" + both}), HasSubstr("the data has labels, masks"));
  EXPECT_THAT(failure({"objective.name=softmax", "objective.label_smoothing=0.1"}), HasSubstr("model.tokens"));
  EXPECT_THAT(failure({"model.vocabulary=31"}), HasSubstr("`model.vocabulary` is 31, and the data has 30"));
  EXPECT_THAT(failure({"model.decoder_heads=3"}), HasSubstr("`model.decoder_heads`"));
  EXPECT_THAT(failure({"model.masking_ratio=1.5"}), HasSubstr("`model.masking_ratio`"));
  EXPECT_THAT(failure({"model={name=\"vit\", width=16, depth=1, heads=2, patch=4}"}), HasSubstr("writes no captions"));
  EXPECT_THAT(failure({"data.mixup={mixup=0.5}"}), HasSubstr("mixes labels"));
  EXPECT_THAT(failure({"eval.nll.type=classification"}), HasSubstr("`eval.nll.type`"));
  EXPECT_THAT(failure({"eval.nll.data.pp=" + chain}), HasSubstr("`eval.nll.tokens`"));
  EXPECT_THAT(failure({"eval.mean.data.pp=" + chain}), HasSubstr("`eval.mean.data` names tokens, and the data has none"));
  EXPECT_THAT(failure({"eval.mean.data.pp=" + chain + " | tokenize(5, model=fake(30))"}), HasSubstr("has 5 tokens `labels`"));
  EXPECT_THAT(failure({"eval.choice.at_once=0"}), HasSubstr("`eval.choice.at_once`"));
  EXPECT_THAT(failure({"eval.choice.parallel=true", "model.masked_pred_prob=0"}), HasSubstr("predicts token after token only"));
  EXPECT_THAT(failure({"eval.choice.data.source=fake(images=9, classes=3)"}), HasSubstr("gives 4 captions"));
  EXPECT_THAT(failure({"eval.choice.candidates=choices"}), HasSubstr("`eval.choice.candidates`"));
}

TEST(Captioning, SoftmaxTrainsNoCaptioner) {
  const std::string model = "model={name=\"cappa\", width=16, depth=1, heads=2, patch=4, tokens=6, vocabulary=30}";
  EXPECT_THAT(failure({model, "objective={name=\"softmax\"}"}), HasSubstr("`model.name` is no classifier"));
}

}  // namespace
}  // namespace tessera::train
