#pragma once
// What processes that were killed leave behind.

#include <string>
#include <string_view>

#include "store/file.h"

namespace tessera::store {

// Removes the temporary files that write_atomic() (file.h) of dead processes left in `directory` and below it, without following
// symbolic links, but for its entry `except`. What cannot be removed stays, until the next time.
void remove_leftovers(FileSystem& files, const std::string& directory, std::string_view except = {});

}  // namespace tessera::store
