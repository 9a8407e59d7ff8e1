// ImageNet's ILSVRC2012: training images in a tar of a thousand tars, validation images without labels, and the labels in the devkit
// or in Kaggle's LOC_val_solution.csv; or all of them in Kaggle's one zip.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "data/formats/bytes/bytes_file.h"
#include "data/formats/bytes/extent.h"
#include "data/formats/csv.h"
#include "data/formats/deflate.h"
#include "data/formats/mat.h"
#include "data/tools/prepare/prepare.h"

namespace tessera::data {
namespace {

// Sizes as the servers give them; MD5 as torchvision compares it (torchvision/datasets/imagenet.py).
const Published kTrainTar = {"ILSVRC2012_img_train.tar", 147897477120, "1d675b47d978889d74fa0da5fadfb00e"};
const Published kValTar = {"ILSVRC2012_img_val.tar", 6744924160, "29b22e2961454d5413ddabcf34fc5622"};
const Published kDevkitTar = {"ILSVRC2012_devkit_t12.tar.gz", 2568145, "fa75699e90414af021442c21a62c3abf"};

constexpr int64_t kTrainImages = 1281167, kValImages = 50000, kClasses = 1000;
constexpr size_t kMaxDevkit = size_t{256} << 20;
constexpr int64_t kMaxPackedDevkit = int64_t{64} << 20, kMaxLabels = int64_t{64} << 20;
constexpr std::string_view kSynsets = "synsets.txt";
constexpr size_t kValGroupImages = 500;  // validation images that are unpacked together
constexpr std::string_view kValName = "ILSVRC2012_val_";

constexpr const char* kImagenetArchives =
    "ImageNet's are ILSVRC2012_img_train.tar, ILSVRC2012_img_val.tar, ILSVRC2012_devkit_t12.tar.gz; or Kaggle's "
    "imagenet-object-localization-challenge.zip and LOC_val_solution.csv";

// "n01440764"
bool is_wnid(std::string_view text) {
  return text.size() == 9 && text[0] == 'n' && std::ranges::all_of(text.substr(1), [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// The number of a validation image: 293 of "ILSVRC2012_val_00000293.JPEG".
std::optional<int64_t> val_number(std::string_view name) {
  if (!name.starts_with(kValName)) return std::nullopt;
  name.remove_prefix(kValName.size());
  const size_t dot = name.find('.');
  if (dot != std::string_view::npos && name.substr(dot) != ".JPEG") return std::nullopt;
  name = name.substr(0, dot);
  return name.size() == 8 ? whole_number(name) : std::nullopt;
}

bool is_folder(const ArchiveMember& member) { return !member.regular && member.name.ends_with('/'); }

// The classes, as the devkit or Kaggle's list has them.
struct Classes {
  std::string from;                          // the file, for messages
  std::map<std::string, std::string> words;  // of each WordNet id: "tench, Tinca tinca"
  std::map<std::string, int64_t> train;      // training images of each, where it says that
};

// WordNet ids of validation images 1, 2, …
struct Labels {
  std::string from;
  std::vector<std::string> wnids;
};

struct Devkit {
  Classes classes;
  Labels labels;
};

const ArchiveMember* find_member(const Archive& archive, std::string_view end) {
  const auto found = std::ranges::find_if(archive.members(), [&](const ArchiveMember& member) {
    return member.regular && (member.name == end || member.name.ends_with("/" + std::string(end)));
  });
  return found == archive.members().end() ? nullptr : &*found;
}

Devkit read_devkit(const Archive& archive) {
  const ArchiveMember* meta = find_member(archive, "meta.mat");
  const ArchiveMember* truth = find_member(archive, "ILSVRC2012_validation_ground_truth.txt");
  const std::string where = fmt::format("{}: {}", archive.name(), one_line(meta->name));
  constexpr const char* kOther = "take ILSVRC2012_devkit_t12.tar.gz, the development kit of tasks 1 and 2";
  if (truth == nullptr) throw data_error("the devkit has no ILSVRC2012_validation_ground_truth.txt", archive.name(), kOther);
  Devkit out;
  out.classes.from = out.labels.from = archive.name();
  std::map<int64_t, std::string> by_number;
  try {
    const std::vector<MatStruct> synsets =
        read_mat_structs(archive.read_all(*meta, static_cast<int64_t>(kMaxDevkit)), where, "synsets",
                         {"ILSVRC2012_ID", "WNID", "words", "num_children", "num_train_images"});
    for (const MatStruct& synset : synsets) {
      const double number = synset[0].number.value_or(0), children = synset[3].number.value_or(-1);
      const std::string& wnid = synset[1].text;
      if (!is_wnid(wnid) || !(number >= 1 && number <= 1e6) || children < 0)
        throw data_error(fmt::format("it has a synset without number or WordNet id: `{}`", one_line(wnid)), where);
      if (children > 0) continue;  // a class of classes
      if (!by_number.emplace(static_cast<int64_t>(number), wnid).second)
        throw data_error(fmt::format("class {} is there twice", number), where);
      out.classes.words[wnid] = synset[2].text;
      if (synset[4].number) out.classes.train[wnid] = static_cast<int64_t>(*synset[4].number);
    }
  } catch (const Error& error) {
    throw data_error(error.message(), error.where(), kOther);
  }
  const std::string text = archive.read_all(*truth, kMaxLabels);
  for (const std::string& line : split(text, '\n')) {
    const std::string_view word = trim(line);
    if (word.empty()) continue;
    const auto number = whole_number(word);
    const auto found = number ? by_number.find(*number) : by_number.end();
    if (found == by_number.end()) {
      throw data_error(fmt::format("label {} is `{}`, and meta.mat has {} classes without such a number",
                                   out.labels.wnids.size() + 1, one_line(word.substr(0, 40)), by_number.size()),
                       fmt::format("{}: {}", archive.name(), one_line(truth->name)), kOther);
    }
    out.labels.wnids.push_back(found->second);
  }
  return out;
}

// "ILSVRC2012_val_00048981,n03995372 85 1 499 272": the class is the first word.
Labels read_solution(const std::string& text, const std::string& path) {
  const BytesFile file(text);
  std::map<int64_t, std::string> by_number;
  bool header = true;
  for (const Extent& record : scan_csv(path, file, ',')) {
    const std::string line = read_extent(file, record);
    if (std::exchange(header, false)) continue;
    const auto fields = parse_csv_record(line, ',');
    const auto number = fields && fields->size() == 2 ? val_number((*fields)[0]) : std::nullopt;
    const std::string wnid = number ? split((*fields)[1], ' ')[0] : "";
    if (!number || !is_wnid(wnid))
      throw data_error(fmt::format("`{}` is no image with its class", one_line(line.substr(0, 80))), path,
                       "take Kaggle's LOC_val_solution.csv");
    if (!by_number.emplace(*number, wnid).second)
      throw data_error(fmt::format("validation image {} is there twice", *number), path);
  }
  Labels out{path, {}};
  for (const auto& [number, wnid] : by_number) {
    if (number != std::ssize(out.wnids) + 1)
      throw data_error(fmt::format("validation image {} has no label", out.wnids.size() + 1), path);
    out.wnids.push_back(wnid);
  }
  return out;
}

// "n01440764 tench, Tinca tinca" a line.
Classes read_mapping(const std::string& text, const std::string& path) {
  Classes out{path, {}, {}};
  for (const std::string& line : split(text, '\n')) {
    const std::string_view entry = trim(line);
    if (entry.empty()) continue;
    if (!is_wnid(entry.substr(0, 9))) throw data_error(fmt::format("`{}` names no class", one_line(entry.substr(0, 80))), path);
    out.words[std::string(entry.substr(0, 9))] = std::string(trim(entry.substr(9)));
  }
  return out;
}

using SharedArchive = std::shared_ptr<const Archive>;

// What the given files are.
struct GivenImagenet {
  std::vector<GivenArchive> archives;
  std::vector<UnpackGroup> train;  // a class each, named by it
  std::vector<UnpackedFile> val;   // paths without classes
  std::optional<Classes> classes;
  std::optional<Labels> labels;
  std::string train_from, val_from;  // for messages

  void recognise(const std::string& path);

 private:
  void add(const std::string& path, std::string what, const Published* published) {
    archives.push_back({path, std::move(what), store::local_files().info(path)->size, published});
  }
  void take_train(const SharedArchive& archive);
  void take_val(const SharedArchive& archive);
  void take_devkit(const Archive& archive);
  // Kaggle's archive: ILSVRC/Data/CLS-LOC/train/n01440764/n01440764_18.JPEG, … whatever packs it.
  void take_tree(const SharedArchive& archive);
  void take_tar(const std::string& path);
  void begin_train(const std::string& path) {
    if (!train.empty())
      throw usage_error(fmt::format("`{}` and `{}` both hold the training images", train_from, path), "--from");
    train_from = path;
  }
  void begin_val(const std::string& path) {
    if (!val.empty()) throw usage_error(fmt::format("`{}` and `{}` both hold the validation images", val_from, path), "--from");
    val_from = path;
  }
};

[[noreturn]] void unknown_archive(const std::string& path) {
  throw usage_error(fmt::format("`{}` is none of ImageNet's archives", path), "--from", kImagenetArchives);
}

// The images of a class's own archive.
std::vector<UnpackedFile> class_files(const SharedArchive& archive, const std::string& wnid) {
  std::vector<UnpackedFile> out;
  for (const ArchiveMember& member : archive->members()) {
    if (is_folder(member)) continue;
    const std::string name = file_name_of(*archive, member);
    if (!name.starts_with(wnid + "_"))
      throw data_error(fmt::format("`{}` holds `{}`, which is no image of its class", archive->name(), one_line(member.name)));
    out.push_back({fmt::format("{}/{}", wnid, name), archive, member});
  }
  if (out.empty()) throw data_error(fmt::format("`{}` holds no images", archive->name()));
  return out;
}

void GivenImagenet::take_train(const SharedArchive& archive) {
  begin_train(archive->name());
  std::set<std::string> seen;
  for (const ArchiveMember& member : archive->members()) {
    if (is_folder(member)) continue;
    const std::string name = file_name_of(*archive, member), wnid = name.substr(0, name.find('.'));
    if (name != wnid + ".tar" || !is_wnid(wnid))
      throw data_error(fmt::format("`{}` holds `{}`, which is no class's archive", archive->name(), one_line(member.name)));
    if (!seen.insert(wnid).second)
      throw data_error(fmt::format("`{}` holds `{}` twice", archive->name(), one_line(member.name)));
    train.push_back(
        {wnid, member.size, [archive, member, wnid] { return class_files(open_inner_tar(*archive, member), wnid); }});
  }
  add(archive->name(), fmt::format("training images of {} classes", human_count(std::ssize(train))), &kTrainTar);
}

void GivenImagenet::take_val(const SharedArchive& archive) {
  begin_val(archive->name());
  for (const ArchiveMember& member : archive->members()) {
    if (is_folder(member)) continue;
    val.push_back({file_name_of(*archive, member), archive, member});
  }
  add(archive->name(), fmt::format("{} validation images", human_count(std::ssize(val))), &kValTar);
}

void GivenImagenet::take_devkit(const Archive& archive) {
  Devkit devkit = read_devkit(archive);
  add(archive.name(),
      fmt::format("devkit, {} classes, {} labels", human_count(std::ssize(devkit.classes.words)),
                  human_count(std::ssize(devkit.labels.wnids))),
      &kDevkitTar);
  classes = std::move(devkit.classes);
  labels = std::move(devkit.labels);
}

void GivenImagenet::take_tree(const SharedArchive& archive) {
  constexpr std::string_view kTrain = "CLS-LOC/train/", kVal = "CLS-LOC/val/";
  std::map<std::string, std::vector<UnpackedFile>> by_class;
  for (const ArchiveMember& member : archive->members()) {
    if (is_folder(member)) continue;
    const std::string_view name = member.name;
    if (name.find("Data/") == std::string_view::npos) continue;  // boxes, lists
    if (const size_t at = name.find(kTrain); at != std::string_view::npos) {
      const std::string file = file_name_of(*archive, member), wnid(name.substr(at + kTrain.size(), 9));
      if (!is_wnid(wnid) || name.substr(at + kTrain.size()) != fmt::format("{}/{}", wnid, file) ||
          !file.starts_with(wnid + "_"))
        throw data_error(fmt::format("`{}` holds `{}`, which is no image of its class", archive->name(), one_line(name)));
      by_class[wnid].push_back({fmt::format("{}/{}", wnid, file), archive, member});
    } else if (name.find(kVal) != std::string_view::npos) {
      if (val.empty()) begin_val(archive->name());
      val.push_back({file_name_of(*archive, member), archive, member});
    }
  }
  if (!by_class.empty()) begin_train(archive->name());
  for (auto& [wnid, files] : by_class) {
    int64_t bytes = 0;
    for (const UnpackedFile& file : files) bytes += file.member.size;
    train.push_back({wnid, bytes, [list = std::move(files)] { return list; }});
  }
  add(archive->name(),
      fmt::format("training images of {} classes, {} validation images", human_count(std::ssize(by_class)),
                  human_count(std::ssize(val))),
      nullptr);
  if (const ArchiveMember* list = find_member(*archive, "LOC_synset_mapping.txt"); list && !classes)
    classes = read_mapping(archive->read_all(*list, kMaxLabels), fmt::format("{}: {}", archive->name(), list->name));
  if (const ArchiveMember* list = find_member(*archive, "LOC_val_solution.csv"); list && !labels)
    labels = read_solution(archive->read_all(*list, kMaxLabels), fmt::format("{}: {}", archive->name(), list->name));
}

void GivenImagenet::take_tar(const std::string& path) {
  const SharedArchive archive = open_tar(path);
  const auto first = std::ranges::find_if(archive->members(), [](const ArchiveMember& m) { return !is_folder(m); });
  if (first == archive->members().end()) unknown_archive(path);
  const std::string name = store::last_part(first->name);
  if (first->name.find("CLS-LOC/") != std::string::npos || first->name.find("ILSVRC/") != std::string::npos)
    return take_tree(archive);
  if (find_member(*archive, "meta.mat")) return take_devkit(*archive);
  if (name.ends_with(".tar")) return take_train(archive);
  if (val_number(name)) return take_val(archive);
  unknown_archive(path);
}

void GivenImagenet::recognise(const std::string& path) {
  store::FileSystem& files = store::local_files();
  const int64_t size = files.info(path)->size;
  const auto bytes = store::read_range(files, path, 0, std::min<int64_t>(size, 512));
  const std::string_view head = store::as_text(bytes);
  if (head.starts_with("PK")) {
    const SharedArchive archive = open_zip(path);
    const auto inside = [](const ArchiveMember& member) { return member.name.find("CLS-LOC/") != std::string::npos; };
    if (std::ranges::none_of(archive->members(), inside)) unknown_archive(path);
    return take_tree(archive);
  }
  if (head.starts_with("\x1f\x8b")) {
    if (size > kMaxPackedDevkit)
      throw usage_error(fmt::format("`{}` is compressed as a whole, so that no image in it can be found", path), "--from",
                        "gunzip it first");
    std::string unpacked;
    try {
      unpacked = inflate_bytes(store::read_text(files, path), kMaxDevkit);
    } catch (const Error& error) {
      throw data_error(error.message(), path, "copy it again");
    }
    const SharedArchive archive = open_tar_bytes(std::move(unpacked), path);
    if (!find_member(*archive, "meta.mat")) unknown_archive(path);
    return take_devkit(*archive);
  }
  if (head.starts_with("ImageId,")) {
    labels = read_solution(store::read_text(files, path), path);
    return add(path, fmt::format("{} labels of validation images", human_count(std::ssize(labels->wnids))), nullptr);
  }
  if (path.ends_with(".tar") || (head.size() == 512 && head.substr(257, 5) == "ustar")) return take_tar(path);
  unknown_archive(path);
}

// The validation images below their classes' folders, in groups.
UnpackPlan plan_val(const GivenImagenet& given) {
  const Labels& labels = *given.labels;
  std::map<int64_t, UnpackedFile> by_number;
  for (const UnpackedFile& file : given.val) {
    const auto number = val_number(file.path);
    if (!number)
      throw data_error(fmt::format("`{}` holds `{}`, which is no validation image", given.val_from, one_line(file.path)));
    if (*number < 1 || *number > std::ssize(labels.wnids)) {
      throw data_error(fmt::format("`{}` holds image {}, and {} labels {} images", given.val_from, *number, labels.from,
                                   human_count(std::ssize(labels.wnids))),
                       {}, "the labels are of other images: take the devkit of ILSVRC2012");
    }
    if (!by_number.emplace(*number, file).second)
      throw data_error(fmt::format("`{}` holds `{}` twice", given.val_from, one_line(file.path)));
  }
  UnpackPlan plan{"val", {}};
  std::vector<UnpackedFile> group;
  const auto close_group = [&] {
    if (group.empty()) return;
    int64_t bytes = 0;
    for (const UnpackedFile& file : group) bytes += file.member.size;
    plan.groups.push_back({group.front().path, bytes, [list = std::move(group)] { return list; }});
    group.clear();
  };
  int64_t next = 1;
  for (auto& [number, file] : by_number) {
    if (number != next) break;
    ++next;
    file.path = fmt::format("{}/{}", labels.wnids[static_cast<size_t>(number - 1)], file.path);
    group.push_back(std::move(file));
    if (group.size() == kValGroupImages) close_group();
  }
  if (next <= std::ssize(labels.wnids)) {
    throw data_error(fmt::format("`{}` lacks image {}: it holds {} of the {} that {} labels", given.val_from, next,
                                 human_count(std::ssize(by_number)), human_count(std::ssize(labels.wnids)), labels.from),
                     {}, "it was not copied whole, or the labels are of other images");
  }
  close_group();
  return plan;
}

// Every class of the lists has training images, before anything is written.
void check_train_classes(const GivenImagenet& given) {
  std::set<std::string> there;
  for (const UnpackGroup& group : given.train) there.insert(group.name);
  if (there.empty()) return;
  std::vector<std::string> missing;
  if (given.classes) {
    for (const auto& [wnid, words] : given.classes->words) {
      if (!there.contains(wnid)) missing.push_back(wnid);
    }
  }
  if (missing.empty() && given.labels && !given.val.empty()) {
    for (const std::string& wnid : given.labels->wnids) {
      if (!there.contains(wnid) && std::ranges::find(missing, wnid) == missing.end()) missing.push_back(wnid);
    }
  }
  if (missing.empty()) return;
  throw data_error(fmt::format("`{}` has no images of {} of the {} classes, {} the first", given.train_from, missing.size(),
                               given.classes ? given.classes->words.size() : there.size() + missing.size(), missing.front()),
                   {}, "it was not copied whole. A part of ImageNet alone: prepare training and validation images one by one");
}

void compare(Finding& finding, const std::string& what, int64_t found, int64_t published) {
  if (found == published) return;
  finding.notes.push_back(fmt::format("{} {}, of the {} of ILSVRC2012", human_count(found), what, human_count(published)));
}

}  // namespace

PreparePlan plan_imagenet(const std::vector<std::string>& paths) {
  GivenImagenet given;
  for (const std::string& path : paths) given.recognise(path);
  if (given.train.empty() && given.val.empty())
    throw usage_error("none of the files holds images", "--from", kImagenetArchives);
  if (!given.val.empty() && !given.labels) {
    throw usage_error("the validation images have no labels", "--from",
                      "give ILSVRC2012_devkit_t12.tar.gz, or Kaggle's LOC_val_solution.csv, too");
  }
  check_train_classes(given);
  PreparePlan plan{std::move(given.archives), {}, [](std::string_view name) { return name == kSynsets; }, {}};
  if (!given.train.empty()) plan.folders.push_back({"train", std::move(given.train)});
  if (!given.val.empty()) plan.folders.push_back(plan_val(given));
  plan.finish = [classes = std::move(given.classes)](const std::string& dir, const std::vector<UnpackedFolder>& folders,
                                                     store::FileSystem& files) {
    Finding finding;
    for (const UnpackedFolder& folder : folders) {
      const bool train = folder.folder == "train";
      finding.sources.push_back(fmt::format("folder({})", store::join_path(dir, folder.folder)));
      compare(finding, train ? "training images" : "validation images", folder.files, train ? kTrainImages : kValImages);
      compare(finding, train ? "classes of training images" : "classes of validation images", std::ssize(folder.counts),
              kClasses);
      if (!train || !classes) continue;
      for (const auto& [wnid, count] : folder.counts) {
        const auto should = classes->train.find(wnid);
        if (should != classes->train.end() && should->second != count) {
          finding.problems.push_back(fmt::format("{} has {} training images, and {} says {}", wnid, human_count(count),
                                                 classes->from, human_count(should->second)));
        }
      }
    }
    if (classes) {
      std::string text;
      for (const auto& [wnid, words] : classes->words) text += fmt::format("{} {}\n", wnid, one_line(words));
      store::write_atomic(files, store::join_path(dir, kSynsets), text);
    }
    return finding;
  };
  return plan;
}

}  // namespace tessera::data
