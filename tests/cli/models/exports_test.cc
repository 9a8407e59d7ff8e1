// Exported models, read by the libraries that they are for, where these are installed: JAX by ./dev test, timm and transformers
// by ./dev export-deps (tools/references/models/check_export.py).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "cli/metrics_lines.h"
#include "cli/run_program.h"
#include "data/transform/pp.h"
#include "support/paths.h"
#include "support/python_script.h"

namespace tessera::cli {
namespace {

// Where a Python environment keeps what is installed.
std::string packages_of(const std::string& environment) {
  for (const auto& python : fs::directory_iterator(environment + "/lib")) {
    if (python.path().filename().string().starts_with("python")) return python.path() / "site-packages";
  }
  ADD_FAILURE() << "there is no Python in " << environment;
  return {};
}

class Exports : public ::testing::Test {
 protected:
  void SetUp() override {
    write_images(folder_ / "train", 8);
    write_images(folder_ / "val", 3);
    write_file(folder_ / "tiny.toml", tiny_recipe());
    // As Hugging Face's ViT has it; timm has any.
    run({"train", "tiny.toml", "model.pool=tok", "--no-report", "--workdir", "run"});
  }

  std::string run(const std::vector<std::string>& words) const {
    const Outcome outcome = run_program(words, folder_.path());
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
    return outcome.out;
  }

  // What check_export.py says of the library's answers to the images beside ours; `path`: where its packages are.
  std::string compared(const std::string& directory, const std::string& library, const std::string& path = {}) const {
    const std::string images = "val/left/0.png val/left/2.png val/right/1.png";
    write_file(folder_ / "ours.jsonl", run({"predict", "--from", directory, "val/left/0.png", "val/left/2.png",
                                            "val/right/1.png", "--json", "--logits"}));
    const std::string command = "cd '" + folder_.path().string() + "' && OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 PYTHONPATH='" +
                                path + "' '" + testing::references_path("references") + "/bin/python' '" +
                                testing::source_path("tools/references/models/check_export.py") + "' " + directory + " " +
                                images + " --library " + library + " --expect ours.jsonl 2> said";
    const int status = std::system(command.c_str());
    std::string said = read_file(folder_ / "said");
    EXPECT_EQ(status, 0) << said;
    return said;
  }

