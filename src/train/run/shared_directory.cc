#include "train/run/shared_directory.h"

#include <fmt/format.h>

#include <chrono>

#include "store/encoding/digest.h"
#include "store/file.h"
#include "train/workdir/workdir.h"

namespace tessera::train {
namespace {

// Until all have looked, on slow disks too.
constexpr std::chrono::minutes kLookPatience{10};

// Of this start, which all have seen, and of earlier ones.
void remove_marks(const std::string& path) {
  try {
    const auto directory = store::local_files().open_directory(path);
    for (const store::FileInfo& file : directory->list()) {
      if (file.name.starts_with(kDirectoryMark) && !file.directory) directory->remove_file(file.name);
    }
  } catch (const store::IoError&) {
    // They are small, and no reader looks at them.
  }
}

}  // namespace

std::vector<int64_t> directory_of_each(Processes& processes, const std::string& path) {
  group::Members& members = *processes.members();
  // Nobody has asked for such a name before: a client of NFS may remember of a name that it is not there.
  const std::string own = fmt::format("{}{}", kDirectoryMark, store::random_hex(8));
  const auto name_key = [](int64_t process) { return fmt::format("directory/name/{}", process); };
  const auto first_key = [](int64_t process) { return fmt::format("directory/first/{}", process); };
  members.put(name_key(processes.index()), own);
  store::local_files().create(store::join_path(path, own))->close();  // who looks asks for its name alone
  members.barrier("directory/marked", kLookPatience);
  int64_t first = 0;
  while (first < processes.index()) {
    const std::string its = members.get(name_key(first), kLookPatience);
    if (store::local_files().info(store::join_path(path, its))) break;
    ++first;
  }
  members.put(first_key(processes.index()), std::to_string(first));
  members.barrier("directory/looked", kLookPatience);
  if (first == processes.index()) remove_marks(path);
  std::vector<int64_t> firsts;
  for (int64_t process = 0; process < processes.count(); ++process)
    firsts.push_back(std::stoll(members.get(first_key(process), kLookPatience)));
  return firsts;
}

}  // namespace tessera::train
