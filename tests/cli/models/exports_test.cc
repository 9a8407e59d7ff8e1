// Exported models, read by the libraries that they are for, where these are installed: JAX by ./dev test, timm and transformers by
// ./dev export-deps (tools/references/check_export.py).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "cli/run_program.h"
#include "data/transform/pp.h"
#include "support/python_script.h"

namespace tessera::cli {
namespace {

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

#ifdef TESSERA_TIMM_PYTHON
  // What check_export.py says of the library's answers to the images beside ours; `path`: where its packages are.
  std::string compared(const std::string& directory, const std::string& library, const std::string& path = {}) const {
    const std::string images = "val/left/0.png val/left/2.png val/right/1.png";
    write_file(folder_ / "ours.jsonl", run({"predict", "--from", directory, "val/left/0.png", "val/left/2.png",
                                            "val/right/1.png", "--json", "--logits"}));
    const std::string command = "cd '" + folder_.path().string() + "' && OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 PYTHONPATH='" +
                                path + "' '" TESSERA_TIMM_PYTHON "' '" +
                                testing::source_path("tools/references/check_export.py") + "' " + directory + " " + images +
                                " --library " + library + " --expect ours.jsonl 2> said";
    const int status = std::system(command.c_str());
    const std::string said = read_file(folder_ / "said");
    EXPECT_EQ(status, 0) << said;
    return said;
  }
#endif

  TempFolder folder_;
};

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

TEST_F(Exports, StablehloHasTheProgramItsWeightsAndWhatTheyAre) {
  run({"export", "--from", "run", "--to", "mlir", "--format", "stablehlo", "--batch", "3"});
  const Json signature = Json::parse(read_file(folder_ / "mlir/signature.json"));
  EXPECT_EQ(signature["arguments"].back(), (Json{{"name", "images"}, {"dtype", "u8"}, {"shape", {3, 8, 8, 3}}}));
  EXPECT_EQ(signature["results"], (Json{{{"name", "logits"}, {"dtype", "f32"}, {"shape", {3, 2}}}}));
  EXPECT_EQ(signature["classes"], (Json{"left", "right"}));
  EXPECT_EQ(signature["preprocessing"], "decode | resize(9) | central_crop(8) | value_range(-1, 1)");
  const std::string program = read_file(folder_ / "mlir/model.mlir");
  EXPECT_THAT(program, ::testing::HasSubstr("tensor<3x8x8x3xui8>"));
  EXPECT_THAT(program, ::testing::Not(::testing::HasSubstr("custom_call")));  // no kernel of this host
  EXPECT_EQ(std::system(("cd '" + (folder_ / "mlir").string() + "' && sha256sum --quiet -c SHA256SUMS").c_str()), 0);
  const Outcome again = run_program({"export", "--from", "run", "--to", "mlir", "--format", "stablehlo"}, folder_.path());
  EXPECT_EQ(again.exit, 2);
  run({"export", "--from", "run", "--to", "mlir", "--format", "stablehlo", "--overwrite"});
  EXPECT_EQ(Json::parse(read_file(folder_ / "mlir/signature.json"))["results"][0]["shape"], (Json{1, 2}));
  const Outcome timm = run_program({"export", "--from", "run", "--to", "t", "--batch", "3"}, folder_.path());
  EXPECT_EQ(timm.exit, 2);
  EXPECT_THAT(timm.err, ::testing::HasSubstr("--format stablehlo has it"));
}

#ifdef TESSERA_JAX_PYTHON
TEST_F(Exports, JaxGivesOurLogitsOfStablehlo) {
  run({"export", "--from", "run", "--to", "mlir", "--format", "stablehlo", "--batch", "3"});
  const std::vector<std::string> images = {folder_ / "val/left/0.png", folder_ / "val/left/2.png", folder_ / "val/right/1.png"};
  const Json signature = Json::parse(read_file(folder_ / "mlir/signature.json"));
  write_file(folder_ / "pixels", pixels_of(signature["preprocessing"], images));
  const Json jax = testing::ask_script(TESSERA_JAX_PYTHON, "run_stablehlo.py", {folder_ / "mlir", folder_ / "pixels"});
  const Outcome ours =
      run_program({"predict", "--from", "run", "--json", "--logits", images[0], images[1], images[2]}, folder_.path());
  ASSERT_EQ(ours.json().size(), 3u) << ours.err;
  for (size_t i = 0; i < 3; ++i) {
    for (size_t c = 0; c < 2; ++c) EXPECT_NEAR(jax["logits"][i][c], ours.json()[i]["logits"][c], 1e-5) << i;
  }
}
#endif

#ifdef TESSERA_TIMM_PYTHON
TEST_F(Exports, TimmGivesOurLogits) {
  run({"export", "--from", "run", "--to", "timm"});
  EXPECT_THAT(compared("timm", "timm"), ::testing::HasSubstr("3 images agree with timm"));
}

#ifdef TESSERA_TRANSFORMERS
TEST_F(Exports, TransformersGivesOurLogits) {
  run({"export", "--from", "run", "--to", "hf", "--format", "hugging_face"});
  EXPECT_THAT(compared("hf", "transformers", TESSERA_TRANSFORMERS), ::testing::HasSubstr("3 images agree with transformers"));
}
#endif
#endif

}  // namespace
}  // namespace tessera::cli