  TempFolder folder_;
};

TEST_F(Exports, StablehloHasTheProgramItsWeightsAndWhatTheyAre) {
  run({"export", "--from", "run", "--to", "mlir", "--format", "stablehlo", "--batch", "3"});
  const Json signature = Json::parse(read_file(folder_ / "mlir/signature.json"));
  ASSERT_EQ(signature["programs"].size(), 1u);
  const Json of = signature["programs"][0];
  EXPECT_EQ(of["file"], "model.mlir");
  EXPECT_EQ(of["arguments"].back(), (Json{{"name", "images"}, {"dtype", "u8"}, {"shape", {3, 8, 8, 3}}}));
  EXPECT_EQ(of["results"], (Json{{{"name", "logits"}, {"dtype", "f32"}, {"shape", {3, 2}}}}));
  EXPECT_EQ(signature["classes"], (Json{"left", "right"}));
  EXPECT_EQ(signature["preprocessing"], "decode | resize(9) | central_crop(8) | value_range(-1, 1)");
  const std::string program = read_file(folder_ / "mlir/model.mlir");
  EXPECT_THAT(program, ::testing::HasSubstr("tensor<3x8x8x3xui8>"));
  EXPECT_THAT(program, ::testing::Not(::testing::HasSubstr("custom_call")));  // no kernel of this host
  EXPECT_EQ(std::system(("cd '" + (folder_ / "mlir").string() + "' && sha256sum --quiet -c SHA256SUMS").c_str()), 0);
  const Outcome again = run_program({"export", "--from", "run", "--to", "mlir", "--format", "stablehlo"}, folder_.path());
  EXPECT_EQ(again.exit, 0) << "the same run's";
  EXPECT_EQ(Json::parse(read_file(folder_ / "mlir/signature.json"))["programs"][0]["results"][0]["shape"], (Json{1, 2}));
  const Outcome timm = run_program({"export", "--from", "run", "--to", "t", "--batch", "3"}, folder_.path());
  EXPECT_EQ(timm.exit, 2);
  EXPECT_THAT(timm.err, ::testing::HasSubstr("--format stablehlo has it"));
}

#ifdef TESSERA_HAS_JAX
// The bytes that the chain makes of the files, one picture behind another.
std::string pixels_of(const std::string& chain, const std::vector<std::string>& files) {
  const data::Pp pp(chain, data::PpUse::kEval);
  data::PpScratch scratch;
  std::string all;
  for (const std::string& file : files) {
    std::string text = read_file(file);
    const size_t size = text.size();
    text.resize(size + PaddedBuffer::kPadding);
    std::string pixels(pp.image_bytes(), '\0');
    EXPECT_FALSE(
        pp.run({reinterpret_cast<const uint8_t*>(text.data()), size}, {}, scratch, reinterpret_cast<uint8_t*>(pixels.data())));
    all += pixels;
  }
  return all;
}

TEST_F(Exports, JaxGivesOurLogitsOfStablehlo) {
  run({"export", "--from", "run", "--to", "mlir", "--format", "stablehlo", "--batch", "3"});
  const std::vector<std::string> images = {folder_ / "val/left/0.png", folder_ / "val/left/2.png", folder_ / "val/right/1.png"};
  const Json signature = Json::parse(read_file(folder_ / "mlir/signature.json"));
  write_file(folder_ / "pixels", pixels_of(signature["preprocessing"], images));
  const Json jax = testing::ask_script(testing::jax_python_path(), "run_stablehlo.py", {folder_ / "mlir", folder_ / "pixels"});
  const Outcome ours =
      run_program({"predict", "--from", "run", "--json", "--logits", images[0], images[1], images[2]}, folder_.path());
  ASSERT_EQ(ours.json().size(), 3u) << ours.err;
  for (size_t i = 0; i < 3; ++i) {
    for (size_t c = 0; c < 2; ++c) EXPECT_NEAR(jax["model"][i][c], ours.json()[i]["logits"][c], 1e-5) << i;
  }
}

// The bytes of so many whole numbers.
std::string bytes_of(const std::vector<int32_t>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(int32_t)};
}

// Two images with a text each; words of a fake tokenizer are numbers.
constexpr const char* kTexts = R"toml(
total      = "1 steps"
checkpoint = { every = "1 steps" }
data       = { source = "jsonl(texts.jsonl, text=caption)", batch = 2, pp = "decode | resize(8) | value_range(-1, 1) | tokenize(6, model=fake(30), key=caption, eos=no)" }
)toml";

class TextExports : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 2; ++i) write_image(folder_ / image(i), i, i);
    write_file(folder_ / "texts.jsonl",
               "{\"image\": \"0.png\", \"caption\": \"3 5 8\"}\n{\"image\": \"1.png\", \"caption\": \"7 2\"}\n");
  }
  static std::string image(int i) { return std::to_string(i) + ".png"; }
  Outcome run(const std::vector<std::string>& words) const {
    Outcome outcome = run_program(words, folder_.path());
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
    return outcome;
  }
  // Trains the recipe, exports it for two images at once, and asks JAX about the two images and these rows of tokens.
  Json jax(const std::string& recipe, const std::function<std::vector<int32_t>()>& tokens) const {
    write_file(folder_ / "texts.toml", kTexts + recipe);
    run({"train", "texts.toml", "--workdir", "run", "--no-report"});
    run({"export", "--from", "run", "--to", "mlir", "--format", "stablehlo", "--batch", "2"});
    write_file(folder_ / "pixels",
               pixels_of("decode | resize(8) | value_range(-1, 1)", {folder_ / image(0), folder_ / image(1)}));
    write_file(folder_ / "tokens", bytes_of(tokens()));
    return testing::ask_script(testing::jax_python_path(), "run_stablehlo.py",
                               {folder_ / "mlir", folder_ / "pixels", folder_ / "tokens"});
  }

  TempFolder folder_;
};

