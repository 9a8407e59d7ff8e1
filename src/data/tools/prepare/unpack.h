#pragma once
// Unpacks folders of files from archives. A folder is there whole or not at all, however often the process is killed on the
// way.
//
// DIR/train is unpacked as DIR/train.partial, which is renamed at the end, when every file was compared with the archive's
// list. DIR/train.finished lists the groups whose files are on the disk. The files of other groups are compared byte by byte
// with those that are there already.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/tools/prepare/archive.h"
#include "store/file.h"

namespace tessera::data {

struct UnpackedFile {
  std::string path;  // below the folder: "n01440764/n01440764_18.JPEG", or a name alone
  std::shared_ptr<const Archive> archive;
  ArchiveMember member;
};

// Files that one thread unpacks.
struct UnpackGroup {
  std::string name;   // among the folder's groups; without line ends
  int64_t bytes = 0;  // of its files, about
  std::function<std::vector<UnpackedFile>()> files;
};

struct UnpackPlan {
  std::string folder;  // "train": below DIR
  std::vector<UnpackGroup> groups;
  int64_t bytes() const;
};

struct UnpackOptions {
  int threads = 0;      // as in thread_count()
  bool verify = false;  // compare every byte of what is there
  store::FileSystem* files = &store::local_files();
  // Called now and then, from any thread, with the bytes of finished groups and of files that are done.
  std::function<void(int64_t bytes)> progress = {};
};

struct UnpackedFolder {
  std::string folder;
  bool kept = false;                      // it was there, whole
  int64_t files = 0, bytes = 0;           // that it has
  int64_t written = 0;                    // files that were not there, or were others
  std::map<std::string, int64_t> counts;  // files of each sub-folder; "" of the folder itself
};

// Throws a data Error where the folder is there and differs from the archives, which names some files; where an archive is damaged;
// and IoError. What was done stays for the next call.
UnpackedFolder unpack(const UnpackPlan& plan, const std::string& dir, const UnpackOptions& options);

// About how many bytes are still to be written, in whole blocks of the disk; 0 for folders that are there.
int64_t bytes_to_write(const std::vector<UnpackPlan>& plans, const std::string& dir, store::FileSystem& files);

}  // namespace tessera::data
