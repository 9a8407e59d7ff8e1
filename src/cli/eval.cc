// tessera eval: exact scores of a trained model.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/command.h"
#include "inference/use_model.h"

namespace tessera::cli {
namespace {

class Eval final : public Command {
 public:
  Page page() const override {
    return {
        "eval",
        "RECIPE [key=value …] --from CKPT|WORKDIR|DIR",
        "score trained weights on every evaluator of a recipe, exactly",
        {{"tessera eval recipes/digits.toml --from runs/digits", "the newest checkpoint of a run"},
         {"tessera eval recipes/digits.toml --from vit_small --json eval.val.batch=64",
          "a timm directory (model.safetensors and config.json); one JSON object"},
         {"tessera eval recipes/digits.toml --from runs/digits --predictions out",
          "what the model says of every image goes to out/val.jsonl"},
         {"tessera eval recipes/digits.toml --from runs/digits --predictions out eval.val.predictions_format=parquet",
          "to out/val.parquet"}},
        "Every image counts once, whatever the batch. A file that cannot be read is named, left out and counted as skipped."};
  }
  void declare(Flags& flags) override {
    flags.add("--from", "PATH", &from_, "a checkpoint, a run's directory, or a directory of timm's or of Hugging Face's ViT");
    flags.add("--weights", "WHICH", &weights_, "raw, or average: the moving average that a run kept; raw when not given");
    flags.add("--predictions", "DIR", &predictions_,
              "write DIR/NAME.jsonl or .parquet (eval.NAME.predictions_format) for each evaluator: a line or row for each "
              "image, in the order of the data");
    flags.add("--json", &json_, "one JSON object, with the names of metrics.jsonl");
  }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions& device) override {
    config::Section recipe = load_recipe(recipe_words(words, "eval"));
    require_flag(from_, "--from", "tessera eval recipes/digits.toml --from runs/digits");
    const state::LoadedModel model = state::load_model(from_, state::parse_weights(weights_, "--weights"));
    const std::vector<inference::NamedScore> all = inference::evaluate(std::move(recipe), model, device, predictions_);
    json_ ? print_json(as_json(model, all)) : print(as_text(model, all));
    return Exit::kDone;
  }

 private:
  static nlohmann::ordered_json as_json(const state::LoadedModel& model, const std::vector<inference::NamedScore>& all) {
    nlohmann::ordered_json json;
    json["from"] = model.path;
    for (const auto& [name, scores] : all) {
      for (const train::Score& score : scores.values) json[fmt::format("{}/{}", name, score.name)] = score.value;
      json[name + "/count"] = scores.count;
      json[name + "/skipped"] = scores.skipped;
    }
    return json;
  }
  // prec@1 is "top-1 99.44 %".
  static std::string score_text(const train::Score& score) {
    constexpr std::string_view kPrec = "prec@";
    if (!score.share) return fmt::format("{} {:.4f}", score.name, score.value);
    const bool prec = score.name.starts_with(kPrec);
    const std::string name = prec ? fmt::format("top-{}", score.name.substr(kPrec.size())) : score.name;
    return fmt::format("{} {:.2f} %", name, 100 * score.value);
  }
  static std::string as_text(const state::LoadedModel& model, const std::vector<inference::NamedScore>& all) {
    std::string text = model.path;
    for (const auto& [name, scores] : all) {
      text += fmt::format("\n  {:<8} ", name);
      for (const train::Score& score : scores.values) text += score_text(score) + "   ";
      text += fmt::format("{} images", human_count(scores.count));
      if (scores.skipped > 0) text += fmt::format(", {} skipped", human_count(scores.skipped));
    }
    return text;
  }

  std::string from_, weights_ = "raw", predictions_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_eval() { return std::make_unique<Eval>(); }

}  // namespace tessera::cli
