// tessera timm: timm's train.py, with its own arguments.
#include "recipe/translate/timm.h"

#include "cli/commands/train/translated.h"

namespace tessera::cli {
namespace {

class Timm final : public TranslatedCommand {
 public:
  Page page() const override {
    return {
        "timm",
        "[ARGUMENTS OF timm's train.py] [key=value …]",
        "train as timm's train.py does with the same arguments",
        {{"tessera timm --data-dir imagenet --model resnet50 --opt lamb --lr 5e-3 -b 256 --world-size 8 --amp --print-recipe",
          "the recipe that this is"},
         {"tessera timm ./distributed_train.sh 8 --data-dir imagenet -c a1.yaml", "a command of timm's as it is"}},
        "Takes train.py's words, its launcher's included, and -c FILE (YAML). `tessera timm --list` says what becomes of\n"
        "each argument: exact, approximated, ignored, missing. key=value changes the recipe that is made. Whatever is\n"
        "approximated or ignored is said when the run starts. docs/from/timm.md has it all."};
  }
  void declare(Flags& flags) override {
    flags.add(
        "--world-size", "N", &options_.world_size, 1,
        "devices of timm's command, each with a batch of its own; the launcher's, else --devices and --num-processes, when "
        "not given");
    flags.add("--defaults", "NAME", &options_.defaults, OneOf{{"main", "bits"}},
              ": those of timm's branch bits_and_tpu; main when not given");
    TranslatedCommand::declare(flags);
  }

 protected:
  std::string lists() const override { return translate::timm_lists(); }
  translate::Translation translate(const std::vector<std::string>& words, int64_t devices) override {
    options_.devices = devices;
    return translate::translate_timm(words, options_);
  }

 private:
  translate::TimmOptions options_;
};

}  // namespace

const CommandEntry kTimm = command_entry<Timm>("timm");

}  // namespace tessera::cli
