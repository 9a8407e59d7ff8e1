#include "data/index/folder_index.h"

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "data/index/folder_objects.h"
#include "data/index/listing.h"
#include "data/index/progress.h"
#include "store/file.h"
#include "store/servers/egress.h"
#include "store/url.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFolderSections = 8;
constexpr int kListingThreads = 16;  // waiting for disks, not for cores

std::string layout_help(const std::string& path) {
  return fmt::format(
      "make one sub-folder for each class and put its images in it:\n"
      "  {0}/cat/one.jpg\n"
      "  {0}/dog/two.jpg",
      path);
}

struct Directory {
  std::string path;  // relative to the root; empty for the root
  int64_t mtime;
};

struct ClassListing {
  std::vector<std::string> files;
  std::vector<Directory> directories;
};

// Everything below root/relative, links to directories aside.
void list_below(const std::string& root, const std::string& relative, ClassListing& out, IndexProgress& progress) {
  const std::string path = root + "/" + relative;
  out.directories.push_back({relative, stamp_of(path).mtime});
  std::vector<std::string> deeper;
  const size_t before = out.files.size();
  list_directory(path, [&](std::string_view name, EntryKind kind) {
    if (kind == EntryKind::kFile) out.files.push_back(fmt::format("{}/{}", relative, name));
    if (kind == EntryKind::kDirectory) deeper.push_back(fmt::format("{}/{}", relative, name));
  });
  progress.add(static_cast<int64_t>(out.files.size() - before));
  for (const std::string& directory : deeper) list_below(root, directory, out, progress);
}

// A table, or an archive: another source reads it.
std::string file_help(const std::string& path) {
  for (const char* kind : {"csv", "jsonl", "parquet"}) {
    if (path.ends_with(std::string(".") + kind)) return fmt::format("write {}({}, image=COLUMN, label=COLUMN)", kind, path);
  }
  return path.ends_with(".tar") ? fmt::format("write wds({})", path) : layout_help(path);
}

void check_root(const std::string& root, const std::string& where) {
  store::refuse_url(root, where);
  std::error_code error;
  const fs::file_status status = fs::status(root, error);
  if (!fs::exists(status)) {
    throw data_error(fmt::format("the folder `{}` does not exist", root), where,
                     fmt::format("relative paths start from the working directory, {}", fs::current_path().string()));
  }
  if (!fs::is_directory(status)) throw data_error(fmt::format("`{}` is a file, not a folder", root), where, file_help(root));
}

[[noreturn]] void refuse_without_classes(const std::string& root, uint64_t loose, const std::string& where) {
  const std::string found = loose == 0 ? "is empty"
                                       : fmt::format("has {} file{} but no sub-folders",
                                                     human_count(static_cast<int64_t>(loose)), loose == 1 ? "" : "s");
  throw data_error(fmt::format("the folder `{}` {}, so there are no classes", root, found), where, layout_help(root));
}

void tell_loose(const std::string& root, uint64_t loose) {
  if (loose == 0) return;
  log_note_once(fmt::format("{}: {} beside the class folders {} left out", root,
                            loose == 1 ? "1 file" : fmt::format("{} files", loose), loose == 1 ? "is" : "are"));
}

void check_classes(const std::vector<ClassListing>& found, const std::vector<std::string>& classes, const std::string& root,
                   const std::string& where) {
  std::vector<std::string> empty;
  for (size_t label = 0; label < classes.size(); ++label) {
    if (found[label].files.empty()) empty.push_back(classes[label]);
  }
  if (empty.size() == classes.size())
    throw data_error(fmt::format("the folder `{}` holds no images", root), where, layout_help(root));
  if (empty.empty()) return;
  const bool many = empty.size() > 1;
  throw data_error(fmt::format("the class folder{} `{}` in `{}` {} no images", many ? "s" : "", one_line(join(empty, "`, `")),
                               root, many ? "hold" : "holds"),
                   where,
                   many ? "add images to them, or remove the folders that are no classes"
                        : "add images to it, or remove the folder if it is no class");
}

// What data sets call the folders of their parts.
bool is_training(const std::string& name) { return lower(name) == "train" || lower(name) == "training"; }
constexpr std::string_view kHeldOut[] = {"val", "valid", "validation", "eval", "evaluation", "test", "testing"};
ptrdiff_t rank_of_held_out(const std::string& name) { return std::ranges::find(kHeldOut, lower(name)) - std::begin(kHeldOut); }
bool is_held_out(const std::string& name) { return rank_of_held_out(name) < std::ssize(kHeldOut); }

