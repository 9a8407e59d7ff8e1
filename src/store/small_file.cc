#include "store/small_file.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/text.h"

namespace tessera::store {

std::string read_small_file(FileSystem& files, const std::string& path, int64_t max_bytes) {
  if (const auto info = files.info(path); info && !info->directory && info->size > max_bytes) {
    throw data_error(fmt::format("`{}` has {}, and such a file has {} at most", one_line(path),
                                 human_bytes(static_cast<double>(info->size)), human_bytes(static_cast<double>(max_bytes))),
                     {}, "it may be another file that was given this name or place");
  }
  return read_text(files, path);
}

}  // namespace tessera::store
