// tessera fine-tune: weights learn a folder of images.
#include "recipe/translate/fine_tune.h"

#include "base/log.h"
#include "base/text/shell.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "cli/commands/train/training.h"
#include "cli/other_flags.h"
#include "cli/rate_setting.h"

namespace tessera::cli {
namespace {

class FineTune final : public Command {
 public:
  Page page() const override {
    return {
        "fine-tune",
        "FOLDER [key=value …]",
        "train weights further on images of your own, by a recipe made for them",
        {{"tessera fine-tune photos --from hub(timm/vit_small_patch16_224.augreg_in21k)",
          "a folder with one sub-folder a class; a fifth of each is held out for validation"},
         {"tessera fine-tune photos --from runs/birds --print-recipe > photos.toml",
          "the recipe, to change and `tessera train`"}},
        "FOLDER may have train/ and val/ in it, or be a source: \"csv(labels.csv, image=file)\". The recipe takes model,\n"
        "image size and normalisation from the weights; a new head learns alone for a tenth of the run, then the body with\n"
        "it, layer by layer at lower rates. It is shown before it runs; key=value changes it. docs/fine_tuning.md has more."};
  }
  void declare(Flags& flags) override {
    flags.add("--from", "WEIGHTS", &options_.from,
              "a directory of timm's or Hugging Face's, hub(OWNER/NAME), timm's NAME.TAG, or a run");
    flags.add("--valid", "FOLDER|SHARE", &options_.valid,
              "images for validation, or how many of FOLDER's are held out: \"10 %\" (FOLDER/val, else 20 %)");
    flags.add("--print-recipe", &print_, "print the recipe, and do not train");
    training_.declare(flags);
  }

  Exit run(const std::vector<std::string>& words, const train::DeviceOptions& device) override {
    std::vector<std::string> overrides;
    for (const std::string& word : words) {
      if (options_.data.empty() && (!translate::is_setting(word) || word.find('(') < word.find('='))) {
        options_.data = word;
      } else if (translate::is_setting(word)) {
        overrides.push_back(word);
      } else {
        throw usage_error(fmt::format("`{}` is one word too many", word), {}, "one folder, and key=value");
      }
    }
    if (options_.data.empty()) {
      throw usage_error("tessera fine-tune needs a folder of images", {}, "tessera fine-tune photos --from WEIGHTS");
    }
    require_flag(options_.from, "--from", "tessera fine-tune photos --from hub(timm/vit_small_patch16_224.augreg_in21k)");
    const translate::Translation made = translate::fine_tune(options_);
    const auto read = [&] {
      return read_with_rate(overrides, [&](const std::vector<std::string>& settings) {
        return config::parse_recipe(made.recipe, "the recipe of fine-tune", settings);
      });
    };
    if (print_) {
      refuse_unknown_settings(overrides);
      print(overrides.empty() ? std::string(trim(made.recipe)) : translate::leading_comments(made.recipe) + read().dump());
      return Exit::kDone;
    }
    std::string shown(trim(made.recipe));
    if (!overrides.empty()) shown += "\n\n# changed by the command:";
    for (const std::string& word : overrides) shown += fmt::format(" {}", shell_quoted(word));
    log_line(shown + "\n");
    for (const std::string& note : made.notes) log_note(note);
    std::string command = "tessera fine-tune";
    for (const std::string& word : words) command += " " + shell_quoted(word);
    return training_.run({read, made.name, command}, device);
  }

 private:
  translate::FineTuneOptions options_;
  bool print_ = false;
  Training training_;
};

}  // namespace

const CommandEntry kFineTune = command_entry<FineTune>("fine-tune");

}  // namespace tessera::cli
