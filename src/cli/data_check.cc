// tessera data check: reads every file of a data set, and names those that cannot be read.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/data_sections.h"
#include "data/check.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string range(int low, int high) { return low == high ? std::to_string(low) : fmt::format("{}-{}", low, high); }

std::vector<data::ImageFormat> formats_in(const data::CheckReport& report) {
  std::vector<data::ImageFormat> found;
  for (const auto format : {data::ImageFormat::kJpeg, data::ImageFormat::kPng, data::ImageFormat::kWebp}) {
    if (report.count(format) > 0) found.push_back(format);
  }
  return found;
}

std::string as_text(const data::Source& source, const data::CheckReport& report) {
  const auto count = [](size_t n) { return human_count(static_cast<int64_t>(n)); };
  std::string text = fmt::format("{}   {} classes, {} files, {}", source.name(), report.classes.size(),
                                 human_count(report.samples), human_bytes(static_cast<double>(report.file_bytes)));
  for (const data::ImageFormat format : formats_in(report)) {
    text += fmt::format(", {} {}", human_count(report.count(format)), data::format_name(format));
  }
  if (report.max_width > 0) {
    text += fmt::format("   {} x {} pixels", range(report.min_width, report.max_width),
                        range(report.min_height, report.max_height));
  }
  text += report.unreadable.empty() ? "   ok" : fmt::format("   {} unreadable", count(report.unreadable.size()));
  for (const data::UnreadableFile& file : report.unreadable)
    text += fmt::format("\n  {}/{}: {}", source.name(), file.id, file.reason);
  for (const data::DuplicateFiles& same : report.duplicates) {
    if (same.labels_differ) text += fmt::format("\n  the same picture in several classes: {}", join(same.ids, ", "));
  }
  if (!report.duplicates.empty())
    text += fmt::format("\n  {} pictures are there more than once", count(report.duplicates.size()));
  return text;
}

Json as_json(const data::Source& source, const data::CheckReport& report) {
  Json json;
  json["source"] = source.name();
  json["files"] = report.samples;
  json["bytes"] = report.file_bytes;
  json["classes"] = Json::array();
  for (const data::ClassCount& one : report.classes) {
    json["classes"].push_back({{"name", one.name}, {"files", one.samples}, {"unreadable", one.unreadable}});
  }
  json["formats"] = Json::object();
  for (const data::ImageFormat format : formats_in(report)) json["formats"][data::format_name(format)] = report.count(format);
  json["width"] = {report.min_width, report.max_width};
  json["height"] = {report.min_height, report.max_height};
  json["unreadable"] = Json::array();
  for (const data::UnreadableFile& file : report.unreadable) {
    json["unreadable"].push_back({{"path", source.name() + "/" + file.id}, {"reason", file.reason}});
  }
  json["duplicates"] = Json::array();
  for (const data::DuplicateFiles& same : report.duplicates) {
    json["duplicates"].push_back({{"paths", same.ids}, {"labels_differ", same.labels_differ}});
  }
  return json;
}

data::CheckReport check(const data::Source& source, int64_t threads) {
  const auto progress = [&](int64_t done, int64_t total) {
    log_status(fmt::format("{}: {} of {} files", source.name(), human_count(done), human_count(total)));
    return true;
  };
  data::CheckReport report = data::check_source(source, progress, static_cast<int>(threads));
  log_status("");
  return report;
}

class DataCheck final : public Command {
 public:
  Page page() const override {
    return {"data check",
            "RECIPE|FOLDER [key=value …]",
            "read every image of a data set, and name those that can't be read",
            {{"tessera data check data/digits/train", "a folder with one sub-folder a class"},
             {"tessera data check recipes/digits.toml --json", "all data of a recipe; one JSON object"}},
            "Exit code 3 when a file can't be read."};
  }
  void declare(Flags& flags) override { flags.add("--json", &json_, "one JSON object"); }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions&) override {
    Json json;
    json["sources"] = Json::array();
    bool good = true;
    for (const auto& [source, threads] : sources(words)) {
      const data::CheckReport report = check(*source, threads);
      good = good && report.unreadable.empty();
      if (json_) {
        json["sources"].push_back(as_json(*source, report));
      } else {
        print(as_text(*source, report));
      }
    }
    if (json_) print(json.dump(-1, ' ', false, Json::error_handler_t::replace));
    return good ? Exit::kDone : Exit::kData;
  }

 private:
  struct Input {
    std::shared_ptr<const data::Source> source;
    int64_t threads = 0;
  };

  static std::vector<Input> sources(const std::vector<std::string>& words) {
    const RecipeWords recipe = recipe_words(words, "data check");
    std::error_code ignored;
    if (std::filesystem::is_directory(recipe.path, ignored)) return {{data::open_folder(recipe.path, recipe.path), 0}};
    std::vector<Input> inputs;
    for (const DataSection& section : open_data_sections(load_recipe(recipe))) {
      inputs.push_back({section.source, section.options.threads});
    }
    return inputs;
  }

  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_data_check() { return std::make_unique<DataCheck>(); }

}  // namespace tessera::cli
