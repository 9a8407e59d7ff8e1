// tessera export: a run's weights for timm, or as one plain file.
#include <fmt/format.h>

#include "base/log.h"
#include "cli/command.h"
#include "train/plain_weights.h"
#include "train/timm_directory.h"

namespace tessera::cli {
namespace {

class Export final : public Command {
 public:
  Page page() const override {
    return {"export",
            "--from CKPT|WORKDIR --to DIR | --plain --to FILE.safetensors",
            "write trained weights as a directory that timm loads, or as one file",
            {{"tessera export --from runs/digits --to digits_vit", "the newest checkpoint of a run"},
             {"tessera export --from runs/digits/checkpoints/step_000000720 --to digits_vit", "one checkpoint"},
             {"tessera export --plain --from runs/digits --to digits.safetensors", "whole arrays under Tessera's own names"}},
            "Python: timm.create_model(\"local-dir:digits_vit\", pretrained=True) gives the same logits."};
  }
  void declare(Flags& flags) override {
    flags.add("--from", "PATH", &from_, "a checkpoint or a run's directory");
    flags.add("--weights", "WHICH", &weights_, "raw, or average: the moving average that a run kept; raw when not given");
    flags.add("--to", "DIR", &to_, "where model.safetensors and config.json are written; with --plain the file");
    flags.add("--plain", &plain_, "one .safetensors file of whole arrays under Tessera's own names, from any checkpoint");
  }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions&) override {
    reject_extra(words, 0, "export");
    require_flag(from_, "--from", "tessera export --from runs/digits --to digits_vit");
    require_flag(to_, "--to", "tessera export --from runs/digits --to digits_vit");
    if (plain_) {
      log_line(fmt::format("parameters of {}, whole",
                           train::write_plain_weights(from_, to_, train::parse_weights(weights_, "--weights"))));
      print(to_);
      return Exit::kDone;
    }
    const train::LoadedModel model = train::load_model(from_, train::parse_weights(weights_, "--weights"));
    for (const std::string& note : train::write_timm_directory(model, to_)) log_note(note);
    log_line(fmt::format("weights of {}, for timm.create_model(\"local-dir:{}\", pretrained=True)", model.path, to_));
    print(to_);
    return Exit::kDone;
  }

 private:
  std::string from_, to_, weights_ = "raw";
  bool plain_ = false;
};

}  // namespace

std::unique_ptr<Command> make_export() { return std::make_unique<Export>(); }

}  // namespace tessera::cli
