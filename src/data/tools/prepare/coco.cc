// COCO: images in a zip a split, captions and boxes of objects in one zip of JSON files. Of the boxes their classes are taken: the
// labels of an image are the kinds of objects in it.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "data/tools/prepare/coco_annotations.h"
#include "data/tools/prepare/prepare.h"

namespace tessera::data {
namespace {

// Sizes and MD5 of the published files, and how many images a split has.
struct PublishedSplit {
  Published archive;
  int64_t images;
};
const PublishedSplit kSplits[] = {
    {{"train2017.zip", 19336861798, "cced6f7f71b7629ddf16f17bbcfab6b2"}, 118287},
    {{"val2017.zip", 815585330, "442b8da7639aecaf257c1dceb8ba8c80"}, 5000},
    {{"test2017.zip", 6646970404, "77ad2c53ac5d0aea611d422c0938fb35"}, 40670},
};
const Published kAnnotations = {"annotations_trainval2017.zip", 252907541, "f4bbac642086de4f52a3fdda2de5fa2c"};

constexpr const char* kClassFile = "classes.txt";
constexpr size_t kGroupImages = 500;  // images that are unpacked together
// Of one JSON file; COCO's largest has 448 MiB. Zips of 1 MB may claim a thousand times as much.
constexpr int64_t kMaxAnnotations = int64_t{512} << 20;
constexpr const char* kCocoArchives =
    "COCO's are train2017.zip, val2017.zip and annotations_trainval2017.zip, or those of 2014";

const PublishedSplit* published(const std::string& split) {
  const auto found = std::ranges::find(kSplits, split + ".zip", [](const PublishedSplit& one) { return one.archive.name; });
  return found == std::end(kSplits) ? nullptr : &*found;
}

// "train2017": of the images' folder.
bool is_split(std::string_view name) {
  for (const std::string_view kind : {"train", "val", "test", "unlabeled"}) {
    if (!name.starts_with(kind)) continue;
    const std::string_view year = name.substr(kind.size());
    return year == "2014" || year == "2015" || year == "2017";
  }
  return false;
}

struct GivenCoco {
  std::vector<GivenArchive> archives;
  std::vector<UnpackPlan> folders;
  std::shared_ptr<const Archive> annotations;
};

UnpackPlan images_of(const std::shared_ptr<const Archive>& archive, const std::string& split) {
  UnpackPlan plan{split, {}};
  std::vector<UnpackedFile> group;
  int64_t bytes = 0;
  const auto close_group = [&] {
    if (group.empty()) return;
    plan.groups.push_back({group.front().path, std::exchange(bytes, 0), [list = std::move(group)] { return list; }});
    group.clear();
  };
  for (const ArchiveMember& member : archive->members()) {
    if (member.name.ends_with('/') || member.name.starts_with("__MACOSX/")) continue;
    const std::string name = file_name_of(*archive, member);
    if (member.name != fmt::format("{}/{}", split, name))
      throw data_error(fmt::format("`{}` holds `{}`, which is no image of {}", archive->name(), one_line(member.name), split));
    group.push_back({name, archive, member});
    bytes += member.size;
    if (group.size() == kGroupImages) close_group();
  }
  close_group();
  return plan;
}

int64_t file_count(const UnpackPlan& plan) {
  int64_t count = 0;
  for (const UnpackGroup& group : plan.groups) count += std::ssize(group.files());
  return count;
}

void recognise(const std::string& path, GivenCoco& given) {
  store::FileSystem& files = store::local_files();
  const int64_t size = files.info(path)->size;
  const auto head = store::read_range(files, path, 0, std::min<int64_t>(size, 2));
  const auto unknown = [&] {
    throw usage_error(fmt::format("`{}` is none of COCO's archives", path), "--from", kCocoArchives);
  };
  if (store::as_text(head) != "PK") unknown();
  const std::shared_ptr<const Archive> archive = open_zip(path);
  for (const ArchiveMember& member : archive->members()) {
    const std::string folder = member.name.substr(0, member.name.find('/'));
    if (folder == "annotations") {
      if (given.annotations)
        throw usage_error(fmt::format("`{}` and `{}` both hold annotations", given.annotations->name(), path), "--from");
      given.annotations = archive;
      given.archives.push_back({path, "captions and boxes", size, &kAnnotations});
      return;
    }
    if (!is_split(folder)) continue;
    if (std::ranges::find(given.folders, folder, &UnpackPlan::folder) != given.folders.end())
      throw usage_error(fmt::format("two archives hold {}", folder), "--from");
    given.folders.push_back(images_of(archive, folder));
    const PublishedSplit* known = published(folder);
    given.archives.push_back({path, fmt::format("{} images of {}", human_count(file_count(given.folders.back())), folder), size,
                              known ? &known->archive : nullptr});
    return;
  }
  unknown();
}

// Reads one JSON file of the archive. It has hundreds of megabytes: it is unpacked beside the images, mapped and removed.
class AnnotationFile {
 public:
  AnnotationFile(const Archive& archive, const ArchiveMember& member, const std::string& dir, store::FileSystem& files)
      : where_(fmt::format("{}: {}", archive.name(), one_line(member.name))),
        path_(store::join_path(dir, "annotations.partial")),
        files_(files) {
    archive.expect_at_most(member, kMaxAnnotations);
    const auto out = files.create(path_);
    archive.read(member, [&](std::span<const std::byte> part) { out->write(part); });
    out->close();
  }
  ~AnnotationFile() {
    try {
      files_.remove_file(path_);
    } catch (const Error&) {
      // The next one replaces it.
    }
  }
  AnnotationFile(const AnnotationFile&) = delete;
  AnnotationFile& operator=(const AnnotationFile&) = delete;

