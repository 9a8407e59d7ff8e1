// tessera sweep: one recipe with many settings.
#include "train/sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string_view>

#include "base/log.h"
#include "base/text/call.h"
#include "base/text/shell.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/rate_setting.h"
#include "cluster/launch/processes/child.h"
#include "pages/report/report.h"
#include "pjrt/plugin/accelerators.h"
#include "pjrt/plugin/plugin.h"
#include "store/file.h"
#include "store/local/disk_room.h"
#include "store/local/lock.h"
#include "store/servers/buckets.h"
#include "store/small_file.h"
#include "store/url.h"
#include "train/process/platform_choice.h"
#include "train/run/default_workdir.h"
#include "train/sweep/halving.h"
#include "train/sweep/rows.h"
#include "train/sweep/shared_cache.h"
#include "train/sweep/slots.h"

namespace tessera::cli {
namespace {

constexpr const char* kRate = "lr";                // of the schedule
constexpr const char* kSchedule = "optimizer.lr";  // all of it
constexpr const char* kSweepExample = "tessera sweep recipes/digits.toml lr=1e-3,3e-3 seed=0..2";
constexpr const char* kHalvingExample = "tessera sweep recipes/digits.toml lr=3e-4,1e-3,3e-3 --halving";

// "1e-3,1e-4" of [1e-3,1e-4], a list where the key has one value, and "0.1,0.3" of 0.1..0.3; empty of what is neither.
std::string meant_values(std::string_view value, bool one_value) {
  if (one_value && value.starts_with('[')) return std::string(value.substr(1, value.find(']') - 1));
  const size_t dots = value.find("..");
  if (dots == std::string_view::npos || !parse_number(value.substr(0, dots))) return "";
  const std::string_view end = value.substr(dots + 2);
  return fmt::format("{},{}", value.substr(0, dots), end.empty() ? "…" : end);
}

class SweepCommand final : public Command {
 public:
  Page page() const override {
    return {"sweep",
            "RECIPE key=value,value … [key=value …]",
            "train a recipe with every choice of some settings, and compare the runs",
            {{kSweepExample, "six runs: each rate with each seed"},
             {"tessera sweep recipes/digits.toml optimizer.weight_decay=0.01,0.1,0.3 total=\"10 epochs\" --jobs 2",
              "three short runs, two at a time"},
             {"tessera sweep recipes/digits.toml lr=3e-4,1e-3,3e-3 optimizer.weight_decay=0.01,0.05,0.2 --halving",
              "nine runs; three go on to a third of the length, and one to the end"}},
            "seed=0..4 are the whole numbers from 0 to 4; lr=1e-3,3e-3 is the rate of the recipe's schedule. Other\n"
            "key=value words are the same in all runs. Runs whose settings differ in the optimizer's numbers or the\n"
            "seed share one compiled program. A run that fails is named, and the others go on. Ctrl-C saves those that\n"
            "train, and the same command goes on. The workdir holds a run's directory for each, sweep.csv, sweep.svg,\n"
            "report/index.html and sweep.toml, the recipe as it was at the start, which all runs train. Runs that differ\n"
            "in seed or fold alone are one row of the table: mean and deviation.\n"
            "--halving is successive halving: all runs train for a short budget, the best third of the settings goes on to\n"
            "three times that, and so forth. Their schedules are of the full length, and those that go on end with the\n"
            "bytes of runs that never paused."};
  }
  void declare(Flags& flags) override {
    flags_ = &flags;
    flags.add("--workdir", "DIR", &workdir_, "of all runs; runs/<recipe>-sweep-N when not given");
    flags.add("--jobs", "N", &jobs_, {1, 1024},
              "runs at a time; when not given, one for each processor, or as many as the GPUs or TPU chips are enough for");
    flags.add("--devices-per-run", "N", &each_, {1, 1024},
              "how many devices each run has (1): GPUs or TPU chips, which no other run has, or virtual devices of a CPU; "
              "--devices is the same");
    flags.add("--max", "N", &most_, 1, "at most so many runs, the first of them");
    flags.add("--random", &random_, "with --max: drawn from all choices");
    flags.add("--draw", "SEED", &draw_, 0, "another draw of --random (0)");
    flags.add("--metric", "NAME", &metric_, "what is compared; the first evaluator's first score when not given");
    flags.add("--halving", &halving_, "train the poor settings for a part of the length only");
    flags.add("--eta", "N", &eta_, 2, "of --halving: one of N settings goes on, to N times the budget (3)");
    flags.add("--min-budget", "DURATION", &min_budget_,
              "of --halving: of the first rung, as \"2 epochs\"; when not given, so that about one setting is left at the end. "
              "Rungs are at the nearest steps at which --metric is measured");
    flags.add("--dry-run", &dry_run_, "list the runs, and train none");
  }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions& given) override {
    store::refuse_url(workdir_);
    const train::DeviceOptions device = with_devices_of_a_run(given);
    take_words(recipe_words(words, "sweep"));
    const std::vector<sweep::Variant> variants = choose();
    sweep::SweepOptions options = options_for(variants, device);
    sweep::SweepRecord record{words, store::read_small_file(store::files_at(recipe_.path), recipe_.path), false,
                              halving_for(variants, options.metric, devices_of_a_run(device))};
    if (dry_run_) {
      for (const sweep::Variant& variant : variants) print(sweep::text_of(variant));
      if (record.halving) print("rungs " + rungs_text(*record.halving));
      return Exit::kDone;
    }
    // Else each run would say that it is not there.
    pjrt::find_plugin(device.platform, device.plugin);
    train::tell_platform_choice(device);  // the runs are told which one
    options.directory = choose_directory(record);
    options.command[1] = recipe_.path = store::join_path(options.directory, sweep::kSweepRecipe);
    share_cache(variants, options);
    const std::vector<sweep::Slot> slots = options.slots(variants.size());
    const std::string devices = sweep::slots_text(device.platform, slots);
    log_line(fmt::format("{} run{} in {}, {} at a time{}", variants.size(), variants.size() == 1 ? "" : "s", options.directory,
                         slots.size(), devices.empty() ? "" : ", on " + devices));
    if (record.halving) log_line("rungs " + rungs_text(*record.halving));
    const sweep::SweepResult result = sweep::run_sweep(options, record);
    cache_.reset();
    return tell(result, options, record);
  }

