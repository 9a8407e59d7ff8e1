// Exported models, read by the libraries whose files they are: tools/references/check_export.py. Only where ./dev export-deps has
// installed them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "cli/run_program.h"

#ifdef TESSERA_TIMM_PYTHON

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

  TempFolder folder_;
};

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

}  // namespace
}  // namespace tessera::cli

#endif
