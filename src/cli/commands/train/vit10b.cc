// tessera vit10b: the PyTorch/XLA example that trains a ViT of 10 billion parameters, with its own arguments.
#include "recipe/translate/vit10b.h"

#include "cli/commands/train/translated.h"

namespace tessera::cli {
namespace {

class Vit10b final : public TranslatedCommand {
 public:
  Page page() const override {
    return {"vit10b",
            "[ARGUMENTS OF run_vit_training.py] [key=value …]",
            "train as the PyTorch/XLA example of a 10-billion-parameter ViT does with the same arguments",
            {{"tessera vit10b --fake_data --ckpt_dir runs/vit --platform tpu", "the example's own model, on black images"},
             {"tessera vit10b --data_dir imagenet --embed_dim 1024 --num_blocks 24 --num_heads 16 --print-recipe",
              "the recipe of a smaller one"}},
            "`tessera vit10b --list` says what becomes of each argument. key=value changes the recipe that is made.\n"
            "docs/from/vit_10b_arguments.md has it all."};
  }

 protected:
  std::string lists() const override { return translate::argument_lists(translate::vit10b_arguments()); }
  translate::Translation translate(const std::vector<std::string>& words, int64_t) override {
    return translate::translate_vit10b(words);
  }
};

}  // namespace

const CommandEntry kVit10b = command_entry<Vit10b>("vit10b");

}  // namespace tessera::cli
