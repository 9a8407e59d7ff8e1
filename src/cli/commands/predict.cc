// tessera predict: what a trained model sees in images.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "base/log.h"
#include "base/printable.h"
#include "base/text/call.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "cli/commands/image_paths.h"
#include "cli/common_flags.h"
#include "cli/other_flags.h"
#include "inference/use_model.h"
#include "metrics/multi_label.h"

namespace tessera::cli {
namespace {

// In double precision, from the largest logit down.
std::vector<double> softmax(const std::vector<float>& logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p(logits.size());
  std::transform(logits.begin(), logits.end(), p.begin(), [&](float x) { return std::exp(static_cast<double>(x) - top); });
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

// The double with the fewest digits that reads back as the same float, so that JSON shows 0.1 and not 0.10000000149.
double shortest(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  double result = 0;
  std::from_chars(text, end, result);
  return result;
}

class Predict final : public Command {
 public:
  Page page() const override {
    return {"predict",
            "--from CKPT|WORKDIR|DIR PATH…",
            "the classes that a trained model sees in images",
            {{"tessera predict --from runs/digits data/digits/val/7", "every image of a folder, one line each"},
             {"tessera predict --from vit_small --json --logits cat.jpg dog.webp",
              "a timm directory (model.safetensors and config.json); one JSON object an image"}},
            "A PATH is a file, a folder (every file below it, as the source folder(…) has them) or - for an image from stdin.\n"
            "Images are prepared as the run's first evaluator does, or as the directory says (timm's\n"
            "config.json, Hugging Face's preprocessor_config.json). One that cannot be read is named, the others go\n"
            "on, and the exit code is 3. Of a run that was trained on images with several labels, or with --threshold,\n"
            "an image gets every class whose probability, by the sigmoid, is above the threshold: often several, or none."};
  }
  void declare(Flags& flags) override {
    flags.explain_unknown(explain_words("k topk top_k", "how many classes an image gets: --top 1"));
    flags.add("--from", "PATH", &from_, "a checkpoint, a run's directory, or a directory of timm's or of Hugging Face's ViT")
        .once = true;
    declare_weights_flag(flags, &weights_);
    flags.add("--json", &json_,
              "one JSON object an image: path, top (with a threshold: tags): [{class, index, prob}], logits, or path, error");
    flags.add("--logits", &logits_, "all logits too");
    flags.add("--top", "K", &top_, 1, "how many classes at most, 5 when not given; with a threshold all");
    flags.add(
        "--threshold", "P", &threshold_,
        "every class with a probability above it, by the sigmoid; 0.5 when not given, of a run with several labels an image");
    flags.add("--dtype", "DTYPE", &dtype_, OneOf{{"f32", "bf16"}},
              ", of activations and products; as it was trained when not given");
    flags.add("--pp", "CHAIN", &pp_, "another preprocessing, as \"decode | resize(16) | value_range(-1, 1)\"");
  }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions& device) override {
    require_flag(from_, "--from", "tessera predict --from runs/digits image.png");
    if (words.empty()) throw usage_error("tessera predict needs images", {}, "tessera predict --from runs/digits image.png");
    const std::optional<double> threshold = read_threshold();
    const std::vector<std::string> paths = image_paths(words);
    state::LoadedModel model = state::load_model(from_, state::parse_weights(weights_, "--weights"));
    if (!dtype_.empty()) model.compute = state::parse_compute(dtype_, "--dtype");
    const std::string& pp = pp_.empty() ? model.pp : pp_;
    if (pp.empty()) {
      throw usage_error("neither the run's evaluators nor its directory say how images are prepared", model.path,
                        "give it: --pp \"decode | resize(16) | value_range(-1, 1)\"");
    }
    if (model.multi_label || threshold) above_ = threshold.value_or(kUsualThreshold);
    int64_t done = 0, unreadable = 0;
    inference::predict(model, pp, paths, device, [&](const inference::Prediction& one) {
      if (!one.error.empty()) ++unreadable;
      show(model, one);
      ++done;
      // Results on the same terminal show how far it is.
      if (!isatty(STDOUT_FILENO)) {
        log_status(fmt::format("{} of {} images", human_count(done), human_count(static_cast<int64_t>(paths.size()))));
      }
    });
    log_status("");
    return unreadable == 0 ? Exit::kDone : Exit::kData;
  }

 private:
  static constexpr double kUsualThreshold = 0.5;

  std::optional<double> read_threshold() const {
    if (threshold_.empty()) return std::nullopt;
    const auto value = parse_number(threshold_);
    if (value && *value >= 0 && *value < 1) return value;
    throw usage_error(fmt::format("`{}` is no probability", one_line(threshold_)), "--threshold", "a number from 0 to below 1");
  }

  std::vector<double> probabilities(const std::vector<float>& logits) const {
    if (!above_) return softmax(logits);
    std::vector<double> p(logits.size());
    std::ranges::transform(logits, p.begin(), [](float x) { return metrics::sigmoid(double{x}); });
    return p;
  }

  // The classes to show, the most likely first.
  std::vector<size_t> classes_to_show(const inference::Prediction& one, const std::vector<double>& prob) const {
    std::vector<size_t> order(prob.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return one.logits[a] > one.logits[b]; });
    if (above_) std::erase_if(order, [&](size_t i) { return !(prob[i] > *above_); });
    const size_t most = top_ > 0 ? static_cast<size_t>(top_) : above_ ? order.size() : kUsualTop;
    order.resize(std::min(order.size(), most));
    return order;
  }