// SigLIP's loss of the similarities that JAX gives is that of training, whose rate is next to none.
TEST_F(TextExports, JaxGivesOurSimilaritiesOfImagesAndTexts) {
  const Json jax = this->jax(R"toml(
model      = { name = "two_tower", image = { width = 16, depth = 1, heads = 2, patch = 4 }, text = { width = 16, depth = 1, heads = 2 }, temperature_init = 3.0, bias_init = -1.0 }
objective  = { name = "contrastive", loss = "siglip" }
optimizer  = { name = "sgd", lr = "constant(1e-30)" }
[eval.val]
type  = "retrieval"
data  = { source = "jsonl(texts.jsonl, text=caption)", pp = "decode | resize(8) | value_range(-1, 1) | tokenize(6, model=fake(30), key=caption, eos=no)" }
every = "1 steps"
)toml",
                             [&] {
                               std::map<int, std::vector<int32_t>> of_sample;
                               for (const Json& one : run({"data", "show", "texts.toml", "--json"}).json())
                                 of_sample[one["sample"]] = one["tokens"]["labels"]["ids"].get<std::vector<int32_t>>();
                               std::vector<int32_t> all = of_sample.at(0);
                               all.insert(all.end(), of_sample.at(1).begin(), of_sample.at(1).end());
                               return all;
                             });
  const Json signature = Json::parse(read_file(folder_ / "mlir/signature.json"));
  EXPECT_EQ(signature["training_preprocessing"],
            "decode | resize(8) | value_range(-1, 1) | tokenize(6, model=fake(30), key=caption, eos=no)");
  double loss = 0;
  for (size_t i = 0; i < 2; ++i) {
    double norm = 0, product = 0;
    for (size_t d = 0; d < jax["image_embeddings"][i].size(); ++d) {
      norm += std::pow(jax["image_embeddings"][i][d].get<double>(), 2);
      product += jax["image_embeddings"][i][d].get<double>() * jax["text_embeddings"][i][d].get<double>();
    }
    EXPECT_NEAR(norm, 1, 1e-5);
    EXPECT_NEAR(jax["similarities"][i][i], 3 * product - 1, 1e-5);
    for (size_t j = 0; j < 2; ++j)
      loss += std::log1p(std::exp((i == j ? -1 : 1) * jax["similarities"][i][j].get<double>())) / 2;
  }
  EXPECT_NEAR(curves_of(folder_ / "run").at("training_loss").at(1), loss, 1e-5);
}

// The decoder's log-likelihood of what `tessera caption` wrote is the score that it gives.
TEST_F(TextExports, JaxGivesOurScoresOfCaptions) {
  std::vector<double> scores;
  std::vector<int32_t> tokens;
  const Json jax = this->jax(R"toml(
model      = { name = "cappa", width = 16, depth = 1, heads = 2, patch = 4, decoder_depth = 1 }
objective  = { name = "captioning" }
optimizer  = { name = "sgd", lr = "constant(0.1)" }
[eval.val]
type  = "perplexity"
data  = { source = "jsonl(texts.jsonl, text=caption)", pp = "decode | resize(8) | value_range(-1, 1) | tokenize(6, model=fake(30), key=caption, eos=no)" }
every = "1 steps"
)toml",
                             [&] {
                               for (const Json& one : run({"caption", "--from", "run", "--json", image(0), image(1)}).json()) {
                                 scores.push_back(one["captions"][0]["score"]);
                                 for (const Json& token : one["captions"][0]["tokens"]) tokens.push_back(token);
                               }
                               return tokens;
                             });
  ASSERT_EQ(tokens.size(), 12u);
  ASSERT_EQ(scores.size(), 2u);
  EXPECT_EQ(jax["encoder"][0].size(), 4u) << "places";
  for (size_t i = 0; i < 2; ++i) {
    double score = 0;
    for (size_t t = 0; t < 6; ++t) {
      const std::vector<double> logits = jax["decoder"][i][t];
      double sum = 0;
      for (const double logit : logits) sum += std::exp(logit);
      score += logits[static_cast<size_t>(tokens[6 * i + t])] - std::log(sum);
    }
    EXPECT_NEAR(score, scores[i], 1e-4);
  }
}
#endif

// Skipped where ./dev test or ./dev export-deps did not install the library.
TEST_F(Exports, TimmGivesOurLogits) {
  if (testing::references_path("references").empty()) GTEST_SKIP() << "./dev export-deps installs timm";
  run({"export", "--from", "run", "--to", "timm"});
  EXPECT_THAT(compared("timm", "timm"), ::testing::HasSubstr("3 images agree with timm"));
}

TEST_F(Exports, TransformersGivesOurLogits) {
  const std::string transformers = testing::references_path("references-transformers");
  if (transformers.empty()) GTEST_SKIP() << "./dev export-deps installs transformers";
  run({"export", "--from", "run", "--to", "hf", "--format", "hugging_face"});
  EXPECT_THAT(compared("hf", "transformers", packages_of(transformers)),
              ::testing::HasSubstr("3 images agree with transformers"));
}

}  // namespace
}  // namespace tessera::cli
