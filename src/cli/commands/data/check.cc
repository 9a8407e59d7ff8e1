// tessera data check: reads every file of a data set, and names those that cannot be read.
#include "data/tools/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "base/log.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "cli/commands/data/sections.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxOdd = 10;  // of odd sizes told in the text; --json has all

std::string range(int low, int high) { return low == high ? std::to_string(low) : fmt::format("{}-{}", low, high); }

std::vector<image::ImageFormat> formats_in(const data::CheckReport& report) {
  std::vector<image::ImageFormat> found;
  for (const image::ImageFormat format : image::kFileFormats) {
    if (report.count(format) > 0) found.push_back(format);
  }
  return found;
}

std::string text_line(const data::TextCount& texts) {
  std::string line = fmt::format("{}: {} texts", texts.field, human_count(texts.texts));
  if (texts.empty > 0) line += fmt::format(", {} empty", human_count(texts.empty));
  if (texts.longest >= 0)
    line += fmt::format(", the longest of {} bytes ({})", human_count(texts.longest), one_line(texts.longest_id));
  return line;
}

// Of a multi-label source.
std::string labels_line(const data::CheckReport& report) {
  int64_t labels = 0;
  for (const data::ClassCount& one : report.classes) labels += one.samples;
  std::string line = fmt::format("{} labels", human_count(labels));
  if (report.unlabelled > 0) line += fmt::format(", {} images without any", human_count(report.unlabelled));
  const auto fewest = std::ranges::min_element(report.classes, {}, &data::ClassCount::samples);
  if (fewest != report.classes.end())
    line += fmt::format(", fewest of `{}`: {}", one_line(fewest->name), human_count(fewest->samples));
  return line;
}

// "cat 12, dog 30"; of many classes the smallest and the largest. Each image has one.
std::string classes_line(const std::vector<data::ClassCount>& classes) {
  constexpr size_t kFew = 12;
  const auto shown = [](const data::ClassCount& one) {
    return fmt::format("{} {}", one_line(one.name), human_count(one.samples));
  };
  if (classes.size() > kFew) {
    const auto [least, most] = std::ranges::minmax_element(classes, {}, &data::ClassCount::samples);
    return fmt::format("files of a class: fewest {}, most {}", shown(*least), shown(*most));
  }
  std::vector<std::string> all;
  for (const data::ClassCount& one : classes) all.push_back(shown(one));
  return "files of a class: " + join(all, ", ");
}

// `split`: which part of a recipe it is; empty where that need not be said.
std::string as_text(const data::Source& source, const std::string& split, const data::CheckReport& report) {
  const auto count = [](size_t n) { return human_count(static_cast<int64_t>(n)); };
  std::string text =
      fmt::format("{}{}   {} classes, {} files, {}", source.name(), split.empty() ? "" : fmt::format(" [{}]", split),
                  report.classes.size(), human_count(report.samples), human_bytes(static_cast<double>(report.file_bytes)));
  for (const image::ImageFormat format : formats_in(report)) {
    text += fmt::format(", {} {}", human_count(report.count(format)), image::format_name(format));
  }
  if (report.max_width > 0) {
    text += fmt::format("   {} x {} pixels", range(report.min_width, report.max_width),
                        range(report.min_height, report.max_height));
  }
  const bool good = report.unreadable.empty() && report.damaged_shards.empty();
  text += good ? "   ok" : fmt::format("   {} unreadable", count(report.unreadable.size()));
  for (const data::UnreadableFile& file : report.unreadable)
    text += fmt::format("\n  {}/{}: {}", source.name(), one_line(file.id), one_line(file.reason));
  for (const data::DamagedShard& shard : report.damaged_shards)
    text += fmt::format("\n  the shard {} is damaged: {}", one_line(shard.path), one_line(shard.reason));
  if (report.repairs != image::RepairCounts()) text += fmt::format("\n  decoded: {}", report.repairs.text());
  if (source.multi_label()) text += "\n  " + labels_line(report);
  if (!source.multi_label() && !report.classes.empty()) text += "\n  " + classes_line(report.classes);
  if (report.misnamed > 0) text += fmt::format("\n  {} named for another image format", human_count(report.misnamed));
  if (report.with_orientation > 0) {
    text +=
        fmt::format("\n  {} with an EXIF orientation, which decode(exif=apply) follows", human_count(report.with_orientation));
  }
  for (const data::DuplicateFiles& same : report.duplicates) {
    const char* what = source.multi_label() ? "the same picture with other labels" : "the same picture in several classes";
    if (same.labels_differ) text += fmt::format("\n  {}: {}", what, one_line(join(same.ids, ", ")));
  }
  if (!report.duplicates.empty())
    text += report.duplicates.size() == 1
                ? "\n  1 picture is there more than once"
                : fmt::format("\n  {} pictures are there more than once", count(report.duplicates.size()));
  for (const data::TextCount& texts : report.texts) text += fmt::format("\n  {}", text_line(texts));
  if (report.cut_texts > 0) {
    text += fmt::format("\n  {} texts have more ids than `tokenize` keeps, and are cut", human_count(report.cut_texts));
  }
  if (!report.odd_sizes.empty()) {
    text +=
        fmt::format("\n  {} picture{} of odd sizes:", count(report.odd_sizes.size()), report.odd_sizes.size() == 1 ? "" : "s");
  }
  for (const data::OddSize& odd : std::span(report.odd_sizes).first(std::min(report.odd_sizes.size(), kMaxOdd)))
    text += fmt::format("\n    {}: {} x {}, {}", one_line(odd.id), odd.width, odd.height, odd.reason);
  return text;
}

