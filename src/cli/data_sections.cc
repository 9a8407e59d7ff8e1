#include "cli/data_sections.h"

#include "base/error.h"

namespace tessera::cli {
namespace {

DataSection open_section(const std::string& key, config::Section section, data::PpUse use,
                         const train::DataOptions& defaults = {}) {
  DataSection out;
  out.key = key;
  out.options = defaults;
  section.bind_part(out.options);
  if (out.options.source.empty()) section.fail_missing("source", "for example source = \"folder(data/digits/train)\"");
  out.source = data::make_source(out.options.source, section.place("source"));
  if (!out.options.pp.empty()) out.pp = std::make_shared<data::Pp>(out.options.pp, use, section.place("pp"));
  return out;
}

// data.mix.NAME, or `data` itself.
void open_training(config::Section section, std::vector<DataSection>& out) {
  if (!section.has("mix")) {
    out.push_back(open_section("data", section, data::PpUse::kTrain));
    return;
  }
  train::DataOptions common;
  section.bind_part(common);
  config::Section mix = section.section("mix");
  for (const std::string& name : mix.keys()) {
    out.push_back(open_section("data.mix." + name, mix.section(name), data::PpUse::kTrain, common));
  }
}

}  // namespace

std::vector<DataSection> open_data_sections(config::Section recipe) {
  std::vector<DataSection> sections;
  if (recipe.has("data")) open_training(recipe.section("data"), sections);
  config::Section evals = recipe.section("eval");
  for (const std::string& name : evals.keys()) {
    config::Section section = evals.section(name);
    if (section.has("data")) {
      sections.push_back(open_section("eval." + name + ".data", section.section("data"), data::PpUse::kEval));
    }
  }
  if (sections.empty()) throw usage_error("the recipe has no `data`", recipe.where(), "data = { source = \"folder(…)\", … }");
  return sections;
}

}  // namespace tessera::cli
