#pragma once
// Where a profile lies.

#include <string>

#include "monitor/profile/profile.h"
#include "store/file.h"

namespace tessera::profile {

// <workdir>/plugins/profile: where TensorBoard's profile tab and xprof look for the profiles of a run.
std::string profiles_directory(const std::string& workdir);

struct ProfileFiles {
  std::string directory;
  std::string xplane;   // <host>.xplane.pb
  std::string trace;    // <host>.trace.json.gz
  std::string summary;  // summary.txt
  std::string table;    // what summary.txt has
};

// Writes a profile into a new directory of profiles_directory(), named after the time it was taken, which ends with `suffix`.
// Throws what the file system refuses. A plugin's part that can't be read is left out, with a warning.
ProfileFiles write_profile(const std::string& workdir, Profile profile, const std::string& suffix = {},
                           store::FileSystem& files = store::local_files());

}  // namespace tessera::profile