// Whether every directory has the time that is known of it.
bool unchanged(const std::string& root, const TextView& directories, std::span<const int64_t> mtimes) {
  constexpr size_t kGrain = 64;
  const auto parts = static_cast<int64_t>((directories.size() + kGrain - 1) / kGrain);
  std::atomic<bool> same = true;
  parallel_for(parts, thread_count(kListingThreads, parts), [&](int64_t part, int) {
    const size_t begin = static_cast<size_t>(part) * kGrain, end = std::min(directories.size(), begin + kGrain);
    try {
      for (size_t i = begin; i < end && same; ++i) {
        if (stamp_of(fmt::format("{}/{}", root, directories[i])).mtime != mtimes[i]) same = false;
      }
    } catch (const store::IoError&) {
      same = false;
    }
  });
  return same;
}

}  // namespace

struct FolderIndex::Listing {
  int64_t began = now_nanoseconds();
  TextList directories, class_names;
  std::vector<int64_t> mtimes;
  uint64_t loose = 0;  // files beside the class folders
};

FolderIndex::FolderIndex(const std::string& root, const std::string& where) {
  open(root, where);
  refuse_parts(root, where);
  if (classes_.size() == 1 && holds_folders(0)) {
    log_note_once(fmt::format("{0}: its one class is `{1}`; if the folders in that are the classes, write folder({0}/{1})",
                              root, one_line(classes_[0])));
  }
}

void FolderIndex::open(const std::string& root, const std::string& where) {
  if (store::is_remote(root)) {
    open_objects(root, where);
    return;
  }
  check_root(root, where);
  const std::string sidecar = sidecar_path("folder", absolute_path(root));
  if (load(root, sidecar)) return;
  try {
    list(root, sidecar, where);
  } catch (const store::IoError& error) {
    throw data_error(error.message(), where, error.help());
  }
}

// Most of its files: one that is no image may lie beside the folders.
bool FolderIndex::holds_folders(size_t label) const {
  int64_t deep = 0;
  for (int64_t i = first_[label]; i < first_[label + 1]; ++i) deep += std::ranges::count(path(i), '/') > 1;
  return 2 * deep > first_[label + 1] - first_[label];
}

// A class may be named so, of vehicles: its images lie in it.
void FolderIndex::refuse_parts(const std::string& root, const std::string& where) const {
  const auto is_part = [](const std::string& name) { return is_training(name) || is_held_out(name); };
  const auto training = std::ranges::find_if(classes_, is_training);
  if (training == classes_.end() || !std::ranges::all_of(classes_, is_part)) return;
  if (!holds_folders(static_cast<size_t>(training - classes_.begin()))) return;
  const auto held_out = std::ranges::min_element(classes_, {}, rank_of_held_out);  // validation before test
  std::string help = fmt::format("write folder({}/{})", root, *training);
  if (is_held_out(*held_out)) help += fmt::format(", and folder({}/{}) for evaluation", root, *held_out);
  throw data_error(fmt::format("the folder `{}` holds parts of a data set, which have class folders of their own: `{}`", root,
                               join(classes_, "`, `")),
                   where, help);
}

bool FolderIndex::load(const std::string& root, const std::string& path) {
  auto sidecar = Sidecar::open(path, SidecarKind::kFolderIndex, {}, kFolderSections);
  if (!sidecar) return false;
  const auto directory_ends = sidecar->array<uint64_t>(1), class_ends = sidecar->array<uint64_t>(4),
             file_ends = sidecar->array<uint64_t>(7);
  const auto mtimes = sidecar->array<int64_t>(2), first = sidecar->array<int64_t>(5);
  if (!directory_ends || !class_ends || !file_ends || !mtimes || !first || mtimes->empty()) return false;
  // The last word of the mtimes is the number of files beside the classes.
  const TextView directories(sidecar->section(0), *directory_ends), names(sidecar->section(3), *class_ends),
      files(sidecar->section(6), *file_ends);
  const bool whole = directories.valid() && names.valid() && files.valid() && mtimes->size() == directories.size() + 1 &&
                     first->size() == names.size() + 1 && first->front() == 0 && std::ranges::is_sorted(*first) &&
                     first->back() == static_cast<int64_t>(files.size());
  if (!whole) return false;
  if (!unchanged(root, directories, *mtimes)) return false;
  for (size_t i = 0; i < names.size(); ++i) classes_.emplace_back(names[i]);
  first_.assign(first->begin(), first->end());
  if (!sidecar->readable()) {
    classes_.clear(), first_.clear();
    return false;
  }
  tell_loose(root, static_cast<uint64_t>(mtimes->back()));
  files_ = files;
  sidecar_ = std::move(sidecar);
  return true;
}

