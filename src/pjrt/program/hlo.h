#pragma once
// The part of XLA's HloModuleProto that plans and profiles need: computations, instructions, shapes and their
// layouts, the schedule. What a plugin gives as the optimized program of an executable.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::pjrt {

// An array, or one of the arrays of a tuple. Element types XLA knows and we don't have size 0.
struct HloArray {
  std::string dtype;  // "f32", "bf16", "s32", "pred"
  int64_t element_bytes = 0;
  std::vector<int64_t> dims;
  std::vector<int64_t> minor_to_major;      // as it lies in memory; empty where the program does not say
  std::vector<std::vector<int64_t>> tiles;  // as XLA prints them: T(8,128)(2,1)
  int64_t memory_space = 0;                 // 0 is the device's main memory
  int64_t elements() const;
  int64_t bytes() const { return elements() * element_bytes; }
  // What it takes in memory: its last dimensions, as they lie there, are rounded up to whole tiles
  // (openxla.org/xla/tiled_layout).
  int64_t padded_bytes() const;
};

// Array `output` of a result takes over the memory of array `operand_array` of operand `operand`.
struct HloAlias {
  std::vector<int64_t> output, operand_array;  // places in a tuple, outermost first
  int64_t operand = 0;
};

struct HloInstruction {
  std::string name, opcode;
  std::string op_name;           // what the program it was compiled from calls it (metadata); may be empty
  std::string target;            // of a custom call
  std::vector<HloArray> arrays;  // of its result, those of nested tuples in order
  // Where the result is a tuple: the number of arrays in each of its elements.
  std::vector<size_t> elements;
  int64_t id = 0, parameter = 0, tuple_index = 0;
  std::vector<int64_t> operands, called;  // ids
  std::vector<int64_t> lhs_contract;      // of a dot
  int64_t kernel_output_feature = 0;      // of a convolution
  std::optional<int64_t> trip_count;      // of a while, where it is known
  std::vector<HloAlias> aliases;          // of a fusion or custom call that works in place
  int64_t bytes() const;
};

struct HloComputation {
  std::vector<HloInstruction> instructions;  // as they are run, in a scheduled module; else in an order that respects operands
  int64_t id = 0, root = 0;
};

struct HloModule {
  std::vector<HloComputation> computations;
  int64_t entry = 0;
  bool scheduled = false;         // every computation that is run step by step has an order
  std::vector<HloAlias> aliases;  // results that take over the memory of arguments: `operand` is the argument's number
};

// `format` as the plugin says: "hlo" or "hlo_with_config". Throws a device Error for anything that is no such message.
HloModule parse_hlo(std::string_view bytes, std::string_view format);

}  // namespace tessera::pjrt