 private:
  // Splits them into axes and what all runs have.
  void take_words(const RecipeWords& words) {
    recipe_.path = words.path;
    std::set<std::string> fixed;
    for (const std::string& word : words.overrides) {
      if (auto axis = sweep::parse_axis(word)) {
        const bool again = std::ranges::any_of(axes_, [&](const sweep::Axis& known) { return known.key == axis->key; });
        if (again) throw usage_error(fmt::format("`{}` is given twice", axis->key), {}, "put all its values into one word");
        axes_.push_back(std::move(*axis));
      } else {
        fixed.emplace(trim(std::string_view(word).substr(0, word.find('='))));
        recipe_.overrides.push_back(word);
      }
    }
    for (const sweep::Axis& axis : axes_) {  // the one value would count for nothing
      if (fixed.contains(axis.key))
        throw usage_error(fmt::format("`{}` is given twice, once with one value and once with several", axis.key), {},
                          "put all its values into one word");
    }
    const bool of_schedule = std::ranges::find(axes_, kSchedule, &sweep::Axis::key) != axes_.end();
    const bool of_rate = fixed.contains(kRate) || std::ranges::find(axes_, kRate, &sweep::Axis::key) != axes_.end();
    if (of_schedule && of_rate)  // each is the run's whole schedule, so that one of them would count for nothing
      throw usage_error(fmt::format("`{}` and several values of `{}` both say the rate", kRate, kSchedule), {},
                        fmt::format("leave out `{}`, and write each rate into a value of `{}`", kRate, kSchedule));
    if (!axes_.empty()) return;
    for (const std::string& word : words.overrides) {  // a list, or a range of what are no whole numbers
      const size_t equals = word.find('=');
      const std::string_view value = trim(std::string_view(word).substr(equals + 1));
      const std::string values = meant_values(value, is_rate_setting(word) || word.starts_with("optimizer.lr="));
      if (values.empty()) continue;
      throw usage_error(fmt::format("`{}` has one value, as it is written", word), {},
                        fmt::format("values have commas between them, {}={}; whole numbers may be a range, seed=0..4",
                                    word.substr(0, equals), values));
    }
    throw usage_error("tessera sweep needs a key with several values", {}, kSweepExample);
  }

  train::DeviceOptions with_devices_of_a_run(train::DeviceOptions device) const {
    if (!each_) return device;
    if (device.devices)
      throw usage_error("--devices and --devices-per-run both say how many devices each run has", "--devices",
                        "give one of them");
    device.devices = each_;
    return device;
  }

  // At least; a run has all of its TPU chips' devices, and some chips are two.
  static int64_t devices_of_a_run(const train::DeviceOptions& device) { return device.devices.value_or(1); }

