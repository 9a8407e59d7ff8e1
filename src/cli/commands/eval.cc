// tessera eval: exact scores of a trained model.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/text/call.h"
#include "base/text/shell.h"
#include "base/text/text.h"
#include "checkpoint/commit.h"
#include "cli/command.h"
#include "cli/common_flags.h"
#include "inference/score_table.h"
#include "inference/use_model.h"
#include "recipe/translate/arguments.h"
#include "state/hub_cache.h"
#include "state/run_steps.h"
#include "store/file.h"
#include "store/url.h"

namespace tessera::cli {
namespace {

class Eval final : public Command {
 public:
  Page page() const override {
    return {
        "eval",
        "[RECIPE] [key=value …] --from CKPT|WORKDIR|DIR …",
        "score trained weights on every evaluator of a recipe, exactly",
        {{"tessera eval recipes/digits.toml --from runs/digits", "the newest checkpoint of a run"},
         {"tessera eval recipes/digits.toml --from vit_small --json eval.val.batch=64",
          "a timm directory (model.safetensors and config.json); one JSON object"},
         {"tessera eval recipes/digits.toml --from runs/digits --predictions out",
          "what the model says of every image goes to out/val.jsonl"},
         {"tessera eval recipes/digits.toml --from runs/digits --predictions out eval.val.predictions_format=parquet",
          "to out/val.parquet"},
         {"tessera eval recipes/digits.toml --from runs/a --from runs/b --steps all --csv scores.csv",
          "every checkpoint of two runs, a row each; the same command again scores those that came since"}},
        "RECIPE may be left out where the first --from is a run, whose own it then is.\n"
        "Every image counts once, whatever the batch. A file that cannot be read is named, left out and counted as skipped.\n"
        "--csv keeps rows that it has: those of the same run, step, weights, recipe and keys are not computed again."};
  }
  void declare(Flags& flags) override {
    Flag& from = flags.add(
        "--from", "PATH", [this](const std::string& value) { from_.push_back(value); },
        "a checkpoint, RUN@STEP, a run's directory, or a directory of timm's or of Hugging Face's ViT; may be given several "
        "times");
    from.read_environment = false;  // which is added to nothing: the command line wins
    flags.add("--steps", "WHICH", &steps_, "of runs: all, or 1000,2000; the newest checkpoint when not given");
    flags.add("--csv", "FILE", &csv_, "a table of scores with a row for each checkpoint, to which missing rows are added");
    declare_weights_flag(flags, &weights_);
    flags.add("--predictions", "DIR", &predictions_,
              "write DIR/NAME.jsonl or .parquet (eval.NAME.predictions_format) for each evaluator: a line or row for each "
              "image, in the order of the data");
    flags.add("--json", &json_, "one JSON object for each checkpoint, with the names of metrics.jsonl");
  }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions& device) override {
    if (const char* from = std::getenv("TESSERA_FROM"); from_.empty() && from && *from) from_.emplace_back(from);
    const RecipeWords recipe = recipe_for(words);
    load_recipe(recipe);  // its mistakes come first
    require_flag(from_.empty() ? "" : from_[0], "--from", "tessera eval recipes/digits.toml --from runs/digits");
    const state::Weights weights = state::parse_weights(weights_, "--weights");
    std::string described = recipe.path;
    for (const std::string& word : recipe.overrides) described += " " + shell_quoted(word);
    const std::vector<Source> sources = sources_of(described);
    if (sources.size() > 1 && !predictions_.empty())
      throw usage_error("--predictions is of one checkpoint", "--predictions", "name one: --from RUN@STEP");
    std::optional<inference::ScoreTable> table;
    if (!csv_.empty()) table.emplace(csv_);
    return score(recipe, sources, weights, device, table ? &*table : nullptr);
  }

 private:
  // The recipe that is named, else the run's own.
  RecipeWords recipe_for(const std::vector<std::string>& words) const {
    if (from_.empty() || !std::ranges::all_of(words, translate::is_setting)) return recipe_words(words, "eval");
    const auto at = checkpoint::parse_run_at_step(from_[0]);
    const std::string run = at ? at->run : from_[0], own = store::join_path(run, "recipe.toml");
    // Without a slash it may be a name of timm's.
    const bool is_path = !store::is_remote(run) && !run.starts_with("hub(") && state::other_hub_name(run).empty() &&
                         run.find('/') != std::string::npos;
    if (words.empty() && is_path && !store::local_files().info(run)) {
      store::refuse_url(run, "--from");
      throw usage_error(fmt::format("`{}` does not exist", run), "--from", "name a run's directory, as runs/digits-1");
    }
    if (store::is_remote(run) || !store::local_files().info(own)) return recipe_words(words, "eval");
    log_note(fmt::format("no recipe is named, so it is the run's own, {}", own));
    return {own, words};
  }

  struct Source {
    std::string from;  // of load_model()
    inference::ScoredCheckpoint row;
  };

