#pragma once
// Questions about an instruction's opcode.

#include <algorithm>
#include <initializer_list>
#include <string>

namespace tessera::plan {

inline bool is_one_of(const std::string& opcode, std::initializer_list<const char*> opcodes) {
  return std::find(opcodes.begin(), opcodes.end(), opcode) != opcodes.end();
}

}  // namespace tessera::plan
