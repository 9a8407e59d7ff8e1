#pragma once
// Temporary files that killed processes leave behind.

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "store/file.h"

namespace tessera::store {

// The name of a temporary file of write_atomic() (file.h): "run.json.tmp-4711".
struct TemporaryName {
  std::string_view file;  // run.json
  int64_t writer = 0;     // process id
};
// Nothing for other names.
std::optional<TemporaryName> parse_temporary_name(std::string_view name);

// Removes the temporary files that write_atomic() of dead processes left in `directory`, not below it, where `own` says true of
// the file that was being written: users have files of such names too. What cannot be removed stays, until the next time.
void remove_leftovers(Directory& directory, const std::function<bool(std::string_view file)>& own);

}  // namespace tessera::store