  using Read = void (*)(std::string_view json, const std::string& where, CocoAnnotations& out);
  void read(Read into, CocoAnnotations& out) const {
    const store::Bytes bytes = files_.map(path_);
    into(store::as_text(bytes.data), where_, out);
    bytes.check();
  }

 private:
  std::string where_, path_;
  store::FileSystem& files_;
};

std::string list_name(const std::string& split) { return split + ".jsonl"; }

// Writes DIR/SPLIT.jsonl, and DIR/classes.txt in the order of the categories' numbers.
void write_lists(const Archive& archive, const std::string& dir, const std::string& split, store::FileSystem& files,
                 Finding& finding) {
  const auto find = [&](const std::string& kind) -> const ArchiveMember* {
    const auto found =
        std::ranges::find(archive.members(), fmt::format("annotations/{}_{}.json", kind, split), &ArchiveMember::name);
    return found == archive.members().end() ? nullptr : &*found;
  };
  const ArchiveMember *captions = find("captions"), *objects = find("instances");
  if (captions == nullptr && objects == nullptr) {
    finding.notes.push_back(fmt::format("`{}` has no annotations of {}", archive.name(), split));
    return;
  }
  CocoAnnotations annotations;
  if (captions != nullptr) AnnotationFile(archive, *captions, dir, files).read(read_coco_captions, annotations);
  if (objects != nullptr) AnnotationFile(archive, *objects, dir, files).read(read_coco_objects, annotations);
  std::set<std::string> there;
  for (const store::FileInfo& entry : files.list(store::join_path(dir, split))) there.insert(entry.name);
  std::string text;
  std::vector<std::string> missing;
  for (const auto& [id, image] : annotations.images) {
    if (image.file.empty()) {
      finding.problems.push_back(fmt::format("{}: an annotation is of image {}, which is not listed", split, id));
    } else if (!there.contains(image.file)) {
      missing.push_back(image.file);
    } else {
      text += coco_line(split, image, annotations, captions != nullptr, objects != nullptr);
    }
  }
  if (!missing.empty()) {
    finding.problems.push_back(fmt::format("{}: {} annotated images are not there, {} the first; they are left out", split,
                                           human_count(std::ssize(missing)), one_line(missing.front())));
  }
  const std::string list = store::join_path(dir, list_name(split)), classes = store::join_path(dir, kClassFile);
  store::write_atomic(files, list, text);
  if (captions != nullptr) finding.sources.push_back(fmt::format("jsonl({}, text=captions)", list));
  if (objects == nullptr) return;
  const std::string names = coco_classes(annotations);
  if (files.info(classes) && store::read_text(files, classes) != names)
    throw data_error(fmt::format("`{}` lists other classes than the annotations of {}", classes, split), {}, "remove it");
  store::write_atomic(files, classes, names);
  finding.sources.push_back(fmt::format("jsonl({}, labels=labels, classes={})", list, classes));
}

}  // namespace

PreparePlan plan_coco(const std::vector<std::string>& paths, const std::string& dir) {
  GivenCoco given;
  for (const std::string& path : paths) recognise(path, given);
  // Images that were prepared before get lists, too.
  std::vector<std::string> splits;
  store::FileSystem& local = store::local_files();
  if (local.info(dir)) {
    for (const store::FileInfo& entry : local.list(dir)) {
      if (entry.directory && is_split(entry.name)) splits.push_back(entry.name);
    }
  }
  for (const UnpackPlan& plan : given.folders) {
    if (std::ranges::find(splits, plan.folder) == splits.end()) splits.push_back(plan.folder);
  }
  if (splits.empty())
    throw usage_error(given.annotations ? "the annotations have no images" : "none of the files holds images", "--from",
                      kCocoArchives);
  PreparePlan plan{std::move(given.archives), std::move(given.folders), {}, {}};
  plan.own_list = [splits](std::string_view name) {
    return name == kClassFile ||
           std::ranges::any_of(splits, [&](const std::string& split) { return name == list_name(split); });
  };
  plan.finish = [annotations = std::move(given.annotations), splits](
                    const std::string& to, const std::vector<UnpackedFolder>& folders, store::FileSystem& files) {
    Finding finding;
    for (const UnpackedFolder& folder : folders) {
      const PublishedSplit* known = published(folder.folder);
      if (known != nullptr && known->images != folder.files) {
        finding.notes.push_back(fmt::format("{} images of {}, of the {} of COCO", human_count(folder.files), folder.folder,
                                            human_count(known->images)));
      }
    }
    if (!annotations) {
      finding.notes.emplace_back("captions and labels are in annotations_trainval2017.zip: give it, too");
      return finding;
    }
    for (const std::string& split : splits) write_lists(*annotations, to, split, files, finding);
    return finding;
  };
  return plan;
}

}  // namespace tessera::data
