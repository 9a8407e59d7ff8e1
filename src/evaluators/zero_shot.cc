#include "evaluators/zero_shot.h"

#include <fmt/format.h>

#include "evaluators/image_text_evaluator.h"
#include "metrics/retrieval.h"
#include "objectives/captioning.h"

namespace tessera::evaluators {
namespace {

constexpr std::string_view kName = "{}";
// Set 1 are the prompts of the first class, of the second, …
constexpr size_t kPrompts = 1;

std::string with_name(std::string prompt, const std::string& name) {
  prompt.replace(prompt.find(kName), kName.size(), name);
  return prompt;
}

std::vector<std::string> read_prompts(const ZeroShotOptions& options, const config::Section& section) {
  std::vector<std::string> prompts = {std::string(kName)};
  if (!options.prompts.empty()) prompts = objectives::read_lines(options.prompts);
  if (prompts.empty()) section.fail("prompts", fmt::format("is `{}`, which is empty", options.prompts));
  for (std::string& prompt : prompts) {
    if (prompt.find(kName) == std::string::npos) {
      section.fail("prompts", fmt::format("has \"{}\", without a place for the name of the class", prompt), "write {} there");
    }
    if (options.canonicalize) prompt = canonical_text(prompt);
  }
  return prompts;
}

std::vector<std::string> read_names(const ZeroShotOptions& options, const config::Section& section,
                                    const EvaluatorData& available) {
  std::vector<std::string> names =
      options.class_names.empty() ? available.class_names : objectives::read_lines(options.class_names);
  if (available.class_names.empty()) section.fail("data", "has no labels, which zero_shot needs");
  if (names.size() != available.class_names.size()) {
    section.fail("class_names",
                 fmt::format("gives {} names, and the data has {} classes", names.size(), available.class_names.size()),
                 "one line for each class, in the order of the classes");
  }
  for (std::string& name : names) {
    if (options.canonicalize) name = canonical_text(name);
  }
  return names;
}

// Of every class its prompts, class after class.
std::vector<int32_t> encoded_prompts(const ZeroShotOptions& options, const config::Section& section,
                                     const EvaluatorData& available) {
  const std::vector<std::string> prompts = read_prompts(options, section);
  std::vector<int32_t> ids;
  for (const std::string& name : read_names(options, section, available)) {
    for (const std::string& prompt : prompts) {
      const std::vector<int32_t> row = available.encode(with_name(prompt, name));
      ids.insert(ids.end(), row.begin(), row.end());
    }
  }
  return ids;
}

class ZeroShot final : public ImageTextEvaluator {
 public:
  ZeroShot(const ZeroShotOptions& options, const config::Section& section, const EvaluatorData& available)
      : ImageTextEvaluator(section, available),
        prompt_inputs_{false, {text()}, false},
        classes_(available.inputs.classes),
        prompts_(encoded_prompts(options, section, available)) {}

  std::vector<ScoreKind> score_kinds() const override { return {{"prec@1", true}}; }
  std::span<const int32_t> texts() const override { return prompts_; }
  const objectives::Inputs& inputs(size_t set) const override { return set == kPrompts ? prompt_inputs_ : image_inputs_; }
  bool reads_one_label() const override { return true; }
  std::vector<Column> columns(size_t) const override { return {{"embedding", 0}}; }
  ir::Values rows(size_t set, const models::Model& model, const nn::Scope& scope,
                  const objectives::Batch& batch) const override {
    const models::ImageText& both = towers(model);
    return {set == kPrompts ? both.embed_texts(scope, batch.tokens[0]) : both.embed_images(scope, batch.images)};
  }

  Outcome outcome(std::vector<Rows> sets) const override {
    const Rows &images = sets[0], &prompts = sets[kPrompts];
    const int64_t each = prompts.size() / classes_;
    std::vector<int32_t> class_of_text;
    for (int64_t i = 0; i < prompts.size(); ++i) class_of_text.push_back(static_cast<int32_t>(i / each));
    const metrics::Features classes = metrics::class_embeddings(prompts.features, class_of_text, classes_);
    const std::vector<int32_t> predicted = metrics::nearest_classes(images.features, classes);
    return {{metrics::share_equal(predicted, images.labels)},
            {{"predicted", 1, true}},
            {1, std::vector<float>(predicted.begin(), predicted.end())},
            {}};
  }

 private:
  objectives::Inputs image_inputs_, prompt_inputs_;
  int64_t classes_;
  std::vector<int32_t> prompts_;
};

}  // namespace

std::shared_ptr<const Evaluator> make_zero_shot(config::Section section, const EvaluatorData& available) {
  ZeroShotOptions options;
  section.bind_part(options);
  return std::make_shared<ZeroShot>(options, section, available);
}

std::string canonical_text(std::string_view text) {
  constexpr std::string_view kPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^`{|}~";
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, kName.size()) == kName) {
      out += kName;
      i += kName.size() - 1;
      continue;
    }
    const char c = text[i];
    const bool blank = c == '_' || c == ' ' || (c >= '\t' && c <= '\r');
    if (blank && !out.empty() && out.back() != ' ') out += ' ';
    if (!blank && kPunctuation.find(c) == std::string_view::npos) out += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

const EvaluatorKind kZeroShot = {"zero_shot", "prec@1: whether the label's prompts are the nearest to the image",
                                 make_zero_shot, config::keys_of<ZeroShotOptions>};

}  // namespace tessera::evaluators
