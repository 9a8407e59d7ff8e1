#pragma once
// A shared library's file, looked at before the system's loader maps it.

#include <string>

namespace tessera::pjrt {

// Throws a device Error where the file is shorter than its own headers say: the loader would map it all the same, and the first
// use of a missing page would end the process without a word. What is no library of this machine at all is left to the loader,
// which says so.
void check_library_file(const std::string& path);

}  // namespace tessera::pjrt
