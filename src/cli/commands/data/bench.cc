// tessera data bench: how quickly a recipe's input comes, stage by stage, without a model.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/cores.h"
#include "base/log.h"
#include "base/system/process.h"
#include "base/system/seconds_since.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "data/loader/loader.h"
#include "recipe/data_options.h"
#include "train/process/device.h"
#include "train/step/device_batch.h"

namespace tessera::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Stage {
  std::string name;
  double seconds = 0;  // an image
  bool on_threads = true;
};

struct Measured {
  int64_t threads = 0, images = 0;
  double images_per_second = 0;
  std::vector<Stage> stages;
  // The batches' memory, which is fixed; and by how much the process's largest grew while it was measured.
  size_t slot_bytes = 0;
  int64_t growth_bytes = 0;
  // The stage that would have to be quicker for more images: of those on threads the longest, when they take longer together
  // than the rest does.
  std::string bound;
};

// What one interval of the loader's work took.
Measured measured(const data::LoaderStats& before, const data::LoaderStats& after, double seconds, double transfer,
                  int64_t threads) {
  Measured out;
  out.threads = threads;
  out.images = after.images - before.images;
  const auto count = static_cast<double>(std::max<int64_t>(1, out.images));
  out.images_per_second = count / seconds;
  const auto from = before.stages.named(), to = after.stages.named();
  double on_threads = 0;
  for (size_t i = 0; i < to.size(); ++i) {
    out.stages.push_back({to[i].first, (to[i].second - from[i].second) / count});
    on_threads += out.stages.back().seconds;
  }
  const double busy = (after.busy_seconds - before.busy_seconds) / count;
  out.stages.push_back({"batch", std::max(0.0, busy - on_threads)});
  const auto longest = std::ranges::max_element(out.stages, {}, &Stage::seconds);
  out.bound = busy / static_cast<double>(threads) >= transfer / count ? longest->name : "transfer";
  out.stages.push_back({"transfer", transfer / count, false});
  return out;
}

class DataBench final : public Command {
 public:
  Page page() const override {
    return {"data bench",
            "RECIPE [key=value …]",
            "measure how quickly a recipe's training images come, stage by stage",
            {{"tessera data bench recipes/digits.toml", "for five seconds, on every core"},
             {"tessera data bench recipes/digits.toml --threads 1 --json", "what one core does; one JSON object"}},
            "Runs the training input as `tessera train` does, up to the device, without a model. The first batches are not "
            "counted."};
  }
  void declare(Flags& flags) override {
    flags.add("--threads", "N", &threads_, {0, data::kMaxThreads}, "threads that decode; as data.threads says when not given");
    flags.add("--seconds", "N", &seconds_, 1, "how long, 5 when not given");
    flags.add("--json", &json_, "one JSON object");
  }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions& device) override {
    config::Section recipe = load_recipe(recipe_words(words, "data bench"));
    recipe::TrainDataOptions options;
    recipe::Data opened = recipe::open_training_data(recipe.section("data"), options);
    if (threads_ > 0) opened.options.threads = threads_;
    if (options.batch < 1) throw usage_error("`data.batch` must be at least 1", recipe.where("data"));
    const auto client = train::open_client(device);
    const Measured result = measure(opened, options.batch, *client);
    json_ ? print_figures(result) : print_table(opened, options.batch, result);
    return Exit::kDone;
  }

 private:
  Measured measure(const recipe::Data& opened, int64_t batch, const pjrt::Client& client) const {
    const data::LoaderOptions options = opened.loader(batch, 0);
    data::TrainLoader loader(opened.sets, options);
    const objectives::Inputs inputs{true, recipe::token_inputs(opened.pp()), true, opened.inputs().multi_hot()};
    double transfer = 0;
    const auto take = [&] {
      data::Batch rows = loader.next();
      const auto start = Clock::now();
      const train::DeviceBatch moved(client, {}, std::move(rows), opened.pp(), inputs);
      transfer += seconds_since(start);
    };
    // What lies ready at the start would flatter the figures.
    for (int64_t i = 0; i < options.prefetch + 2; ++i) take();
    transfer = 0;
    const int64_t peak = peak_resident_bytes();
    const data::LoaderStats before = loader.stats();
    const auto start = Clock::now();
    for (double passed = 0; passed < static_cast<double>(seconds_); passed = seconds_since(start)) {
      take();
      log_status(fmt::format("{:.0f} of {} s", passed, seconds_));
    }
    const double passed = seconds_since(start);
    log_status("");
    const auto threads = options.threads > 0 ? options.threads : static_cast<int>(usable_cores());
    Measured result = measured(before, loader.stats(), passed, transfer, threads);
    result.slot_bytes = loader.bytes();
    result.growth_bytes = peak_resident_bytes() - peak;
    return result;
  }

  static void print_figures(const Measured& result) {
    nlohmann::ordered_json json = {
        {"images_per_second", result.images_per_second},
        {"images_per_second_per_thread", result.images_per_second / static_cast<double>(result.threads)},
        {"threads", result.threads},
        {"images", result.images},
        {"bound", result.bound},
        {"slot_bytes", result.slot_bytes},
        {"memory_growth_bytes", result.growth_bytes},
        {"stages", nlohmann::ordered_json::object()}};
    for (const Stage& stage : result.stages) json["stages"][stage.name] = stage.seconds;
    print_json(json);
  }

  static void print_table(const recipe::Data& opened, int64_t batch, const Measured& result) {
    std::string text = fmt::format("{}   batch {}, {} thread{}\n{}\n\nstage       ms an image\n", opened.name(), batch,
                                   result.threads, result.threads == 1 ? "" : "s", opened.pp().text());
    for (const Stage& stage : result.stages) {
      text += fmt::format("{:<10} {:>12.4f}{}{}\n", stage.name, stage.seconds * 1e3,
                          stage.on_threads ? "" : "   beside the threads",
                          stage.name == result.bound ? "   <- bounds the rest" : "");
    }
    text += fmt::format("\n{} images/s, {} a thread", human_count(static_cast<int64_t>(result.images_per_second)),
                        human_count(static_cast<int64_t>(result.images_per_second / static_cast<double>(result.threads))));
    text += fmt::format("\nbatches take {}, and memory grew by {} over {} images",
                        human_bytes(static_cast<double>(result.slot_bytes)),
                        human_bytes(static_cast<double>(result.growth_bytes)), human_count(result.images));
    print(text);
  }

  int64_t threads_ = 0, seconds_ = 5;
  bool json_ = false;
};

}  // namespace

const CommandEntry kDataBench = command_entry<DataBench>("data bench");

}  // namespace tessera::cli
