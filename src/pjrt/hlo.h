#pragma once
// The part of XLA's HloModuleProto that plans and profiles need: computations, instructions, shapes. What a plugin gives as the
// optimized program of an executable.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::pjrt {

// An array, or the arrays of a tuple, flattened. Element types XLA knows and we don't have size 0.
struct HloArray {
  int64_t element_bytes = 0;
  std::vector<int64_t> dims;
  int64_t elements() const;
  int64_t bytes() const { return elements() * element_bytes; }
};

struct HloInstruction {
  std::string name, opcode;
  std::string scope;             // of the ops that it was made of (ir::NameScope); empty where the program says none
  std::vector<HloArray> arrays;  // of its result
  int64_t id = 0, parameter = 0, tuple_index = 0;
  std::vector<int64_t> operands, called;  // ids
  std::vector<int64_t> lhs_contract;      // of a dot
  int64_t kernel_output_feature = 0;      // of a convolution
  std::optional<int64_t> trip_count;      // of a while, where it is known
  int64_t bytes() const;
};

struct HloComputation {
  std::vector<HloInstruction> instructions;  // in an order that respects operands
  int64_t id = 0, root = 0;
};

struct HloModule {
  std::vector<HloComputation> computations;
  int64_t entry = 0;
};

// `format` as the plugin says: "hlo" or "hlo_with_config". Throws a device Error for anything that is no such message.
HloModule parse_hlo(std::string_view bytes, std::string_view format);

}  // namespace tessera::pjrt
