// tessera lr-find: which learning rate a recipe can bear.
#include "train/lr_find.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/text/call.h"
#include "base/text/shell.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "cli/other_flags.h"
#include "cli/rate_setting.h"
#include "monitor/plot.h"
#include "optim/schedule/schedule.h"
#include "store/file.h"
#include "store/url.h"
#include "train/run/default_workdir.h"

namespace tessera::cli {
namespace {

using train::LrSearch;

// A smoothed curve that falls by less before it rises shows no valley. (That of the digits falls by 1.4 to 1.9 %: 100 steps are
// few, and the average is long.)
constexpr double kLeastFall = 0.01;

// Of LrSuggestions::values().
constexpr const char* kTitles[] = {"valley", "steep", "min / 10", "slide"};

std::string rate_text(const std::optional<double>& rate) { return rate ? fmt::format("{:.2e}", *rate) : "none"; }

std::string end_of(const LrSearch& search) {
  if (search.end == train::LrSearchEnd::kWhole) return "";
  const double rate = search.points.empty() ? 0 : search.points.back().rate;
  return fmt::format("{} at {:.2e}", search.end == train::LrSearchEnd::kDiverged ? "diverged" : "no number", rate);
}

std::string row(const std::string& name, const optim::LrSuggestions& rates, const std::string& end) {
  std::string text = fmt::format("{:<8}", name);
  for (const auto& rate : rates.values()) text += fmt::format("{:>10}", rate_text(rate));
  return end.empty() ? text : text + "   " + end;
}

std::string table(const train::LrFindResult& result) {
  std::string text = fmt::format("{:<8}", "seed");
  for (const char* title : kTitles) text += fmt::format("{:>10}", title);
  for (const LrSearch& search : result.searches)
    text += "\n" + row(std::to_string(search.seed), search.suggestions, end_of(search));
  if (result.searches.size() > 1) text += "\n" + row("median", result.median, "");
  return text;
}

nlohmann::ordered_json json_of(const optim::LrSuggestions& rates) {
  nlohmann::ordered_json json;
  const auto values = rates.values();
  for (size_t i = 0; i < values.size(); ++i)
    json[optim::LrSuggestions::kNames[i]] = values[i] ? nlohmann::ordered_json(*values[i]) : nlohmann::ordered_json(nullptr);
  return json;
}

std::string csv(const train::LrFindResult& result) {
  std::string text = "seed,step,lr,loss,smooth_loss\n";
  for (const LrSearch& search : result.searches) {
    for (size_t i = 0; i < search.points.size(); ++i) {
      const train::LrPoint& p = search.points[i];
      text += fmt::format("{},{},{:.9g},{:.9g},{:.9g}\n", search.seed, i + 1, p.rate, p.loss, p.smooth);
    }
  }
  return text;
}

// The smoothed loss at a rate, between the points of the search.
double loss_at(const LrSearch& search, double rate) {
  const auto& points = search.points;
  const auto after = std::ranges::find_if(points, [&](const train::LrPoint& p) { return p.rate >= rate; });
  if (after == points.end()) return points.back().smooth;
  if (after == points.begin()) return after->smooth;
  const auto before = after - 1;
  const double share = std::log(rate / before->rate) / std::log(after->rate / before->rate);
  return before->smooth + share * (after->smooth - before->smooth);
}

std::string plot(const train::LrFindResult& result) {
  monitor::PlotPanel panel{"Smoothed training loss under a growing learning rate", {}, /*log_x=*/true};
  for (size_t i = 0; i < result.searches.size(); ++i) {
    monitor::PlotSeries series{fmt::format("seed {}", result.searches[i].seed), {}, false, i == 0 ? 0 : 4 + i % 4};
    for (const train::LrPoint& p : result.searches[i].points) series.points.push_back({p.rate, p.smooth});
    panel.series.push_back(std::move(series));
  }
  const auto values = result.median.values();
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i]) continue;
    panel.series.push_back(
        {kTitles[i], {{*values[i], loss_at(result.searches[0], *values[i])}}, true, i + 1, rate_text(values[i])});
  }
  return monitor::plot_svg({panel}, "learning rate");
}

