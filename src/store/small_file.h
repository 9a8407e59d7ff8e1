#pragma once
// Files of kinds that are small: recipes, descriptions in JSON, lists. One that is larger is some other file, and is refused
// before it takes time and memory.

#include <cstdint>
#include <string>

#include "store/file.h"

namespace tessera::store {

inline constexpr int64_t kMaxSmallFile = int64_t{64} << 20;  // as read_json() has it (base/text/json.h)
inline constexpr int64_t kMaxTokenizerFile = int64_t{128} << 20;
inline constexpr int64_t kMaxListFile = int64_t{256} << 20;  // of classes or texts, one a line

// The whole file. A larger one is a data Error that names the file, its size and the limit.
std::string read_small_file(FileSystem& files, const std::string& path, int64_t max_bytes = kMaxSmallFile);

}  // namespace tessera::store
