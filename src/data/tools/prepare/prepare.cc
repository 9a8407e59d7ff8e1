#include "data/tools/prepare/prepare.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "store/encoding/digest.h"
#include "store/local/disk_room.h"
#include "store/local/leftovers.h"
#include "store/local/lock.h"

namespace tessera::data {
namespace {

constexpr int64_t kStretch = 4 << 20;

std::string md5_of(const std::string& path) {
  const auto file = store::local_files().open(path);
  store::Md5 hash;
  std::vector<std::byte> bytes;
  for (int64_t at = 0; at < file->size(); at += kStretch) {
    bytes.resize(static_cast<size_t>(std::min(kStretch, file->size() - at)));
    file->prefetch(at + kStretch, kStretch);
    file->read(at, bytes);
    hash.add(bytes);
  }
  return store::to_hex(hash.finish());
}

void compare_checksum(const GivenArchive& archive) {
  if (archive.published == nullptr) return;
  const std::string found = md5_of(archive.path);
  if (found == archive.published->md5) return;
  throw data_error(fmt::format("`{}` is not {} as it is published: its MD5 is {}, not {}", archive.path,
                               archive.published->name, found, archive.published->md5),
                   {}, "copy it again");
}

bool may_be_archive(const std::string& name) {
  return std::ranges::any_of(std::initializer_list<const char*>{".tar", ".gz", ".tgz", ".zip", ".csv"},
                             [&](const char* end) { return name.ends_with(end); });
}

}  // namespace

std::vector<std::string> files_given(const std::vector<std::string>& from) {
  store::FileSystem& files = store::local_files();
  std::vector<std::string> out;
  for (const std::string& path : from) {
    const auto info = files.info(path);
    if (!info) throw usage_error(fmt::format("there is no `{}`", path), "--from");
    if (!info->directory) {
      out.push_back(path);
      continue;
    }
    for (const store::FileInfo& entry : files.list(path)) {
      if (!entry.directory && may_be_archive(entry.name)) out.push_back(store::join_path(path, entry.name));
    }
  }
  return out;
}

Prepared prepare(const PreparePlan& plan, const std::string& dir, const PrepareOptions& options) {
  store::FileSystem& files = *options.unpack.files;
  if (options.checksums) {
    for (const GivenArchive& archive : plan.archives) compare_checksum(archive);
  }
  const int64_t needed = bytes_to_write(plan.folders, dir, files);
  if (const auto room = store::free_bytes(dir); room && *room < needed) {
    throw data_error(fmt::format("`{}` needs about {}, and its disk has {} left", dir, human_bytes(static_cast<double>(needed)),
                                 human_bytes(static_cast<double>(*room))),
                     {}, "make room, or choose a directory of another disk");
  }
  files.make_directories(dir);
  const store::DirectoryLock lock(dir);
  Prepared out;
  int64_t before = 0;
  for (const UnpackPlan& folder : plan.folders) {
    UnpackOptions of_folder = options.unpack;
    if (options.unpack.progress) of_folder.progress = [&](int64_t bytes) { options.unpack.progress(before + bytes); };
    out.folders.push_back(unpack(folder, dir, of_folder));
    before += folder.bytes();
  }
  // Not before: now `dir` is known to hold the set.
  store::remove_leftovers(*files.open_directory(dir), plan.own_list);
  out.finding = plan.finish(dir, out.folders, files);
  return out;
}

}  // namespace tessera::data
