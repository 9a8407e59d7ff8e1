#pragma once
// Programs that were compiled before, a file each in $TESSERA_JOINT_CACHE; nothing is found or kept where that is not set. Each process
// of a test compiles all of the test's programs, which takes most of its time.

#include <pjrt_c_api.h>

#include <string>
#include <string_view>

namespace tessera::joint {

// Of a program's text and options, the inner plugin, and what it compiles for.
std::string kept_name(std::string_view text, std::string_view options);

// The loaded program, or null where there is none that the inner plugin takes.
PJRT_LoadedExecutable* load_kept(PJRT_Client* client, const std::string& name);
// Where that can't be done the next process compiles it again.
void keep(const std::string& name, PJRT_LoadedExecutable* loaded);

}  // namespace tessera::joint
