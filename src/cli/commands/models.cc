// tessera models: the named models, with their parameters and arithmetic.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text/pattern.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "models/model.h"

namespace tessera::cli {
namespace {

struct Row {
  std::string name;
  models::InputShape input;
  models::ModelCost cost;
};

std::string table(const std::string& title, const std::vector<Row>& rows) {
  size_t width = 0;
  for (const Row& row : rows) width = std::max(width, row.name.size());
  std::string text = title + "\n";
  for (const Row& row : rows) {
    text += fmt::format("  {:<{}}  {:>4} px  {:>13} parameters  {:>8.2f} GFLOP\n", row.name, width, row.input.width,
                        human_count(row.cost.parameters), row.cost.flops / 1e9);
  }
  return text;
}

// One object a model, a line each.
std::string json_lines(const models::Family& family, const std::vector<Row>& rows) {
  std::string text;
  for (const Row& row : rows) {
    nlohmann::ordered_json json{{"name", family.name}, {"variant", row.name}, {"image_size", row.input.width}};
    if (row.input.tokens > 0) json["tokens"] = row.input.tokens, json["vocabulary"] = row.input.vocabulary;
    json["parameters"] = row.cost.parameters;
    json["flops"] = row.cost.flops;
    text += json.dump() + "\n";
  }
  return text;
}

class Models final : public Command {
 public:
  Page page() const override {
    return {
        "models",
        "[PATTERN]",
        "named models with their parameters and arithmetic",
        {{"tessera models", "all of them"},
         {"tessera models convnext", "one family"},
         {"tessera models 'resnet50.*'", "those whose name the pattern matches"},
         {"tessera models --json", "one JSON object a line"}},
        "In a recipe: model = { name = \"convnext\", variant = \"convnext_tiny\" }; tessera help model lists what else can be "
        "set.\nGFLOP: 10^9 operations of products and convolutions, two for each multiply-add, forward, for one image of that "
        "size;\nwith 1000 classes."};
  }
  void declare(Flags& flags) override { flags.add("--json", &json_, "one JSON object a model"); }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions&) override {
    reject_extra(words, 1, "models");
    const Pattern pattern(words.empty() ? ".*" : words[0], "tessera models");
    std::string text;
    std::vector<std::string> known;
    for (const models::Family* family : models::families()) {
      const bool whole = pattern.matches(family->name);
      std::vector<Row> rows;
      for (const models::NamedVariant& variant : models::named_variants(*family)) {
        known.push_back(variant.name);
        if (!whole && !pattern.matches(variant.name)) continue;
        const auto model = variant.make();
        rows.push_back({variant.name, model->input(), models::cost(*model)});
      }
      known.push_back(family->name);
      if (rows.empty()) continue;
      if (!text.empty() && !json_) text += '\n';
      text += json_ ? json_lines(*family, rows) : table(fmt::format("{}: {}", family->name, family->title), rows);
    }
    if (text.empty()) {
      const bool begins = std::ranges::any_of(known, [&](const std::string& name) { return name.starts_with(words[0]); });
      throw usage_error(
          fmt::format("no model's name matches `{}`", words[0]), {},
          begins ? fmt::format("tessera models '{}.*' lists those that begin so", words[0]) : suggest_name(words[0], known));
    }
    text.pop_back();
    json_ ? print_json_text(text) : print(text);
    return Exit::kDone;
  }

 private:
  bool json_ = false;
};

}  // namespace

const CommandEntry kModels = command_entry<Models>("models");

}  // namespace tessera::cli
