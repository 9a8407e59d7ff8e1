// tessera data index: lists and scans a data set once, so that runs start at once.
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "cli/commands/data/sections.h"
#include "data/index/folder_objects.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::ordered_json;

const char* origin_name(data::IndexOrigin origin) {
  switch (origin) {
    case data::IndexOrigin::kBuilt: return "built";
    case data::IndexOrigin::kSidecar: return "up to date";
    case data::IndexOrigin::kNone: break;
  }
  return "not needed";
}

std::string as_text(const NamedSource& one) {
  const data::SourceFacts facts = one.source->facts();
  std::string text = fmt::format("{}   {} samples, {} classes", one.source->name(), human_count(one.source->size()),
                                 human_count(static_cast<int64_t>(one.source->class_names().size())));
  if (facts.shards > 0) text += fmt::format(", {} shards", human_count(facts.shards));
  if (facts.bytes > 0) text += fmt::format(", an epoch reads {}", human_bytes(static_cast<double>(facts.bytes)));
  return text + fmt::format("   index {}", origin_name(facts.index));
}

Json as_json(const NamedSource& one) {
  const data::SourceFacts facts = one.source->facts();
  return {{"source", one.source->name()},
          {"call", one.call},
          {"samples", one.source->size()},
          {"classes", one.source->class_names().size()},
          {"shards", facts.shards},
          {"bytes", facts.bytes},
          {"index", origin_name(facts.index)},
          {"file", facts.sidecar}};
}

class DataIndex final : public Command {
 public:
  Page page() const override {
    return {"data index",
            "RECIPE|FOLDER|SOURCE [key=value …]",
            "list and scan a data set once, so that runs start at once",
            {{"tessera data index recipes/digits.toml", "all data of a recipe"},
             {"tessera data index \"tfrecord(/data/imagenet/train-*)\" --json", "a source; one JSON object"}},
            "The index is kept in the folder index of --cache-dir, and made again when files change. That of a folder in a "
            "bucket is kept\n"
            "beside the data, and made again by this command alone."};
  }
  void declare(Flags& flags) override { flags.add("--json", &json_, "one JSON object"); }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions&) override {
    const auto start = std::chrono::steady_clock::now();
    data::list_folders_anew();
    Json json;
    json["sources"] = Json::array();
    for (const NamedSource& one : open_sources(words, "data index")) {
      if (json_) {
        json["sources"].push_back(as_json(one));
      } else {
        print(as_text(one));
      }
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (json_) print_json(json);
    log_note(fmt::format("opened in {}", human_duration(seconds)));
    return Exit::kDone;
  }

 private:
  bool json_ = false;
};

}  // namespace

const CommandEntry kDataIndex = command_entry<DataIndex>("data index");

}  // namespace tessera::cli
