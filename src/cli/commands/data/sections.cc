#include "cli/commands/data/sections.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "store/url.h"

namespace tessera::cli {
namespace {

DataSection open_section(const std::string& key, config::Section section, data::PpUse use,
                         const recipe::DataOptions& defaults = {}) {
  DataSection out;
  out.key = key;
  out.options = defaults;
  section.bind_part(out.options);
  out.limits = data::read_limits(section.section("limits"), out.options.limits);
  if (out.options.source.empty()) section.fail_missing("source", "for example source = \"folder(data/digits/train)\"");
  out.source = data::make_source(out.options.source, section.place("source"));
  if (out.options.pp.empty()) return out;
  out.pp = std::make_shared<data::Pp>(out.options.pp, use, section.place("pp"));
  data::find_texts(*out.pp, *out.source, section.place("pp"));
  return out;
}

// data.mix.NAME, or `data` itself.
void open_training(config::Section section, std::vector<DataSection>& out) {
  if (!section.has("mix")) {
    out.push_back(open_section("data", section, data::PpUse::kTrain));
    return;
  }
  recipe::DataOptions common;
  section.bind_part(common);
  config::Section mix = section.section("mix");
  for (const std::string& name : mix.keys()) {
    out.push_back(open_section("data.mix." + name, mix.section(name), data::PpUse::kTrain, common));
  }
}

// "data" -> "train"; of data.mix.NAME and eval.NAME.data NAME; of eval.NAME.train NAME_train.
std::string split_name(const std::string& key) {
  const std::vector<std::string> parts = split(key, '.');
  if (parts.size() < 3) return "train";
  if (parts[0] != "eval") return parts[2];
  return parts[2] == "data" ? parts[1] : parts[1] + "_" + parts[2];
}

}  // namespace

std::vector<DataSection> open_data_sections(config::Section recipe) {
  std::vector<DataSection> sections;
  if (recipe.has("data")) open_training(recipe.section("data"), sections);
  config::Section evals = recipe.section("eval");
  for (const std::string& name : evals.keys()) {
    config::Section section = evals.section(name);
    for (const char* key : {"data", "train"}) {
      if (!section.has(key)) continue;
      sections.push_back(open_section(fmt::format("eval.{}.{}", name, key), section.section(key), data::PpUse::kEval));
    }
  }
  if (sections.empty()) throw usage_error("the recipe has no `data`", recipe.where(), "data = { source = \"folder(…)\", … }");
  return sections;
}

namespace {

// That a word which is no source and no folder is a recipe.
void expect_recipe(const std::string& path) {
  std::error_code ignored;
  if (store::is_remote(path)) return;
  store::refuse_url(path);
  for (const char* kind : {"csv", "jsonl", "parquet"}) {
    if (path.ends_with(std::string(".") + kind)) {
      throw usage_error(fmt::format("`{}` is a table, and a source names its columns", path), {},
                        fmt::format("\"{}({}, image=COLUMN, label=COLUMN)\"", kind, path));
    }
  }
  if (!path.ends_with(".toml") && !std::filesystem::exists(path, ignored))
    throw usage_error(fmt::format("`{}` is no folder, source or recipe", path), {},
                      "a folder with a sub-folder for each class, a source as \"wds(train-{000..127}.tar)\", or a .toml file");
}

}  // namespace

std::vector<NamedSource> open_sources(const std::vector<std::string>& words, std::string_view command) {
  std::error_code ignored;
  const bool call = words.size() == 1 && words[0].find('(') != std::string::npos && !std::filesystem::exists(words[0], ignored);
  if (call) return {{"train", words[0], data::make_source(words[0]), nullptr, 0}};
  const RecipeWords recipe = recipe_words(words, command);
  const bool of_server = store::is_remote(recipe.path) && !recipe.path.ends_with(".toml");
  if (of_server || std::filesystem::is_directory(recipe.path, ignored))
    return {{"train", fmt::format("folder({})", recipe.path), data::open_folder(recipe.path, recipe.path), nullptr, 0}};
  expect_recipe(recipe.path);
  std::vector<NamedSource> sources;
  for (const DataSection& section : open_data_sections(load_recipe(recipe))) {
    sources.push_back({split_name(section.key), section.options.source, section.source, section.pp, section.options.threads,
                       section.limits, section.key});
  }
  return sources;
}

}  // namespace tessera::cli