  std::vector<sweep::Variant> choose() const {
    if (random_ && !most_) throw usage_error("--random draws some runs", {}, "say how many: --max 20 --random");
    if (random_) return sweep::sample(axes_, *most_, static_cast<uint64_t>(draw_));
    std::vector<sweep::Variant> all = sweep::grid(axes_);
    if (most_) all.resize(std::min(all.size(), static_cast<size_t>(*most_)));
    return all;
  }

  // The recipe's schedule is that of the words which all runs have.
  std::string word_of(const std::string& key, const std::string& value) const {
    if (key != kRate) return key + "=" + value;
    return schedule_with_rate(load_recipe(recipe_), value);
  }

  config::Section load(const sweep::Variant& variant) const {
    RecipeWords words = recipe_;
    for (const auto& [key, value] : variant) words.overrides.push_back(word_of(key, value));
    return load_recipe(words);
  }

  recipe::Recipe read(const sweep::Variant& variant, int64_t devices) const {
    return recipe::read_recipe(load(variant), devices);
  }

  // Runs that keep decoded pictures in memory keep the same ones, together, where there is room.
  void share_cache(const std::vector<sweep::Variant>& variants, const sweep::SweepOptions& options) {
    const int64_t bytes = sweep::memory_caches(load(variants[0]));
    if (bytes == 0 || variants.size() < 2 || !sweep::read_the_same(variants[0])) return;
    constexpr const char* kMemory = "/dev/shm";
    const int64_t runs = std::ssize(options.slots(variants.size()));
    std::unique_ptr<sweep::SharedCache> cache;  // which goes again where there is no room
    int64_t room = 0;
    try {
      if (store::local_files().info(kMemory)) {
        cache = std::make_unique<sweep::SharedCache>(options.directory, kMemory);
        // With what a killed sweep left, which is taken up. An eighth stays for others, as NCCL.
        room = store::free_bytes(kMemory).value_or(0) / 8 * 7 + store::bytes_below(store::local_files(), cache->path());
      }
    } catch (const Error& error) {
      return log_note(fmt::format("each run decodes its own images: {}", error.message()));
    }
    // Each run counts what it kept and what it met of others, so that all together may keep so much.
    if (bytes > room / runs) {
      log_note(fmt::format("each run decodes its own images: {} has {} left, less than {} for each of {} runs at a time",
                           kMemory, human_bytes(static_cast<double>(room)), human_bytes(static_cast<double>(bytes)), runs));
      return;
    }
    cache_ = std::move(cache);
    log_line(fmt::format("decoded pictures, which all runs share, are in {} till the end", cache_->path()));
  }

  sweep::SweepOptions options_for(const std::vector<sweep::Variant>& variants, const train::DeviceOptions& device) const {
    const int64_t devices = devices_of_a_run(device);
    const recipe::Recipe first = read(variants[0], devices);
    // Each value once, so that a mistake is known before hours of training.
    for (const sweep::Axis& axis : axes_) {
      for (const std::string& value : axis.values) {
        sweep::Variant variant = variants[0];
        std::ranges::find(variant, axis.key, &std::pair<std::string, std::string>::first)->second = value;
        if (variant != variants[0]) read(variant, devices);
      }
    }
    sweep::SweepOptions options;
    options.program = std::filesystem::read_symlink("/proc/self/exe");
    options.command = {"train", recipe_.path};
    options.command.insert(options.command.end(), recipe_.overrides.begin(), recipe_.overrides.end());
    for (std::string& flag : flags_of(device)) options.command.push_back(std::move(flag));
    options.variants = variants;
    options.word = [this](const std::string& key, const std::string& value) { return word_of(key, value); };
    options.slots = [this, device](size_t runs) {
      std::vector<sweep::Slot> slots = slots_for(device, static_cast<int64_t>(runs));
      for (sweep::Slot& slot : slots) {
        if (cache_) slot.environment.push_back(cache_->variable());
      }
      return slots;
    };
    options.metric = metric_of(first);
    options.slots(variants.size());  // throws where the devices are not enough
    return options;
  }

