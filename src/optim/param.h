#pragma once
// What the optimizer needs to know of a parameter: its name, which rules match, and its shape.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/shape.h"

namespace tessera::optim {

struct Param {
  std::string name;  // "blocks/attn/qkv/kernel"
  TensorType type;
  bool stacked = false;  // the leading axis counts the blocks of a scan: it is no dimension of the parameter itself
  bool trained = true;   // false: a buffer, which the optimizer leaves alone
  // Which layer of the model it belongs to, from the input; of a stacked one its first block, the next block one more. For
  // layer decay; nothing where the model does not say.
  std::optional<int64_t> layer = {};

  // Of one block's array.
  Dims block_dims() const { return Dims(type.dims.begin() + (stacked ? 1 : 0), type.dims.end()); }
  int64_t rank() const { return type.rank() - (stacked ? 1 : 0); }
  // A matrix or filter, [in, out] or [h, w, in, out]: its output units lie along its last axis.
  bool is_kernel() const { return rank() > 1 && (name == "kernel" || name.ends_with("/kernel")); }
};
using Params = std::vector<Param>;

}  // namespace tessera::optim
