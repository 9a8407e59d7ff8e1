#pragma once
// Where the program keeps what it can make again: compiled programs, indexes of data sets.

#include <string>

namespace tessera::store {

// What set_cache_directory said, else $TESSERA_CACHE_DIR (set but empty: off), else $XDG_CACHE_HOME/tessera, else
// ~/.cache/tessera. Empty: nothing is kept. It need not exist.
std::string cache_directory();

// For the flag --cache-dir; before any thread reads it.
void set_cache_directory(std::string directory);

}  // namespace tessera::store
