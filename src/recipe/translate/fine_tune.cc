#include "recipe/translate/fine_tune.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/call.h"
#include "base/text/text.h"
#include "data/source.h"
#include "recipe/translate/folders.h"
#include "recipe/weights_chain.h"
#include "state/model_source.h"
#include "store/file.h"

namespace tessera::translate {
namespace {

constexpr int64_t kBatch = 32, kLeastSteps = 200, kEpochs = 10, kMaxEpochs = 50;
constexpr const char* kHeldOut = "20 %";

std::string as_source(const std::string& text) {
  return text.find('(') != std::string::npos ? text : fmt::format("folder({})", call_value(text));
}

struct Sources {
  std::string train, valid;
};

Sources expect_other_images(Sources sources) {
  if (sources.train != sources.valid) return sources;
  throw usage_error("`--valid` names the images that are trained on", "--valid",
                    fmt::format("without it {} of each class are held out", kHeldOut));
}

Sources sources_of(const FineTuneOptions& options) {
  if (const auto number = parse_number(options.valid);
      number && !store::local_files().info(options.valid)) {  // fastai's valid_pct=0.2
    throw usage_error(fmt::format("`{}` has no unit", options.valid), "--valid",
                      fmt::format("a share is written --valid \"{:g} %\"", *number < 1 ? *number * 100 : *number));
  }
  const bool share = options.valid.ends_with('%');
  const auto parts = [&](const std::string& source) {
    const std::string held_out = share ? options.valid : kHeldOut;
    return Sources{fmt::format("part({}, train, {})", source, held_out), fmt::format("part({}, valid, {})", source, held_out)};
  };
  if (options.data.find('(') != std::string::npos) {
    return options.valid.empty() || share ? parts(options.data) : expect_other_images({options.data, as_source(options.valid)});
  }
  if (!store::local_files().info(options.data)) return parts(as_source(options.data));  // whose error says so
  const std::string train = folder_of(options.data, "train"), valid = folder_of(options.data, "validation");
  if (!options.valid.empty() && !share) return expect_other_images({as_source(train), as_source(options.valid)});
  if (!share && train != options.data && valid != options.data) return {as_source(train), as_source(valid)};
  return parts(as_source(train));
}

std::string plain_chain(const models::InputShape& input) {
  return fmt::format("decode | resize_small({}, interpolation=bicubic) | central_crop({}) | normalise", input.height * 8 / 7,
                     input.height);
}

int64_t batch_of(int64_t images) {
  int64_t batch = kBatch;
  while (batch > 4 && batch * 8 > images) batch /= 2;
  return batch;
}

// A rule of thumb: larger models bear smaller rates, about as the square root of their size. To one digit.
double rate_of(double parameters) {
  const double rate = std::min(1e-3, 1e-3 * std::sqrt(1e6 / parameters));
  const double digit = std::pow(10, std::floor(std::log10(rate)));
  return std::round(rate / digit) * digit;
}

class FineTuneRecipe {
 public:
  FineTuneRecipe(const FineTuneOptions& options, const state::WeightsFacts& weights, const data::Source& train)
      : options_(options),
        weights_(weights),
        train_(train),
        pp_(weights.pp.empty() ? plain_chain(weights.input) : weights.pp) {}

  std::string text(const Sources& sources) {
    const int64_t batch = batch_of(train_.size()), steps = std::max<int64_t>(train_.size() / batch, 1);
    const int64_t epochs = std::clamp((kLeastSteps + steps - 1) / steps, kEpochs, kMaxEpochs);
    text_.comment(fmt::format("{} classes of {} learn from the weights of {}.", train_.class_names().size(),
                              one_line(options_.data), one_line(options_.from)));
    text_.raw("seed", "0");
    text_.string("total", fmt::format("{} epochs", epochs));
    const bool several = train_.multi_label();
    text_.raw("checkpoint", fmt::format(R"({{ every = "1 epoch", keep = 1, best = "val/{}" }})", several ? "mAP" : "prec@1"));
    text_.raw("objective", several ? R"({ name = "bce" })" : R"({ name = "softmax", label_smoothing = 0.1 })");
    write_data(sources.train, batch);
    text_.section("model");
    text_.lines(weights_.model);
    text_.section("model_init");
    text_.string("from", options_.from);
    if (!keeps_head()) text_.raw("dont_load", fmt::format("[{}]", fmt::join(head_patterns(""), ", ")));
    write_optimizer();
    write_evaluation(sources.valid);
    return text_.text();
  }
  std::vector<std::string> notes() const {
    std::vector<std::string> notes;
    if (weights_.pp.empty()) {
      notes.push_back(fmt::format("nothing beside the weights says how their images were prepared; taken is `{}`", pp_));
    }
    if (keeps_head()) notes.emplace_back("the weights tell the same classes apart, so their head is kept");
    return notes;
  }

 private:
  bool keeps_head() const { return weights_.class_names == train_.class_names(); }
  // In quotes, with `rest` behind them.
  std::vector<std::string> head_patterns(const std::string& rest) const {
    std::vector<std::string> patterns;
    for (const std::string& scope : weights_.classifiers)
      patterns.push_back(RecipeText::quoted(fmt::format("{}/.*{}", scope, rest)));
    return patterns;
  }
  void write_data(const std::string& source, int64_t batch) {
    text_.section("data");
    text_.string("source", source);
    text_.raw("batch", std::to_string(batch));
    text_.string("pp", recipe::training_chain(pp_, options_.from));
  }
  void write_optimizer() {
    text_.section("optimizer");
    text_.string("name", "adamw");
    const double rate = rate_of(weights_.parameters);
    text_.string("lr", fmt::format("one_cycle({}, start=10 %)", number_text(rate)));
    text_.raw("schedules",
              fmt::format("[{}]", fmt::join(head_patterns(fmt::format(" = one_cycle({})", number_text(10 * rate))), ", ")));
    text_.raw("layer_decay", "0.75");
    text_.raw("weight_decay", "0.05");
    text_.string("clip", "norm(1.0)");
  }
  void write_evaluation(const std::string& source) {
    text_.section("eval.val");
    text_.string("every", "1 epoch");
    text_.raw("data", fmt::format("{{ source = {}, pp = {} }}", RecipeText::quoted(source), RecipeText::quoted(pp_)));
  }

  const FineTuneOptions& options_;
  const state::WeightsFacts& weights_;
  const data::Source& train_;
  std::string pp_;  // for evaluation
  RecipeText text_;
};

// "photos/" -> "photos-tuned", for the run's directory.
std::string name_of(const std::string& path_or_source) {
  std::string path = path_or_source;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (path.find('(') != std::string::npos) path = parse_call(path).name;
  return store::last_part(path) + "-tuned";
}

}  // namespace

Translation fine_tune(const FineTuneOptions& options) {
  const state::WeightsFacts weights = state::describe_weights(options.from);
  const Sources sources = sources_of(options);
  const auto train = data::make_source(sources.train, "FOLDER");
  if (train->class_names().size() < 2) {
    throw usage_error(
        fmt::format("`{}` has {}, and a classifier needs two at least", one_line(options.data),
                    train->class_names().empty() ? "no classes" : "one class alone"),
        {}, "a folder with one sub-folder a class, or a source with labels: csv(labels.csv, image=file, label=class)");
  }
  FineTuneRecipe recipe(options, weights, *train);
  Translation made;
  made.recipe = recipe.text(sources);
  made.name = name_of(options.data);
  made.notes = recipe.notes();
  return made;
}

}  // namespace tessera::translate