  // What --from and --steps name, each once.
  std::vector<Source> sources_of(const std::string& recipe) const {
    std::vector<Source> sources;
    const auto add = [&](const std::string& from, const std::string& run, std::optional<int64_t> step) {
      Source source{from, {run, step, weights_, recipe}};
      if (std::ranges::find(sources, source.row, &Source::row) == sources.end()) sources.push_back(std::move(source));
    };
    for (const std::string& from : from_) {
      const bool in_bucket = store::is_bucket(from);
      const auto saved = in_bucket ? std::nullopt : state::saved_steps(from);
      if (saved && !saved->empty()) {
        if (steps_.empty()) add(from, from, saved->back());
        for (const int64_t step : steps_.empty() ? std::vector<int64_t>{} : wanted_steps(from, *saved))
          add(fmt::format("{}@{}", from, step), from, step);
        continue;
      }
      if (!steps_.empty()) {
        throw usage_error(fmt::format("`{}` is no run with checkpoints for --steps to choose from", from), "--steps",
                          "leave it out, or name runs' directories");
      }
      const auto at = checkpoint::parse_run_at_step(from);
      const auto directory = checkpoint::parse_directory_name(store::last_part(from));
      if (at && (in_bucket || state::saved_steps(at->run))) {
        add(from, at->run, at->step);
      } else if (directory) {
        add(from, store::parent_path(store::parent_path(from)), directory->step);
      } else {
        add(from, from, std::nullopt);
      }
    }
    return sources;
  }

  std::vector<int64_t> wanted_steps(const std::string& run, const std::vector<int64_t>& saved) const {
    if (steps_ == "all") return saved;
    std::vector<int64_t> steps;
    for (const std::string& word : split(steps_, ',')) {
      const auto number = parse_number(trim(word));
      if (!number || *number < 0 || *number != std::floor(*number) || *number > 1e15)
        throw usage_error(fmt::format("`{}` is no step", word), "--steps", "all, or numbers as 1000,2000");
      steps.push_back(static_cast<int64_t>(*number));
      if (std::ranges::find(saved, steps.back()) == saved.end())
        throw checkpoint::no_such_step({run, steps.back()}, saved, "--steps");
    }
    return steps;
  }

  // Of several, one that can't be read is named, and the others are scored.
  Exit score(const RecipeWords& recipe, const std::vector<Source>& sources, state::Weights weights,
             const train::DeviceOptions& device, inference::ScoreTable* table) const {
    Exit exit = Exit::kDone;
    size_t known = 0;
    std::shared_ptr<pjrt::Client> client;
    for (const Source& source : sources) {
      if (table && table->has(source.row)) {
        ++known;
        continue;
      }
      try {
        const state::LoadedModel model = state::load_model(source.from, weights);
        if (!client) client = train::open_client(device);
        const auto all = inference::evaluate(load_recipe(recipe), model, device, predictions_, client);
        json_ ? print_json(as_json(model, all)) : print(as_text(model, all));
        if (table) table->add(source.row, values_of(all));
      } catch (const Error& error) {
        if (sources.size() == 1 || error.code() != Exit::kData) throw;
        log_warning(fmt::format("passed over {}: {}", source.from, error.message()));
        exit = Exit::kData;
      }
    }
    if (known > 0) {
      log_note(
          fmt::format("{} of {} checkpoints are in {} already, and are not scored again, whatever changed since; take their "
                      "rows out for that",
                      known, sources.size(), table->path()));
    }
    if (table) log_line(fmt::format("{:<10}{}", "table", table->path()));
    return exit;
  }

  static inference::NamedValues values_of(const std::vector<inference::NamedScore>& all) {
    inference::NamedValues values;
    for (const auto& [name, scores] : all) {
      for (const train::Score& score : scores.values) values.emplace_back(fmt::format("{}/{}", name, score.name), score.value);
      values.emplace_back(name + "/count", static_cast<double>(scores.count));
      values.emplace_back(name + "/skipped", static_cast<double>(scores.skipped));
    }
    return values;
  }

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
    if (!recipe::in_per_cent(score.name, score.share)) return fmt::format("{} {:.4f}", score.name, score.value);
    const bool prec = score.name.starts_with(kPrec);
    const std::string name = prec ? fmt::format("top-{}", score.name.substr(kPrec.size())) : score.name;
    return fmt::format("{} {:.2f} %", name, 100 * score.value);
  }
  static std::string as_text(const state::LoadedModel& model, const std::vector<inference::NamedScore>& all) {
    std::string text = model.path;
    for (const auto& [name, scores] : all) {
      text += fmt::format("\n  {:<8} ", name);
      for (const train::Score& score : scores.values) {
        if (recipe::tells_something(score.name, model.model->input().classes)) text += score_text(score) + "   ";
      }
      text += fmt::format("{} images", human_count(scores.count));
      if (scores.skipped > 0) text += fmt::format(", {} skipped", human_count(scores.skipped));
    }
    return text;
  }

  std::vector<std::string> from_;
  std::string weights_ = "raw", predictions_, steps_, csv_;
  bool json_ = false;
};

}  // namespace

const CommandEntry kEval = command_entry<Eval>("eval");

}  // namespace tessera::cli
