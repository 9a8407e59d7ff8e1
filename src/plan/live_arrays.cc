#include "plan/live_arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "base/error.h"
#include "base/shape.h"
#include "plan/opcodes.h"

namespace tessera::plan {
namespace {

constexpr std::string_view kGradient = "gradient/";

// The same numbers elsewhere, in another order or type, a part of them or those of all devices.
bool moves(const std::string& opcode) {
  return is_one_of(opcode, {"bitcast", "bitcast-convert", "copy", "copy-start", "copy-done", "convert", "reshape", "transpose",
                            "slice", "dynamic-slice", "get-tuple-element", "optimization-barrier", "async-start", "async-done",
                            "all-gather", "all-gather-start"});
}

class Naming {
 public:
  Naming(const pjrt::HloModule& module, const Liveness& liveness) : liveness_(liveness) {
    for (const pjrt::HloComputation& c : module.computations) {
      computations_[c.id] = &c;
      for (const pjrt::HloInstruction& i : c.instructions) {
        instructions_[i.id] = &i;
        if (c.id == module.entry && i.opcode == "parameter") arguments_[i.parameter] = &i;
      }
    }
  }

  LiveArray describe(size_t at) const {
    const Buffer& buffer = liveness_.buffers[at];
    const HloValue* made = maker(buffer);
    LiveArray out{name(buffer), {}, buffer.bytes};
    if (buffer.argument) {
      out.type = type_of(arguments_.at(*buffer.argument)->arrays[0]);
    } else if (made) {
      out.type = type_of(made->array());
    }
    return out;
  }

 private:
  struct Source {
    std::string argument;  // where the numbers come from; empty where they are computed
    bool gathered = false, converted = false;
  };

  static std::string type_of(const pjrt::HloArray& array) { return fmt::format("{}{}", array.dtype, to_string(array.dims)); }

  // The first write that says something: one that reads arrays, not the memory itself, nor the zeros that it begins with.
  const HloValue* maker(const Buffer& buffer) const {
    for (const HloValue& write : buffer.writes) {
      const auto is_array = [&](int64_t operand) { return !is_number(*instructions_.at(operand)); };
      if (std::ranges::any_of(write.instruction->operands, is_array)) return &write;
    }
    return buffer.writes.empty() ? nullptr : &buffer.writes.front();
  }

  static bool is_number(const pjrt::HloInstruction& i) { return i.arrays.size() == 1 && i.arrays[0].elements() == 1; }

  std::string name(const Buffer& buffer) const {
    if (buffer.argument) return called(*arguments_.at(*buffer.argument));
    if (buffer.writes.empty()) return "an unnamed array";
    const Source source = source_of(buffer, 0);
    if (!source.argument.empty()) {
      return source.argument + (source.gathered ? ", gathered" : source.converted ? ", converted" : ", copied");
    }
    const pjrt::HloInstruction& made = named(*maker(buffer));
    if (made.op_name.empty()) return "an unnamed " + made.opcode;
    const std::string part = part_of_model(made.op_name);
    if (part.starts_with(kGradient)) return "gradient of " + part.substr(kGradient.size());
    if (fills_a_stack(*maker(buffer))) return part + ", saved for the backward pass";
    return is_one_of(made.opcode, {"all-gather", "all-gather-start"}) ? part + ", gathered" : part;
  }

  // What made it; of a fusion without a name, the instruction in it that has one and makes such an array.
  const pjrt::HloInstruction& named(const HloValue& made) const {
    const auto inside = computations_.find(made.instruction->called.empty() ? -1 : made.instruction->called[0]);
    if (!made.instruction->op_name.empty() || inside == computations_.end()) return *made.instruction;
    for (const pjrt::HloInstruction& i : inside->second->instructions) {
      const bool same = i.arrays.size() == 1 && type_of(i.arrays[0]) == type_of(made.array());
      if (same && !i.op_name.empty() && i.opcode != "parameter") return i;
    }
    return *made.instruction;
  }

  // "blocks/mlp/fc1/dot_general"; without the operation where that only moves or fills.
  static std::string part_of_model(const std::string& op_name) {
    const size_t slash = op_name.rfind('/');
    const bool plain =
        slash != std::string::npos &&
        is_one_of(op_name.substr(slash + 1), {"broadcast_in_dim", "concatenate", "constant", "convert", "custom_call",
                                              "dynamic_slice", "dynamic_update_slice", "optimization_barrier", "reshape",
                                              "sharding_constraint", "slice", "transpose", "while"});
    return plain ? op_name.substr(0, slash) : op_name;
  }

