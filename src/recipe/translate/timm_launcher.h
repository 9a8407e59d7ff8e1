#pragma once
// The launcher's words before train.py's own on a command line of timm's.

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::translate {

// The devices that a launcher's words name, and how many words are not train.py's.
struct Launcher {
  int64_t devices = 0;
  size_t words = 0;
};
// distributed_train.sh N, torchrun --nproc-per-node=N train.py; a usage Error where the number is missing.
Launcher find_launcher(const std::vector<std::string>& words);

}  // namespace tessera::translate
