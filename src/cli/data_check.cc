// tessera data check: reads every file of a data set, and names those that cannot be read.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/parallel.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/data_sections.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::ordered_json;

struct CheckReport {
  std::string name;  // of the source
  int64_t classes = 0, files = 0;
  std::map<std::string, int64_t> formats;
  int min_width = 0, max_width = 0, min_height = 0, max_height = 0;
  std::vector<data::SkippedFile> unreadable;
};

struct FileFacts {
  data::ImageInfo info;
  std::string reason;
};

class Checker {
 public:
  Checker(const data::Source& source, int64_t threads) : source_(source), workers_(thread_count(threads, source.size())) {}

  CheckReport run() {
    CheckReport report{source_.name(), static_cast<int64_t>(source_.class_names().size()), source_.size(), {}};
    // Facts are kept for a part at a time, so that memory does not grow with the data set.
    constexpr int64_t kPart = 1024;
    for (int64_t begin = 0; begin < source_.size(); begin += kPart) {
      std::vector<FileFacts> facts(static_cast<size_t>(std::min(kPart, source_.size() - begin)));
      parallel_for(static_cast<int64_t>(facts.size()), static_cast<int>(workers_.size()), [&](int64_t i, int thread) {
        facts[static_cast<size_t>(i)] = look(begin + i, workers_[static_cast<size_t>(thread)]);
      });
      for (size_t i = 0; i < facts.size(); ++i) account(report, begin + static_cast<int64_t>(i), facts[i]);
      log_status(fmt::format("{}: {} of {} files", source_.name(), human_count(std::min(begin + kPart, source_.size())),
                             human_count(source_.size())));
    }
    log_status("");
    return report;
  }

 private:
  struct Worker {
    data::Decoder decoder;
    data::Buffer file;
    data::Image image;
  };

  FileFacts look(int64_t index, Worker& worker) const {
    if (const auto failed = source_.read(index, worker.file)) return {{}, *failed};
    FileFacts facts;
    data::DecodeResult failed = worker.decoder.probe(worker.file.view(), facts.info);
    if (!failed) failed = worker.decoder.decode(worker.file.view(), worker.image);
    if (failed) facts.reason = failed->reason.empty() ? "unreadable" : failed->reason;
    return facts;
  }

  void account(CheckReport& report, int64_t index, const FileFacts& facts) const {
    if (!facts.reason.empty()) {
      report.unreadable.push_back({index, source_.id(index), facts.reason});
      return;
    }
    const data::ImageInfo& info = facts.info;
    const bool first = report.formats.empty();
    ++report.formats[data::format_name(info.format)];
    report.min_width = first ? info.width : std::min(report.min_width, info.width);
    report.max_width = std::max(report.max_width, info.width);
    report.min_height = first ? info.height : std::min(report.min_height, info.height);
    report.max_height = std::max(report.max_height, info.height);
  }

  const data::Source& source_;
  std::vector<Worker> workers_;
};

std::string range(int low, int high) { return low == high ? std::to_string(low) : fmt::format("{}-{}", low, high); }

std::string as_text(const CheckReport& report) {
  std::string text = fmt::format("{}   {} classes, {} files", report.name, report.classes, human_count(report.files));
  for (const auto& [format, count] : report.formats) text += fmt::format(", {} {}", human_count(count), format);
  if (!report.formats.empty()) {
    text += fmt::format("   {} x {} pixels", range(report.min_width, report.max_width), range(report.min_height, report.max_height));
  }
  text += report.unreadable.empty() ? "   ok" : fmt::format("   {} unreadable", human_count(static_cast<int64_t>(report.unreadable.size())));
  for (const data::SkippedFile& file : report.unreadable) text += fmt::format("\n  {}/{}: {}", report.name, file.id, file.reason);
  return text;
}

Json as_json(const CheckReport& report) {
  Json json;
  json["source"] = report.name;
  json["classes"] = report.classes;
  json["files"] = report.files;
  json["formats"] = report.formats;
  if (!report.formats.empty()) {
    json["width"] = {report.min_width, report.max_width};
    json["height"] = {report.min_height, report.max_height};
  }
  json["unreadable"] = Json::array();
  for (const data::SkippedFile& file : report.unreadable) {
    json["unreadable"].push_back({{"path", report.name + "/" + file.id}, {"reason", file.reason}});
  }
  return json;
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
      const CheckReport report = Checker(*source, threads).run();
      good = good && report.unreadable.empty();
      if (json_) {
        json["sources"].push_back(as_json(report));
      } else {
        print(as_text(report));
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