  // What the program's text calls it; an argument without a name by its number.
  static std::string called(const pjrt::HloInstruction& argument) {
    return argument.op_name.empty() ? fmt::format("argument {}", argument.parameter) : argument.op_name;
  }

  // Written slice by slice, a slice in each round of a loop.
  bool fills_a_stack(const HloValue& write) const { return updates(write) != nullptr; }

  // The dynamic-update-slice that a value comes from, in a fusion or not; null where it comes from something else.
  const pjrt::HloInstruction* updates(const HloValue& write) const {
    const pjrt::HloInstruction* i = write.instruction;
    if (i->opcode == "fusion") i = instructions_.at(computations_.at(i->called.at(0))->root);
    if (i->opcode == "tuple") i = instructions_.at(i->operands.at(write.index));
    while (i->opcode == "bitcast") i = instructions_.at(i->operands.at(0));
    return i->opcode == "dynamic-update-slice" ? i : nullptr;
  }

  // Back through what only moves numbers to the program's argument that they come from.
  Source source_of(const Buffer& buffer, int depth) const {
    constexpr int kDeep = 24;
    if (buffer.argument) return {called(*arguments_.at(*buffer.argument)), false, false};
    const HloValue* made = maker(buffer);
    if (!made || depth > kDeep) return {};
    const pjrt::HloInstruction& i = *made->instruction;
    const auto from = moved_operand(i);
    if (!from) return {};
    const auto found = liveness_.buffers_of.find(*from);
    if (found == liveness_.buffers_of.end() || found->second.size() != 1) return {};
    Source source = source_of(liveness_.buffers[found->second[0]], depth + 1);
    const pjrt::HloArray& before = instructions_.at(*from)->arrays[0];
    source.converted = source.converted || before.dtype != made->array().dtype;
    source.gathered = source.gathered || before.elements() < made->array().elements();
    return source;
  }

  // The operand whose numbers `i` moves, if that is all it does.
  std::optional<int64_t> moved_operand(const pjrt::HloInstruction& i) const {
    if (i.operands.empty()) return std::nullopt;
    if (moves(i.opcode)) return i.operands[0];
    // A gather that is written as a sum of every device's part among zeros.
    if (i.opcode == "all-reduce" && i.operands.size() == 1 && updates({instructions_.at(i.operands[0]), 0}))
      return i.operands[0];
    if (i.opcode == "dynamic-update-slice" && is_one_of(instructions_.at(i.operands[0])->opcode, {"broadcast", "constant"}))
      return i.operands[1];
    if (i.opcode == "fusion") return moved_by_fusion(i);
    return std::nullopt;
  }

  std::optional<int64_t> moved_by_fusion(const pjrt::HloInstruction& fusion) const {
    const auto found = computations_.find(fusion.called.empty() ? -1 : fusion.called[0]);
    if (found == computations_.end()) return std::nullopt;
    for (const pjrt::HloInstruction& i : found->second->instructions) {
      // Zeros, and an argument's part that is written among them: into another argument would be two arrays.
      const bool zeros = i.opcode == "broadcast" && is_number(*instructions_.at(i.operands.at(0)));
      if (zeros || i.opcode == "dynamic-update-slice") continue;
      if (!is_number(i) && i.opcode != "parameter" && !moves(i.opcode)) return std::nullopt;
    }
    std::optional<int64_t> only;
    for (const int64_t operand : fusion.operands) {
      if (is_number(*instructions_.at(operand))) continue;  // an index
      if (only) return std::nullopt;
      only = operand;
    }
    return only;
  }

  const Liveness& liveness_;
  std::map<int64_t, const pjrt::HloComputation*> computations_;
  std::map<int64_t, const pjrt::HloInstruction*> instructions_;
  std::map<int64_t, const pjrt::HloInstruction*> arguments_;  // by number
};

}  // namespace

std::vector<LiveArray> live_arrays(const pjrt::HloModule& module, const Liveness& liveness) {
  try {
    const Naming naming(module, liveness);
    std::vector<LiveArray> out;
    for (const size_t at : liveness.at_peak) out.push_back(naming.describe(at));
    return out;
  } catch (const std::out_of_range&) {
    throw device_error("the plugin's program contradicts itself");
  }
}

}  // namespace tessera::plan
