#pragma once
// Where the program keeps what it can make again: compiled programs, indexes of data sets.

#include <string>

#include "base/error.h"

namespace tessera::store {

// The directory given to set_cache_directory(), else $TESSERA_CACHE_DIR (set but empty: off), else $XDG_CACHE_HOME/tessera,
// else ~/.cache/tessera. Empty: nothing is kept. It need not exist.
std::string cache_directory();

// For the flag --cache-dir; before any thread reads it.
void set_cache_directory(std::string directory);

// A note, once a process, that the run goes on without the cache or a part of it, and why.
void tell_cache_unused(const Error& why);

}  // namespace tessera::store
