#pragma once

#include <vector>

#include "ir/graph.h"

namespace tessera::ir {

inline std::vector<TensorType> types_of(const Values& values) {
  std::vector<TensorType> types;
  for (const Value value : values) types.push_back(value.type());
  return types;
}

}  // namespace tessera::ir