  // The plan of --halving.
  std::optional<sweep::HalvingRecord> halving_for(const std::vector<sweep::Variant>& variants, const recipe::BestMetric& metric,
                                                  int64_t devices) const {
    if (!halving_) {
      if (eta_ || !min_budget_.empty())
        throw usage_error(fmt::format("{} is of --halving", eta_ ? "--eta" : "--min-budget"), {}, "add --halving");
      return std::nullopt;
    }
    const auto is_total = [](const sweep::Axis& axis) { return axis.key == "total"; };
    if (std::ranges::any_of(axes_, is_total))
      throw usage_error("--halving compares runs on their way, and `total` makes runs of several lengths", "total",
                        "give `total` one value");
    const size_t settings = sweep::rows_of(variants, std::vector<std::optional<double>>(variants.size())).size();
    if (settings < 2)
      throw usage_error("--halving stops poor settings, and these runs have the same but for seed or fold", {},
                        kHalvingExample);
    const sweep::HalvingOptions options{eta_.value_or(sweep::HalvingOptions{}.eta), min_budget_};
    sweep::HalvingRecord record{options.eta, min_budget_, metric.name, {}, {}};
    std::map<sweep::Variant, std::vector<int64_t>> known;  // by what may change the length of a run
    for (const sweep::Variant& variant : variants) {
      sweep::Variant lengths = variant;
      std::erase_if(lengths,
                    [](const auto& one) { return !one.first.starts_with("data.") && !one.first.starts_with("eval."); });
      auto rungs = known.find(lengths);
      if (rungs == known.end())
        rungs = known.emplace(lengths, sweep::rungs_of(read(variant, devices), options, metric, settings)).first;
      if (rungs->second.size() != known.begin()->second.size())
        throw usage_error(fmt::format("`{}` has {} rungs and other runs have {}", sweep::text_of(variant), rungs->second.size(),
                                      known.begin()->second.size()),
                          {}, "measure all runs as often, or set --min-budget in epochs");
      record.steps[sweep::file_name_of(variant)] = rungs->second;
    }
    return record;
  }

  // "180, 538, 1,616 steps": of the first run.
  static std::string rungs_text(const sweep::HalvingRecord& halving) {
    std::string text;
    for (const int64_t step : halving.steps.begin()->second) text += (text.empty() ? "" : ", ") + human_count(step);
    const bool alike =
        std::ranges::all_of(halving.steps, [&](const auto& one) { return one.second == halving.steps.begin()->second; });
    return text + (alike ? " steps" : fmt::format(" steps of {}; others have their own", halving.steps.begin()->first));
  }

  static std::vector<std::string> flags_of(const train::DeviceOptions& device) {
    std::vector<std::string> flags = {"--platform", std::string(pjrt::platform_name(device.platform)),
                                      "--cache-dir=" + device.cache.directory()};
    if (!device.plugin.empty()) flags.insert(flags.end(), {"--plugin", device.plugin});
    if (device.devices && device.platform != pjrt::Platform::kTpu)
      flags.insert(flags.end(), {"--devices", std::to_string(*device.devices)});
    return flags;
  }

  std::vector<sweep::Slot> slots_for(const train::DeviceOptions& device, int64_t runs) const {
    if (device.platform != pjrt::Platform::kCpu)
      return sweep::accelerator_slots(sweep::Accelerators::of_machine(device.platform), device.devices, jobs_, runs);
    int64_t most = 1;
    cpu_set_t own;
    if (sched_getaffinity(0, sizeof own, &own) == 0) most = CPU_COUNT(&own);
    const int64_t count = std::clamp<int64_t>(jobs_.value_or(most), 1, runs);
    std::vector<sweep::Slot> slots(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) slots[static_cast<size_t>(i)].processors = launch::share_of_processors(i, count);
    return slots;
  }

  recipe::BestMetric metric_of(const recipe::Recipe& recipe) const {
    const std::vector<recipe::BestMetric> scores = recipe::scores_of(recipe);
    if (metric_.empty()) return scores.front();
    std::vector<std::string> names;
    for (const recipe::BestMetric& score : scores) {
      if (score.name == metric_) return score;
      names.push_back(score.name);
    }
    throw usage_error(fmt::format("`--metric` is `{}`, which no run of this recipe gives", metric_), {},
                      recipe::suggest_score(metric_, names));
  }

  // The directory of `record`, which is written to it, locked as long as this lives. One that is not finished is gone on with, and
  // the record is then its own.
  std::string choose_directory(sweep::SweepRecord& record) {
    std::string directory = workdir_;
    bool unfinished = false;
    if (directory.empty()) {
      std::string name = store::last_part(recipe_.path);
      if (name.ends_with(".toml")) name.resize(name.size() - 5);
      directory = train::default_workdir(name + "-sweep", "", /*fresh=*/true).path;
      const size_t dash = directory.rfind('-');
      const std::string newest = directory.substr(0, dash + 1) + std::to_string(std::stoll(directory.substr(dash + 1)) - 1);
      const auto saved = sweep::read_record(newest);
      unfinished = saved && same_command(*saved, record) && sweep::recipe_changes(*saved, record).empty() && !saved->finished;
      if (unfinished) directory = newest;
    }
    store::local_files().make_directories(directory);
    lock_.emplace(directory);
    if (unfinished) log_note(fmt::format("`{}` is this sweep and not finished, so it goes on", directory));
    if (const auto saved = sweep::read_record(directory)) {
      if (!same_command(*saved, record)) {
        throw usage_error(fmt::format("`{}` is another sweep: tessera sweep {}", directory, command_of(*saved)), {},
                          "give this one another --workdir");
      }
      const std::string changes = sweep::recipe_changes(*saved, record);
      if (!changes.empty()) {
        throw usage_error(fmt::format("`{}` has changed since the sweep in `{}` began{}", recipe_.path, directory, changes), {},
                          "give this one another --workdir, or go back to the values that are there");
      }
      record.halving = saved->halving;
    } else if (const std::string path = store::join_path(directory, sweep::kSweepRecipe);
               store::local_files().info(path) && store::read_small_file(store::local_files(), path) != record.recipe) {
      throw usage_error(fmt::format("`{}` is there already, and of no sweep: the copy of the recipe would replace it", path),
                        {}, "give the sweep another --workdir");
    }
    sweep::write_record(directory, record);
    return directory;
  }

