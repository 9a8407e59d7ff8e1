#pragma once
// Messages between the processes, through files of the directory that $TESSERA_JOINT_DIRECTORY names.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "key_values.h"

namespace tessera::joint {

// A value of the environment; `otherwise` where it is unset.
std::string environment(const char* name, const std::string& otherwise);

// Of one process. One call at a time.
class Exchange {
 public:
  Exchange(KeyValues store, int64_t node);

  // The messages of `nodes`, this one's among them, which is `message`. The n-th call for some nodes is the n-th call of each of
  // them for these nodes. Throws UNAVAILABLE, with the process's number, for one that doesn't come within $TESSERA_JOINT_PATIENCE
  // seconds, else 120.
  std::map<int64_t, std::string> swap(const std::vector<int64_t>& nodes, const std::string& message);
  // A name for the last of these calls, which all `nodes` have alike and no other call has.
  std::string last(const std::vector<int64_t>& nodes) const;

 private:
  // What the processes between which there is something have agreed on, as NCCL's communicators.
  struct Clique {
    std::string token;  // begins the names of their files
    int64_t calls = 0;
  };
  Clique& clique(const std::vector<int64_t>& nodes);
  std::string path(const Clique& clique, int64_t call, int64_t node) const;

  KeyValues store_;
  int64_t node_;
  std::map<std::vector<int64_t>, Clique> cliques_;
};

}  // namespace tessera::joint
