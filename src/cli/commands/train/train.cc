// tessera train: from a recipe to weights.
#include "base/text/shell.h"
#include "cli/command.h"
#include "cli/commands/train/training.h"

namespace tessera::cli {
namespace {

class Train final : public Command {
 public:
  Page page() const override {
    return {"train",
            "RECIPE [key=value …]",
            "train a model as a recipe says, or continue a run",
            {{"tessera train recipes/digits.toml --workdir runs/digits",
              "train; the same command again continues an interrupted run"},
             {"tessera train recipes/digits.toml seed=1 lr=3e-4 total=\"90 epochs\"", "the same recipe with other settings"}},
            "key=value sets a key of the recipe, and is recorded with the run; its value is TOML, or plain text.\n"
            "lr=RATE is the rate of the recipe's schedule, optimizer.lr=… the whole schedule.\n"
            "All keys: tessera help KEY. Exit codes: 0 done, 2 recipe, 3 data, 4 device, 5 diverged, 75 and 130\n"
            "stopped by SIGTERM (or SIGHUP, SIGXCPU) and Ctrl-C after saving: the same command continues."};
  }
  void declare(Flags& flags) override { training_.declare(flags); }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions& device) override {
    const RecipeWords recipe = recipe_words(words, "train");
    std::string command = "tessera train " + shell_quoted(recipe.path);
    for (const std::string& word : recipe.overrides) command += " " + shell_quoted(word);
    return training_.run({[recipe] { return load_recipe(recipe); }, recipe.path, command}, device);
  }

 private:
  Training training_;
};

}  // namespace

const CommandEntry kTrain = command_entry<Train>("train");

}  // namespace tessera::cli
