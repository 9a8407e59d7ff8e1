// tessera data prepare: ImageNet and COCO out of the archives that they are published as.
#include "data/tools/prepare/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "data/loader/loader.h"
#include "store/local/disk_room.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr const char* kPrepareExample = "tessera data prepare imagenet imagenet --from downloads";
const std::vector<std::string> kSets = {"imagenet", "coco"};

std::string bytes_text(int64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

// How far it is, ten times a second at most, from any thread.
class Progress {
 public:
  Progress(std::string what, int64_t total) : what_(std::move(what)), total_(total) {}
  ~Progress() { log_status(""); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(int64_t bytes) {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    const auto now = static_cast<int64_t>(seconds * 1000);
    int64_t due = next_;
    if (now < due || !next_.compare_exchange_strong(due, now + 100)) return;
    const double rate = static_cast<double>(bytes) / std::max(seconds, 1e-3);
    const std::string left =
        seconds > 2 && rate > 0 ? fmt::format("  ETA {}", human_duration(static_cast<double>(total_ - bytes) / rate)) : "";
    log_status(fmt::format("{}  {} of {}  {}/s{}", what_, bytes_text(bytes), bytes_text(total_), human_bytes(rate), left));
  }

 private:
  const std::string what_;
  const int64_t total_;
  const Clock::time_point start_ = Clock::now();
  std::atomic<int64_t> next_ = 0;
};

void tell(const data::GivenArchive& archive) {
  log_line(fmt::format("{}   {}, {}", one_line(archive.path), archive.what, bytes_text(archive.bytes)));
  if (archive.published == nullptr || archive.published->bytes == archive.bytes) return;
  log_note(fmt::format("{} has {} bytes, and the published {} {}", one_line(archive.path), human_count(archive.bytes),
                       archive.published->name, human_count(archive.published->bytes)));
}

Json to_json(const data::Prepared& prepared) {
  Json json = {{"folders", Json::array()},
               {"problems", prepared.finding.problems},
               {"notes", prepared.finding.notes},
               {"sources", prepared.finding.sources}};
  for (const data::UnpackedFolder& folder : prepared.folders) {
    json["folders"].push_back({{"folder", folder.folder},
                               {"files", folder.files},
                               {"bytes", folder.bytes},
                               {"written", folder.written},
                               {"sub_folders", folder.counts.contains("") ? 0 : folder.counts.size()}});
  }
  return json;
}

class DataPrepare final : public Command {
 public:
  Page page() const override {
    return {
        "data prepare",
        "imagenet|coco DIR --from ARCHIVE …",
        "make ImageNet or COCO, out of the archives that they are published as, what sources read",
        {{kPrepareExample, "every archive of a folder; then source = \"folder(imagenet/train)\""},
         {"tessera data prepare imagenet imagenet --from ILSVRC2012_img_val.tar ILSVRC2012_devkit_t12.tar.gz",
          "validation images alone, below a folder for each class"},
         {"tessera data prepare coco coco --from train2017.zip val2017.zip annotations_trainval2017.zip",
          "images, and lists with captions and labels"},
         {"tessera data prepare imagenet imagenet --from downloads --dry-run",
          "what would be done, and the room that it needs"}},
        "ImageNet: ILSVRC2012_img_train.tar, ILSVRC2012_img_val.tar and ILSVRC2012_devkit_t12.tar.gz, with Kaggle's\n"
        "LOC_val_solution.csv in the devkit's place if you like; or Kaggle's zip alone. COCO: the zips of 2017 or 2014.\n"
        "Archives are known by what is in them, not by their names. A folder gets its name when all of it is there: the same\n"
        "command goes on after an interruption. Exit code 3 when the set is not what its lists say. docs/prepare.md"};
  }
  void declare(Flags& flags) override {
    flags.add(
        "--from", "ARCHIVE", [this](const std::string& path) { from_.push_back(path); },
        "an archive, or a folder with them; the words after it are more of them");
    flags.add("--dry-run", &dry_run_, "say what would be done, and write nothing");
    flags.add("--verify", &verify_, "compare every byte of what is there already with the archives");
    flags.add("--checksums", &checksums_, "first compare the archives' MD5 with those of the published ones");
    flags.add("--threads", "N", &threads_, {0, data::kMaxThreads}, "that unpack; 0: one for each core");
    flags.add("--json", &json_, "one JSON object");
  }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions&) override {
    const auto [set, dir, from] = read_words(words);
    const std::vector<std::string> paths = data::files_given(from);
    const data::PreparePlan plan = set == "imagenet" ? data::plan_imagenet(paths) : data::plan_coco(paths, dir);
    for (const data::GivenArchive& archive : plan.archives) tell(archive);
    if (dry_run_) return show_plan(plan, dir);
    int64_t total = 0;
    for (const data::UnpackPlan& folder : plan.folders) total += folder.bytes();
    Progress progress(dir, total);
    data::PrepareOptions options;
    options.checksums = checksums_;
    options.unpack.threads = static_cast<int>(threads_);
    options.unpack.verify = verify_;
    options.unpack.progress = [&](int64_t bytes) { progress.show(bytes); };
    return report(data::prepare(plan, dir, options), dir);
  }

 private:
  struct Words {
    std::string set, dir;
    std::vector<std::string> from;
  };

  Words read_words(const std::vector<std::string>& words) const {
    if (words.size() < 2) throw usage_error("`data prepare` takes a set and a directory", {}, kPrepareExample);
    Words out{words[0], words[1], from_};
    if (std::ranges::find(kSets, out.set) == kSets.end())
      throw usage_error(fmt::format("unknown set `{}`", out.set), {}, suggest_name(out.set, kSets));
    if (from_.empty()) require_flag("", "--from", kPrepareExample);
    if (const auto info = store::local_files().info(out.dir); info && !info->directory)
      throw usage_error(fmt::format("`{}` is a file", out.dir), {},
                        std::string("the directory comes first: ") + kPrepareExample);
    out.from.insert(out.from.end(), words.begin() + 2, words.end());
    return out;
  }

  Exit show_plan(const data::PreparePlan& plan, const std::string& dir) const {
    store::FileSystem& files = store::local_files();
    Json json = {{"folders", Json::array()}};
    std::string text;
    for (const data::UnpackPlan& folder : plan.folders) {
      const std::string path = store::join_path(dir, folder.folder);
      const bool there = files.info(path).has_value(), begun = files.info(path + ".partial").has_value();
      text += fmt::format("{}   {}{}\n", path, bytes_text(folder.bytes()),
                          there   ? ", there already"
                          : begun ? ", begun already"
                                  : "");
      json["folders"].push_back({{"folder", folder.folder}, {"bytes", folder.bytes()}, {"there", there}, {"begun", begun}});
    }
    const int64_t needed = data::bytes_to_write(plan.folders, dir, files);
    const auto room = store::free_bytes(dir);
    json["needed_bytes"] = needed;
    json["free_bytes"] = room ? Json(*room) : Json(nullptr);
    if (json_) {
      print_json(json);
    } else {
      print(text + fmt::format("needs about {}, and the disk has {} left", bytes_text(needed), room ? bytes_text(*room) : "?"));
    }
    return Exit::kDone;
  }

  Exit report(const data::Prepared& prepared, const std::string& dir) const {
    log_status("");
    for (const data::UnpackedFolder& folder : prepared.folders) {
      const bool classes = !folder.counts.contains("");
      log_line(fmt::format("{}   {} files{}, {}{}", store::join_path(dir, folder.folder), human_count(folder.files),
                           classes ? fmt::format(" of {} classes", human_count(std::ssize(folder.counts))) : "",
                           bytes_text(folder.bytes), folder.kept ? ", there before" : ""));
    }
    for (const std::string& note : prepared.finding.notes) log_note(note);
    for (const std::string& problem : prepared.finding.problems) log_warning(problem);
    if (json_) {
      print_json(to_json(prepared));
    } else {
      for (const std::string& source : prepared.finding.sources) print(fmt::format("source = \"{}\"", source));
    }
    return prepared.finding.problems.empty() ? Exit::kDone : Exit::kData;
  }

  std::vector<std::string> from_;
  int64_t threads_ = 0;
  bool dry_run_ = false, verify_ = false, checksums_ = false, json_ = false;
};

}  // namespace

const CommandEntry kDataPrepare = command_entry<DataPrepare>("data prepare");

}  // namespace tessera::cli