std::string FolderIndex::path(int64_t index) const {
  std::string path(files_[static_cast<size_t>(index)]);
  if (sidecar_) sidecar_->check();
  return path;
}

void FolderIndex::list(const std::string& root, const std::string& sidecar, const std::string& where) {
  Listing listing;
  std::vector<Directory> directories = {{"", stamp_of(root).mtime}};
  list_directory(root, [&](std::string_view name, EntryKind kind) {
    kind == EntryKind::kFile ? void(++listing.loose) : void(classes_.emplace_back(name));
  });
  if (classes_.empty()) refuse_without_classes(root, listing.loose, where);
  tell_loose(root, listing.loose);
  std::sort(classes_.begin(), classes_.end());
  std::vector<ClassListing> found(classes_.size());
  {
    IndexProgress progress(root, "files listed");
    const auto count = static_cast<int64_t>(classes_.size());
    parallel_for(count, thread_count(kListingThreads, count), [&](int64_t i, int) {
      ClassListing& one = found[static_cast<size_t>(i)];
      list_below(root, classes_[static_cast<size_t>(i)], one, progress);
      std::sort(one.files.begin(), one.files.end());
    });
  }
  check_classes(found, classes_, root, where);
  for (ClassListing& one : found) {
    first_.push_back(static_cast<int64_t>(listed_.ends.size()));
    for (const std::string& file : one.files) listed_.add(file);
    for (Directory& directory : one.directories) directories.push_back(std::move(directory));
    one = {};
  }
  first_.push_back(static_cast<int64_t>(listed_.ends.size()));
  files_ = listed_;
  for (const Directory& directory : directories) {
    listing.directories.add(directory.path);
    listing.mtimes.push_back(directory.mtime);
  }
  keep(listing, sidecar);
}

void FolderIndex::keep(const Listing& listing, const std::string& sidecar) const {
  const int64_t newest = *std::ranges::max_element(listing.mtimes);
  if (too_fresh(newest, listing.began)) return;
  TextList names;
  for (const std::string& name : classes_) names.add(name);
  std::vector<int64_t> mtimes = listing.mtimes;
  mtimes.push_back(static_cast<int64_t>(listing.loose));
  write_sidecar(sidecar, SidecarKind::kFolderIndex, {},
                {{listing.directories.text},
                 section_of(listing.directories.ends),
                 section_of(mtimes),
                 {names.text},
                 section_of(names.ends),
                 section_of(first_),
                 {listed_.text},
                 section_of(listed_.ends)});
}

void FolderIndex::open_objects(const std::string& root, const std::string& where) {
  FolderObjects found;
  try {
    found = open_folder_objects(root);
  } catch (const Error& error) {
    throw data_error(error.message(), where, error.help());
  }
  if (found.classes.empty()) refuse_without_classes(root, static_cast<uint64_t>(found.loose), where);
  tell_loose(root, static_cast<uint64_t>(found.loose));
  bytes_ = found.bytes();
  store::expect_egress_allowed(root, bytes_, where);
  classes_ = std::move(found.classes), first_ = std::move(found.first);
  listed_ = std::move(found.files), objects_ = std::move(found.objects);
  files_ = listed_;
}

int32_t FolderIndex::label(int64_t index) const {
  return static_cast<int32_t>(std::ranges::upper_bound(first_, index) - first_.begin() - 1);
}

std::vector<int64_t> FolderIndex::class_sizes() const {
  std::vector<int64_t> sizes;
  for (size_t c = 0; c + 1 < first_.size(); ++c) sizes.push_back(first_[c + 1] - first_[c]);
  return sizes;
}

}  // namespace tessera::data