  void show(const state::LoadedModel& model, const inference::Prediction& one) const {
    if (!one.error.empty()) {
      log_error(fmt::format("cannot read `{}`: {}", one_line(one.path), one_line(one.error)));
      if (json_) print_json(nlohmann::ordered_json{{"path", one.path}, {"error", one.error}});
      return;
    }
    const std::vector<double> prob = probabilities(one.logits);
    const std::vector<size_t> order = classes_to_show(one, prob);
    const auto name = [&](size_t index) {
      return index < model.class_names.size() ? model.class_names[index] : std::to_string(index);
    };
    json_ ? print_json(as_json(one, prob, order, name)) : print(as_text(one, prob, order, name));
  }

  template <class Name>
  nlohmann::ordered_json as_json(const inference::Prediction& one, const std::vector<double>& prob,
                                 const std::vector<size_t>& order, const Name& name) const {
    nlohmann::ordered_json json;
    json["path"] = one.path;
    nlohmann::ordered_json& classes = json[above_ ? "tags" : "top"] = nlohmann::ordered_json::array();
    for (const size_t i : order) classes.push_back({{"class", name(i)}, {"index", i}, {"prob", prob[i]}});
    if (logits_) {
      for (const float x : one.logits) json["logits"].push_back(shortest(x));
    }
    return json;
  }

  template <class Name>
  std::string as_text(const inference::Prediction& one, const std::vector<double>& prob, const std::vector<size_t>& order,
                      const Name& name) const {
    std::string text = one_line(one.path);
    if (order.empty()) text += "   no class";
    for (const size_t i : order) text += fmt::format("   {} {:.1f} %", one_line(name(i)), 100 * prob[i]);
    if (logits_) {
      text += "\n  logits";
      for (const float x : one.logits) text += fmt::format(" {}", x);
    }
    return text;
  }

  static constexpr size_t kUsualTop = 5;

  std::string from_, dtype_, weights_ = "raw", pp_, threshold_;
  bool json_ = false, logits_ = false;
  int64_t top_ = 0;              // 0: not given
  std::optional<double> above_;  // each class by itself
};

}  // namespace

const CommandEntry kPredict = command_entry<Predict>("predict");

}  // namespace tessera::cli
