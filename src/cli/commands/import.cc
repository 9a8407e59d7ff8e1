// tessera import: other libraries' weights as a checkpoint.
#include <fmt/format.h>

#include "base/log.h"
#include "checkpoint/remote/staged_output.h"
#include "cli/command.h"
#include "inference/timm_directory.h"
#include "store/servers/buckets.h"

namespace tessera::cli {
namespace {

class Import final : public Command {
 public:
  Page page() const override {
    return {
        "import",
        "RECIPE [key=value …] --from DIR|FILE --to DIR",
        "turn weights of timm, Hugging Face or big_vision into a checkpoint of a recipe's model",
        {{"tessera import recipes/digits.toml --from digits_vit --to imported/digits", "a directory in timm's layout"},
         {"tessera import flowers.toml --from vit_small.safetensors --to imported/vit_small", "weights alone"},
         {"tessera import recipes/cappa_b16.toml --from cappa_b16.npz --to imported/cappa", "big_vision's"}},
        "predict, eval and model_init take timm's and Hugging Face's directories as they are; import is for weights\n"
        "without their config.json, and for those that a recipe is to describe. Names or shapes that don't fit are listed."};
  }
  void declare(Flags& flags) override {
    flags.add(
        "--from", "PATH", &from_,
        "a directory with model.safetensors and config.json, a .safetensors, .pth or .npz file, or a run; :SCOPE below it");
    flags.add("--to", "DIR", &to_, "a new directory, also of a bucket, for --from of other commands and for model_init.from");
  }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions&) override {
    const recipe::Recipe recipe = recipe::read_recipe(load_recipe(recipe_words(words, "import")));
    const char* example = "tessera import recipes/digits.toml --from digits_vit --to imported/digits";
    require_flag(from_, "--from", example);
    require_flag(to_, "--to", example);
    remote::StagedOutput out(to_, "--to");
    if (out.path() != to_ && store::files_at(to_).info(to_))
      throw usage_error(fmt::format("`{}` is there already", to_), "--to", "name a new directory");
    std::vector<std::string> notes;
    const std::string path = inference::write_imported(recipe, from_, out.path(), notes);
    for (const std::string& note : notes) log_note(note);
    out.finish();
    print(to_ + path.substr(out.path().size()));
    return Exit::kDone;
  }

 private:
  std::string from_, to_;
};

}  // namespace

const CommandEntry kImport = command_entry<Import>("import");

}  // namespace tessera::cli
