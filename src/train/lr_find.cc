#include "train/lr_find.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <limits>

#include "base/log.h"
#include "data/loader/loader.h"
#include "recipe/recipe.h"
#include "state/model_source.h"
#include "train/step/compile.h"
#include "train/step/device_batch.h"
#include "train/step/program_options.h"
#include "train/step/step.h"
#include "train/step/step_state.h"
#include "train/step/trace.h"

namespace tessera::train {
namespace {

constexpr double kDivergence = 4;  // fastai's

class RateFinder {
 public:
  RateFinder(config::Section section, const LrFindOptions& options)
      : options_(options),
        client_(open_client(options.device)),
        recipe_(recipe::read_recipe(std::move(section), devices_of(options.device, *client_))),
        layout_(recipe::recipe_layout(recipe_)),
        state_(client_, layout_) {
    const ProgramOptions program_options = train_options(recipe_, hardware_of(*client_, options.device.cache));
    Compiler compiler(client_);
    const auto start = [&](Program program, size_t state_arguments, int64_t batch) {
      auto arguments = arguments_of(layout_, state_arguments, image_batch(*recipe_.model, batch));
      return compiler.start(std::move(program), options.device.cache, std::move(arguments));
    };
    auto step = start(train_program(*recipe_.model, layout_, *recipe_.optimizer, program_options), layout_.entries.size(),
                      recipe_.program_rows());
    auto init = start(init_program(recipe_.specs, layout_), 0, 0);
    load_weights();
    state_.take_teacher(recipe_);
    init_.emplace(init.get());
    step_.emplace(step.get());
    numbers_ = place_numbers(step_->numbers, *client_, layout_.mesh);
  }

  LrSearch search(int64_t index);
  LrFindResult describe() const {
    return {.searches = {},
            .median = {},
            .model = recipe_.model->describe(),
            .data = recipe_.data.name(),
            .batch = recipe_.batch,
            .compile_seconds = step_->report.seconds,
            .cached = step_->report.cached};
  }

 private:
  void load_weights();
  double step(data::TrainLoader& loader);

  const LrFindOptions& options_;
  std::shared_ptr<pjrt::Client> client_;
  recipe::Recipe recipe_;
  state::StateLayout layout_;
  StepState state_;
  std::optional<Compiled> init_, step_;
  state::HostArrays weights_;  // of model_init; empty bytes where the drawn value stays
  state::DeviceArrays numbers_;
};

void RateFinder::load_weights() {
  if (!recipe_.model_init) return;
  weights_.resize(layout_.params);
  for (const std::string& note : state::init_from(*recipe_.model_init, *recipe_.model, layout_, weights_)) log_note(note);
}

// The loss of the batch, before the update.
double RateFinder::step(data::TrainLoader& loader) {
  DeviceBatch batch(*client_, layout_.mesh, loader.next(), recipe_.data.pp(), recipe_.objective->inputs());
  return state_.step(step_->executable, state_.arguments(batch, numbers_)).to_host<float>().at(0);
}

LrSearch RateFinder::search(int64_t index) {
  LrSearch out;
  out.seed = recipe_.run.seed + index;
  state_.draw(init_->executable, out.seed, weights_);
  data::TrainLoader loader(recipe_.data.sets, recipe_.data.loader(recipe_.batch, static_cast<uint64_t>(out.seed)));
  optim::SmoothLoss smooth;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t s = 0; s < options_.steps && out.end == LrSearchEnd::kWhole; ++s) {
    const double loss = step(loader);
    if (options_.progress) options_.progress(index, s + 1);
    if (!std::isfinite(loss)) {
      out.end = LrSearchEnd::kNotFinite;
      break;
    }
    out.points.push_back({recipe_.optimizer->schedule().at(s), loss, smooth.add(loss)});
    least = std::min(least, out.points.back().smooth);
    if (out.points.back().smooth > kDivergence * least) out.end = LrSearchEnd::kDiverged;
  }
  return out;
}

void suggest(LrSearch& search, int64_t planned) {
  std::vector<double> rates, losses;
  for (const LrPoint& point : search.points) rates.push_back(point.rate), losses.push_back(point.smooth);
  const auto [first, last] = optim::used_range(losses, static_cast<size_t>(planned));
  const std::span<const double> used(losses.data() + first, last - first);
  search.suggestions = optim::suggest_rates(std::span<const double>(rates.data() + first, last - first), used);
  if (!used.empty()) search.fall = 1 - *std::ranges::min_element(used) / used.front();
}

// Of rates, which lie evenly on a logarithmic scale.
std::optional<double> median_of(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : std::sqrt(values[half - 1] * values[half]);
}

optim::LrSuggestions median_of(const std::vector<LrSearch>& searches) {
  const auto median = [&](std::optional<double> optim::LrSuggestions::*rule) {
    std::vector<double> values;
    for (const LrSearch& search : searches) {
      if (const auto& value = search.suggestions.*rule) values.push_back(*value);
    }
    return median_of(std::move(values));
  };
  using S = optim::LrSuggestions;
  return {median(&S::valley), median(&S::steep), median(&S::minimum), median(&S::slide)};
}

}  // namespace

std::string ramp_schedule(const LrFindOptions& options) {
  return fmt::format("exponential({}, end={}, length={} steps)", options.from, options.to, options.steps);
}

LrFindResult find_learning_rate(config::Section recipe, const LrFindOptions& options) {
  RateFinder finder(std::move(recipe), options);
  LrFindResult result = finder.describe();
  for (int64_t i = 0; i < options.seeds; ++i) {
    result.searches.push_back(finder.search(i));
    suggest(result.searches.back(), options.steps);
  }
  result.median = median_of(result.searches);
  return result;
}

}  // namespace tessera::train