  static bool same_command(const sweep::SweepRecord& a, const sweep::SweepRecord& b) {
    if (a.words != b.words || a.halving.has_value() != b.halving.has_value()) return false;
    return !a.halving || a.halving->same_plan(*b.halving);
  }

  static std::string command_of(const sweep::SweepRecord& record) {
    std::vector<std::string> words = record.words;
    if (const auto& halving = record.halving) {
      words.insert(words.end(), {"--halving", "--eta", std::to_string(halving->eta), "--metric", halving->metric});
      if (!halving->min_budget.empty()) words.insert(words.end(), {"--min-budget", halving->min_budget});
    }
    return shell_line(words);
  }

  static std::string shell_line(const std::vector<std::string>& words) {
    std::string line;
    for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_quoted(word);
    return line;
  }

  Exit tell(const sweep::SweepResult& result, const sweep::SweepOptions& options, sweep::SweepRecord& record) const {
    store::FileSystem& files = store::local_files();
    const std::string& directory = options.directory;
    store::write_atomic(files, store::join_path(directory, "sweep.csv"), sweep::csv(result, options.metric));
    const std::string plot = sweep::plot(result, options.metric);
    if (!plot.empty()) store::write_atomic(files, store::join_path(directory, "sweep.svg"), plot);
    if (result.stopped) {
      log_line(
          fmt::format("stopped; the same command goes on: tessera sweep {}{}", shell_line(record.words), flags_->given({})));
      return *result.stopped;
    }
    record.finished = true;
    sweep::write_record(directory, record);
    print(sweep::table(result, options.metric));
    if (record.halving) print(sweep::saving(result, *record.halving));
    print(sweep::compilations(result));
    print(fmt::format("{:<10}{}", "table", store::join_path(directory, "sweep.csv")));
    if (!plot.empty()) print(fmt::format("{:<10}{}", "plot", store::join_path(directory, "sweep.svg")));
    write_comparison(result, directory);
    const auto failed = std::ranges::find(result.trials, sweep::Ending::kFailed, &sweep::Trial::ending);
    // Rungs that were decided stay so.
    if (failed != result.trials.end() && !record.halving) {
      log_line(fmt::format("to train the runs that failed again: tessera sweep {}{} --workdir {}", shell_line(record.words),
                           flags_->given({"--workdir"}), shell_quoted(directory)));
    }
    return failed == result.trials.end() ? Exit::kDone : failed->exit;
  }

  static void write_comparison(const sweep::SweepResult& result, const std::string& directory) {
    std::vector<std::string> runs;
    for (const sweep::Trial& trial : result.trials) {
      if (trial.ending == sweep::Ending::kDone || trial.ending == sweep::Ending::kPruned) runs.push_back(trial.path);
    }
    if (runs.empty()) return;
    try {
      print(fmt::format("{:<10}{}", "report", report::write_report(runs, {store::join_path(directory, "report")})));
    } catch (const Error& error) {
      log_warning(fmt::format("no report was written: {}", error.message()));
    }
  }

  const Flags* flags_ = nullptr;  // lives while this runs
  std::string workdir_, metric_, min_budget_;
  std::optional<int64_t> jobs_, each_, most_, eta_;
  int64_t draw_ = 0;
  bool random_ = false, halving_ = false, dry_run_ = false;
  RecipeWords recipe_;
  std::vector<sweep::Axis> axes_;
  std::optional<store::DirectoryLock> lock_;   // on the directory of all runs
  std::unique_ptr<sweep::SharedCache> cache_;  // null: each run has its own
};

}  // namespace

const CommandEntry kSweep = command_entry<SweepCommand>("sweep");

}  // namespace tessera::cli