class LrFind final : public Command {
 public:
  Page page() const override {
    return {
        "lr-find",
        "RECIPE [key=value …]",
        "which learning rate a recipe can bear: a few steps under a growing one",
        {{"tessera lr-find recipes/digits.toml",
          "a search of 100 steps from 1e-7 to 10; a plot and the numbers in runs/digits-lr-1"},
         {"tessera lr-find recipes/digits.toml --seeds 3 --json", "three searches with their median, as one JSON object"}},
        "Trains the recipe's model on its data with its optimizer and a learning rate that grows from step to step by the "
        "same\n"
        "factor, as fastai's lr_find: the loss is smoothed (beta 0.98), and a search ends when it is above four times its "
        "least.\n"
        "valley, steep, min / 10 and slide are fastai's rules; valley is the one to take when in doubt. No run is touched."};
  }
  void declare(Flags& flags) override {
    flags.explain_unknown(explain_words("min max start_lr end_lr num_iter num_it",
                                        "tessera lr-find goes from the rate --from to the rate --to in --steps N"));
    add_rate(flags, "--from", &options_.from, "the first rate; 1e-7 when not given");
    add_rate(flags, "--to", &options_.to, "the last one; 10 when not given");
    flags.add("--steps", "N", &options_.steps, {20, 1'000'000}, "steps of a search; 100 when not given");
    flags.add("--seeds", "N", &options_.seeds, {1, 1000},
              "searches, with the recipe's seed and those after it; 1 when not given");
    flags.add("--out", "DIR", &out_, "where lr.svg and lr.csv are written; runs/<recipe>-lr-N when not given");
    flags.add("--json", &json_, "one JSON object");
  }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions& device) override {
    RecipeWords recipe = recipe_words(words, "lr-find");
    store::refuse_url(out_);
    refuse_name_of_a_file();
    if (!(options_.to > options_.from)) {
      throw usage_error(fmt::format("`--to` is {}, which is not above `--from`, {}", options_.to, options_.from), {},
                        "for example --from 1e-7 --to 10");
    }
    config::Section given = load_recipe(recipe);
    if (given.has("resume"))
      given.fail("resume", "goes on from a step of another run, and a search has steps of its own",
                 "leave it out; model_init.from=RUN searches from that run's weights");
    const std::string schedule = given.section("optimizer").text("lr", "");
    const RecipeWords asked = recipe;
    std::erase_if(recipe.overrides, is_rate_setting);
    recipe.overrides.push_back("optimizer.lr=" + train::ramp_schedule(options_));
    options_.device = device;
    options_.progress = [this](int64_t search, int64_t step) {
      log_status(fmt::format("seed {} of {}: step {} of {}", search + 1, options_.seeds, step, options_.steps));
    };
    const train::LrFindResult result = train::find_learning_rate(load_recipe(recipe), options_);
    log_status("");
    log_line(fmt::format("{}   {}, batch {}", result.model, result.data, result.batch));
    log_line(fmt::format("{} of {} steps from {:g} to {:g}; one program, {}",
                         options_.seeds == 1 ? "a search" : fmt::format("{} searches", options_.seeds), options_.steps,
                         options_.from, options_.to,
                         result.cached ? "cached" : fmt::format("compiled in {:.1f} s", result.compile_seconds)));
    const std::string folder = write(result, recipe.path);
    json_ ? print_json(as_json(result, folder)) : tell(result, asked, schedule, folder);
    return Exit::kDone;
  }

 private:
  // A directory of such a name is not what was meant.
  void refuse_name_of_a_file() const {
    for (const char* ending : {".svg", ".csv", ".png", ".json"}) {
      if (!out_.ends_with(ending)) continue;
      throw usage_error(fmt::format("`{}` would be a directory: lr.svg and lr.csv are written into it", out_), "--out",
                        "name it without the ending");
    }
  }

  void add_rate(Flags& flags, const char* name, double* target, const char* help) {
    const auto set = [name, target](const std::string& value) {
      const auto number = parse_number(value);
      if (!number || !(*number > 0) || !std::isfinite(*number))
        throw usage_error(fmt::format("`{}` is a learning rate, and is \"{}\"", name, value), {}, "a number above 0, as 1e-7");
      *target = *number;
    };
    flags.add(name, "RATE", set, help);
  }

  // Where the files are.
  std::string write(const train::LrFindResult& result, const std::string& recipe_path) const {
    std::string name = store::last_part(recipe_path);
    if (name.ends_with(".toml")) name.resize(name.size() - 5);
    std::string folder = out_.empty() ? train::default_workdir(name + "-lr", "", /*fresh=*/true).path : out_;
    store::FileSystem& files = store::local_files();
    files.make_directories(folder);
    store::write_atomic(files, store::join_path(folder, "lr.csv"), csv(result));
    store::write_atomic(files, store::join_path(folder, "lr.svg"), plot(result));
    return folder;
  }

  static nlohmann::ordered_json as_json(const train::LrFindResult& result, const std::string& folder) {
    nlohmann::ordered_json json;
    json["suggestions"] = json_of(result.median);
    json["searches"] = nlohmann::ordered_json::array();
    for (const LrSearch& search : result.searches) {
      nlohmann::ordered_json one{{"seed", search.seed}, {"suggestions", json_of(search.suggestions)}};
      one["end"] = search.end == train::LrSearchEnd::kWhole      ? "all steps"
                   : search.end == train::LrSearchEnd::kDiverged ? "diverged"
                                                                 : "not finite";
      for (const char* key : {"lr", "loss", "smooth_loss"}) one[key] = nlohmann::ordered_json::array();
      for (const train::LrPoint& p : search.points) {
        one["lr"].push_back(p.rate);
        one["loss"].push_back(p.loss);
        one["smooth_loss"].push_back(p.smooth);
      }
      json["searches"].push_back(std::move(one));
    }
    json["plot"] = store::join_path(folder, "lr.svg");
    json["csv"] = store::join_path(folder, "lr.csv");
    return json;
  }

  static void tell(const train::LrFindResult& result, const RecipeWords& recipe, const std::string& schedule,
                   const std::string& folder) {
    print(table(result));
    print(fmt::format("{:<8}{}", "plot", store::join_path(folder, "lr.svg")));
    print(fmt::format("{:<8}{}", "numbers", store::join_path(folder, "lr.csv")));
    const auto flat = std::ranges::count_if(result.searches, [](const LrSearch& s) { return s.fall < kLeastFall; });
    const size_t searches = result.searches.size();
    if (flat > 0 || !result.median.valley) {
      const std::string in = searches == 1 ? "" : fmt::format(" in {} of {} searches", flat, searches);
      const std::string why = flat == 0
                                  ? "there is no valley"
                                  : fmt::format("the loss fell by less than {:.0f} %{}: no clear valley", 100 * kLeastFall, in);
      log_warning(why + ". Try other bounds (--from, --to), more --steps, or a larger batch");
    }
    // A rate from curves that are all flat is no advice.
    if (!result.median.valley || flat == static_cast<ptrdiff_t>(searches) || schedule.empty()) return;
    std::string next = fmt::format("{:<8}tessera train {}", "next", shell_quoted(recipe.path));
    for (const std::string& word : recipe.overrides) {  // the rate is that of these settings
      if (!word.starts_with("optimizer.lr=") && !is_rate_setting(word)) next += fmt::format(" {}", shell_quoted(word));
    }
    const std::string rate = optim::with_rate(schedule, fmt::format("{:.2g}", *result.median.valley));
    print(fmt::format("{} {}", next, shell_quoted("optimizer.lr=" + rate)));
  }

  train::LrFindOptions options_;
  std::string out_;
  bool json_ = false;
};

}  // namespace

const CommandEntry kLrFind = command_entry<LrFind>("lr-find");

}  // namespace tessera::cli
