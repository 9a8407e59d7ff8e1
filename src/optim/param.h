#pragma once
// What the optimizer needs to know of a parameter: its name, which rules match, and its shape.

#include <cstdint>
#include <string>
#include <vector>

#include "base/shape.h"

namespace tessera::optim {

struct Param {
  std::string name;  // "blocks/attn/qkv/kernel"
  TensorType type;
  bool stacked = false;  // the leading axis counts the blocks of a scan: it is no dimension of the parameter itself

  int64_t rank() const { return type.rank() - (stacked ? 1 : 0); }  // of one block's array
};
using Params = std::vector<Param>;

}  // namespace tessera::optim
