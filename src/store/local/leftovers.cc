#include "store/local/leftovers.h"

#include <charconv>

#include "base/system/process.h"

namespace tessera::store {
namespace {

// The process in "run.json.tmp-4711"; 0 for other names.
int64_t writer_of(std::string_view name) {
  constexpr std::string_view kTemporary = ".tmp-";
  const size_t at = name.rfind(kTemporary);
  if (at == 0 || at == std::string_view::npos) return 0;
  const std::string_view digits = name.substr(at + kTemporary.size());
  int64_t pid = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), pid);
  return error == std::errc{} && end == digits.data() + digits.size() ? pid : 0;
}

}  // namespace

void remove_leftovers(FileSystem& files, const std::string& directory, std::string_view except) {
  try {
    for (const FileInfo& entry : files.list(directory)) {
      if (entry.name == except) continue;
      const std::string path = join_path(directory, entry.name);
      if (entry.directory && !entry.symlink) {
        remove_leftovers(files, path);
      } else if (const int64_t writer = writer_of(entry.name); writer > 0 && !entry.directory && process_is_dead(writer)) {
        files.remove_file(path);
      }
    }
  } catch (const IoError&) {
    // Whoever needs the directory says what is wrong with it.
  }
}

}  // namespace tessera::store