Json as_json(const NamedSource& input, const data::CheckReport& report) {
  const data::Source& source = *input.source;
  Json json;
  json["source"] = source.name();
  json["split"] = input.split;
  json["call"] = input.call;
  json["files"] = report.samples;
  json["bytes"] = report.file_bytes;
  json["classes"] = Json::array();
  for (const data::ClassCount& one : report.classes) {
    json["classes"].push_back({{"name", one.name}, {"files", one.samples}, {"unreadable", one.unreadable}});
  }
  json["formats"] = Json::object();
  if (source.multi_label()) json["unlabelled"] = report.unlabelled;
  for (const image::ImageFormat format : formats_in(report)) json["formats"][image::format_name(format)] = report.count(format);
  json["repairs"] = Json::object();
  for (size_t i = 0; i < image::kRepairs; ++i) {
    const auto repair = static_cast<image::Repair>(i);
    if (report.repairs.of(repair) > 0) json["repairs"][image::repair_name(repair)] = report.repairs.of(repair);
  }
  json["misnamed"] = report.misnamed;
  json["with_orientation"] = report.with_orientation;
  json["width"] = {report.min_width, report.max_width};
  json["height"] = {report.min_height, report.max_height};
  json["unreadable"] = Json::array();
  for (const data::UnreadableFile& file : report.unreadable) {
    json["unreadable"].push_back({{"path", source.name() + "/" + file.id}, {"reason", file.reason}});
  }
  json["damaged_shards"] = Json::array();
  for (const data::DamagedShard& shard : report.damaged_shards) {
    json["damaged_shards"].push_back({{"path", shard.path}, {"reason", shard.reason}});
  }
  json["duplicates"] = Json::array();
  for (const data::DuplicateFiles& same : report.duplicates) {
    json["duplicates"].push_back({{"paths", same.ids}, {"labels_differ", same.labels_differ}});
  }
  json["odd_sizes"] = Json::array();
  for (const data::OddSize& odd : report.odd_sizes)
    json["odd_sizes"].push_back({{"path", odd.id}, {"width", odd.width}, {"height", odd.height}, {"reason", odd.reason}});
  json["texts"] = Json::array();
  for (const data::TextCount& texts : report.texts) {
    json["texts"].push_back({{"field", texts.field},
                             {"texts", texts.texts},
                             {"empty", texts.empty},
                             {"longest", texts.longest},
                             {"longest_path", texts.longest_id}});
  }
  json["cut_texts"] = report.cut_texts;
  return json;
}

data::CheckReport check(const NamedSource& one) {
  const data::Source& source = *one.source;
  const auto progress = [&](int64_t done, int64_t total) {
    log_status(fmt::format("{}: {} of {} files", source.name(), human_count(done), human_count(total)));
    return true;
  };
  data::CheckReport report = data::check_source(source, progress, static_cast<int>(one.threads), one.pp.get(), one.limits);
  log_status("");
  return report;
}

