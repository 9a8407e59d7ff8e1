// tessera caption: what a trained captioner writes of images.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "cli/commands/image_paths.h"
#include "cli/common_flags.h"
#include "inference/captions.h"

namespace tessera::cli {
namespace {

double number_of_flag(std::string_view flag, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  throw usage_error(fmt::format("`{}` takes a number, and is \"{}\"", flag, text));
}

class Caption final : public Command {
 public:
  Page page() const override {
    return {"caption",
            "--from CKPT|WORKDIR PATH…",
            "captions that a trained captioner writes for images",
            {{"tessera caption --from runs/cappa_toy photo.png", "the likeliest token at each place"},
             {"tessera caption --from runs/cappa_toy --beams 4 --json photos", "a beam search, of every image of a folder"},
             {"tessera caption --from runs/cappa_toy --top-p 0.9 --seed 1 photo.png", "drawn at random"}},
            "A PATH is a file, a folder (every file below it) or - for an image from stdin.\n"
            "The run's model must be a captioner (model.name = \"cappa\"); its data.pp says which tokenizer its captions\n"
            "are made of. Images are prepared as the run's first evaluator does. One that cannot be read is named, the\n"
            "others go on, and the exit code is 3. docs/captions.md says how captions are searched for."};
  }
  void declare(Flags& flags) override {
    inference::SearchOptions& search = options_.search;
    flags.add("--from", "PATH", &from_, "a checkpoint or a run's directory").once = true;
    declare_weights_flag(flags, &weights_);
    flags.add("--beams", "N", &search.beams, {1, 1024},
              "search over N captions at once; 1, when not given: the likeliest token at each place");
    flags.add(
        "--length-penalty", "X", [this](const std::string& text) { read_penalty(text); },
        "of a beam search: log probabilities are divided by ((5 + length) / 6) ^ X; 0.6 when not given, 0: none");
    flags.add(
        "--top-p", "P", [this](const std::string& text) { read_top_p(text); },
        "draw each token, of the likeliest that have the share P together, in (0, 1]");
    flags.add(
        "--temperature", "T", [this](const std::string& text) { read_temperature(text); },
        "of the draws: below 1 the likelier tokens come more often; 1 when not given");
    flags.add("--seed", "N", &seed_, 0, "of the draws, 0 when not given");
    flags.add("--max-tokens", "N", &options_.length, {1, 65'536},
              "of a caption, its end mark included; the model's length when not given");
    flags.add("--batch", "N", &options_.batch, {1, 65'536}, "images at once, 32 when not given");
    flags.add("--json", &json_,
              "one JSON object an image: path, captions: [{text, tokens, score}] (the best first), or path, error");
    flags.add("--pp", "CHAIN", &pp_, "another preprocessing, as \"decode | resize(64) | value_range(-1, 1)\"");
    flags.add("--no-cache", &no_cache_, "compute every token from the whole caption: slower, for comparison");
    flags.add("--speed", &speed_, "say at the end, on stderr, how many tokens and images a second there were");
  }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions& device) override {
    require_flag(from_, "--from", "tessera caption --from runs/cappa_toy image.png");
    if (words.empty()) throw usage_error("tessera caption needs images", {}, "tessera caption --from runs/cappa_toy image.png");
    check_search();
    const std::vector<std::string> paths = image_paths(words);
    const state::LoadedModel model = state::load_model(from_, state::parse_weights(weights_, "--weights"));
    inference::caption_encoder(model);  // before what else may be missing: a model that writes no captions
    const std::string& pp = pp_.empty() ? model.pp : pp_;
    if (pp.empty()) {
      throw usage_error("the run's evaluators do not say how images are prepared", model.path,
                        "give it: --pp \"decode | resize(64) | value_range(-1, 1)\"");
    }
    int64_t done = 0, unreadable = 0;
    const auto take = [&](const inference::ImageCaptions& one) {
      if (!one.error.empty()) ++unreadable;
      show(one);
      ++done;
      if (!isatty(STDOUT_FILENO)) {
        log_status(fmt::format("{} of {} images", human_count(done), human_count(static_cast<int64_t>(paths.size()))));
      }
    };
    const inference::CaptionSpeed speed = inference::caption(model, pp, paths, device, options_, take);
    log_status("");
    if (speed_) log_line(as_text(speed));
    return unreadable == 0 ? Exit::kDone : Exit::kData;
  }

 private:
  void read_penalty(const std::string& text) {
    const double value = number_of_flag("--length-penalty", text);
    if (!(value >= 0 && value <= 100))
      throw usage_error(fmt::format("`--length-penalty` must be in [0, 100], and is {}", text));
    options_.search.length_penalty = value;
    penalty_given_ = true;
  }
  void read_top_p(const std::string& text) {
    const double value = number_of_flag("--top-p", text);
    if (!(value > 0 && value <= 1)) {
      throw usage_error(fmt::format("`--top-p` must be in (0, 1], and is {}", text), {},
                        "0.9 is usual; leave it out for greedy captions");
    }
    options_.search.top_p = value;
  }
  void read_temperature(const std::string& text) {
    const double value = number_of_flag("--temperature", text);
    if (!(value >= 0.001 && value <= 1000)) {
      throw usage_error(fmt::format("`--temperature` must be in [0.001, 1000], and is {}", text));
    }
    options_.search.temperature = value;
    draw_given_ = "--temperature";
  }
  // What is given of a way to write captions that was not chosen would be ignored.
  void check_search() {
    inference::SearchOptions& search = options_.search;
    if (seed_) draw_given_ = "--seed", search.seed = static_cast<uint64_t>(*seed_);
    options_.cache = !no_cache_;
    if (search.top_p && search.beams > 1) {
      throw usage_error("`--beams` searches and `--top-p` draws", {}, "give one of them");
    }
    if (!draw_given_.empty() && !search.top_p) {
      throw usage_error(fmt::format("`{}` is of draws, and nothing is drawn", draw_given_), {}, "add --top-p 0.9");
    }
    if (penalty_given_ && search.beams == 1) {
      throw usage_error("`--length-penalty` is of a beam search, and there is none", {}, "add --beams 4");
    }
  }

  void show(const inference::ImageCaptions& one) const {
    if (!one.error.empty()) {
      log_error(fmt::format("cannot read `{}`: {}", one_line(one.path), one_line(one.error)));
      if (json_) print_json(nlohmann::ordered_json{{"path", one.path}, {"error", one.error}});
      return;
    }
    if (json_) return print_json(as_json(one));
    print(fmt::format("{}   {}", one_line(one.path), one_line(one.captions[0].text)));
  }
  static nlohmann::ordered_json as_json(const inference::ImageCaptions& one) {
    nlohmann::ordered_json json;
    json["path"] = one.path;
    json["captions"] = nlohmann::ordered_json::array();
    for (const inference::WrittenCaption& caption : one.captions) {
      json["captions"].push_back({{"text", caption.text}, {"tokens", caption.tokens.ids}, {"score", caption.tokens.score}});
    }
    return json;
  }
  static std::string as_text(const inference::CaptionSpeed& speed) {
    return fmt::format("{} captions, {} tokens in {:.2f} s: {:.1f} images/s, {:.1f} tokens/s", human_count(speed.images),
                       human_count(speed.tokens), speed.seconds, static_cast<double>(speed.images) / speed.seconds,
                       static_cast<double>(speed.tokens) / speed.seconds);
  }

  std::string from_, weights_ = "raw", pp_, draw_given_;
  inference::CaptionOptions options_;
  std::optional<int64_t> seed_;
  bool json_ = false, no_cache_ = false, speed_ = false, penalty_given_ = false;
};

}  // namespace

const CommandEntry kCaption = command_entry<Caption>("caption");

}  // namespace tessera::cli
