#pragma once
// How readers of formats say that a file can't be read.

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/printable.h"

namespace tessera::data {

inline constexpr const char* kCopyAgain = "the file is damaged or was not copied whole: copy it again";

// Throws a data Error: "`PATH`: WHAT at offset OFFSET".
[[noreturn]] inline void fail_at(const std::string& path, int64_t offset, const std::string& what,
                                 const std::string& help = kCopyAgain) {
  throw data_error(fmt::format("`{}`: {} at offset {}", one_line(path), one_line(what), offset), {}, help);
}

}  // namespace tessera::data