// The files of training by the hashes of their bytes, and what of them an evaluator has too.
class FilesOfTraining {
 public:
  // The names of an evaluator's files that training has too. None where the evaluator has training's own source: that is named on
  // purpose, or divided by data.fold. To be called for training before evaluators.
  std::vector<std::string> take(const NamedSource& one, const data::CheckReport& report) {
    std::vector<std::string> shared;
    const bool training = one.key == "data" || one.key.starts_with("data.mix.");
    const bool scored = one.key.ends_with(".data") && !calls_.contains(one.call);
    if (training) calls_.insert(one.call);
    for (size_t i = 0; i < report.hashes.size() && (training || scored); ++i) {
      const std::pair hash(report.hashes[i].high, report.hashes[i].low);
      if (hash == kUnread) continue;
      if (training) {
        hashes_.push_back(hash);
      } else if (std::ranges::binary_search(hashes_, hash)) {
        shared.push_back(one.source->id(static_cast<int64_t>(i)));
      }
    }
    if (training) std::ranges::sort(hashes_);
    return shared;
  }

 private:
  static constexpr std::pair<uint64_t, uint64_t> kUnread{0, 0};
  std::set<std::string> calls_;
  std::vector<std::pair<uint64_t, uint64_t>> hashes_;  // sorted: 16 bytes an image
};

// "3 pictures are in training too: a.png, b.png, …"
std::string shared_line(const std::vector<std::string>& shared) {
  constexpr size_t kShown = 3;
  const std::vector<std::string> first(shared.begin(),
                                       shared.begin() + static_cast<ptrdiff_t>(std::min(shared.size(), kShown)));
  return fmt::format("{} {} in training too: {}{}", human_count(static_cast<int64_t>(shared.size())),
                     shared.size() == 1 ? "picture is" : "pictures are", one_line(join(first, ", ")),
                     shared.size() > kShown ? ", …" : "");
}

class DataCheck final : public Command {
 public:
  Page page() const override {
    return {"data check",
            "RECIPE|FOLDER|SOURCE [key=value …]",
            "read every image of a data set, and name those that can't be read",
            {{"tessera data check data/digits/train", "a folder with one sub-folder a class"},
             {"tessera data check recipes/digits.toml --json", "all data of a recipe; one JSON object"},
             {"tessera data check \"wds(train-{000..127}.tar)\"", "a source, as data.source names it"}},
            "Shards that `data convert` wrote are compared with the SHA-256 in their manifest.json.\n"
            "Exit code 3 when a file can't be read, or a shard is damaged."};
  }
  void declare(Flags& flags) override { flags.add("--json", &json_, "one JSON object"); }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions&) override {
    Json json;
    json["sources"] = Json::array();
    bool good = true;
    FilesOfTraining training;
    const std::vector<NamedSource> sources = open_sources(words, "data check");
    const auto is_alone = [&](const NamedSource& one) {
      return std::ranges::count(sources, one.source->name(), [](const NamedSource& other) { return other.source->name(); }) ==
             1;
    };
    for (const NamedSource& one : sources) {
      if (one.source->fill_pixels(0, {})) {
        log_note(fmt::format("`{}` makes its images up: there is nothing to check", one.call));
        continue;
      }
      const data::CheckReport report = check(one);
      good = good && report.unreadable.empty() && report.damaged_shards.empty();
      const std::vector<std::string> shared = training.take(one, report);
      if (json_) {
        json["sources"].push_back(as_json(one, report));
        json["sources"].back()["in_training"] = shared;
      } else {
        const std::string text = as_text(*one.source, is_alone(one) ? "" : one.split, report);
        print(shared.empty() ? text : fmt::format("{}\n  {}", text, shared_line(shared)));
      }
    }
    if (json_) print_json(json);
    return good ? Exit::kDone : Exit::kData;
  }

 private:
  bool json_ = false;
};

}  // namespace

const CommandEntry kDataCheck = command_entry<DataCheck>("data check");

}  // namespace tessera::cli
