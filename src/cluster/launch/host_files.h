#pragma once
// What a host needs to run the program: files of this machine, each known by its SHA-256.

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/launch/launcher.h"
#include "cluster/launch/processes/plan.h"

namespace tessera::launch {

// The program, the libraries it uses but the C and C++ libraries, its modules as far as the run needs them, and an etcd where one is
// installed. The plugin may be empty; a recipe on a server is left out. Names: bin/tessera, lib/libre2.so.9, bin/<plugin>,
// recipe/<recipe>.
std::vector<CopiedFile> files_of_a_host(const Request& request);

// The recipe as a host that has its files in `directory` names it.
std::string recipe_on_host(const std::string& recipe, const std::string& directory);

struct HashedFile {
  CopiedFile file;
  std::string sha256;  // 64 hexadecimal digits
  int64_t bytes = 0;
};
// Reads them all. A data Error where one can't be read.
std::vector<HashedFile> hashed(const std::vector<CopiedFile>& files);
// Names all of them together: names and contents.
std::string digest_of(const std::vector<HashedFile>& files);

}  // namespace tessera::launch
