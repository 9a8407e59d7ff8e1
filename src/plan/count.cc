#include "plan/count.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "plan/opcodes.h"

namespace tessera::plan {
namespace {

double product(const std::vector<int64_t>& dims) {
  double value = 1;
  for (const int64_t dim : dims) value *= static_cast<double>(dim);
  return value;
}

class Counter {
 public:
  explicit Counter(const pjrt::HloModule& module) : module_(module) {
    for (const pjrt::HloComputation& c : module.computations) {
      computations_[c.id] = &c;
      for (const pjrt::HloInstruction& i : c.instructions) {
        instructions_[i.id] = &i;
        for (const int64_t operand : i.operands) users_[operand].push_back(&i);
      }
    }
  }

  Counts run() {
    visit(module_.entry, 1);
    return std::move(counts_);
  }

 private:
  // What a device does when a computation runs `times` times.
  void visit(int64_t computation, double times) {
    for (const pjrt::HloInstruction& i : computations_.at(computation)->instructions) {
      if (i.opcode == "while") {
        if (!i.trip_count) throw device_error(fmt::format("the number of rounds of loop `{}` is not known", i.name));
        for (const int64_t called : i.called) visit(called, times * static_cast<double>(*i.trip_count));
      } else if (is_one_of(i.opcode, {"fusion", "call", "conditional"})) {
        for (const int64_t called : i.called) visit(called, times);
      } else if (i.opcode == "dot") {
        const pjrt::HloArray& lhs = operand(i, 0).arrays[0];
        double depth = 1;
        for (const int64_t dim : i.lhs_contract) depth *= static_cast<double>(lhs.dims[static_cast<size_t>(dim)]);
        add_product(i, 2 * depth, times);
      } else if (i.opcode == "convolution") {
        const pjrt::HloArray& kernel = operand(i, 1).arrays[0];
        const auto features = static_cast<double>(kernel.dims[static_cast<size_t>(i.kernel_output_feature)]);
        add_product(i, 2 * product(kernel.dims) / features, times);
      } else {
        add_collective(i, times);
      }
    }
  }

  const pjrt::HloInstruction& operand(const pjrt::HloInstruction& i, size_t index) const {
    return *instructions_.at(i.operands[index]);
  }

  void add_product(const pjrt::HloInstruction& i, double flops_of_an_element, double times) {
    counts_.flops += times * flops_of_an_element * product(i.arrays[0].dims);
    counts_.product_bytes += times * static_cast<double>(i.bytes() + operand(i, 0).bytes() + operand(i, 1).bytes());
  }

  void add_collective(const pjrt::HloInstruction& i, double times) {
    if (!is_one_of(i.opcode, {"all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute"})) return;
    for (size_t part = 0; part < i.arrays.size(); ++part) {
      const bool scattered = i.opcode == "reduce-scatter" || (i.opcode == "all-reduce" && only_sliced(i, part));
      const auto bytes = static_cast<double>(i.opcode == "reduce-scatter" ? operand(i, part).bytes() : i.arrays[part].bytes());
      Collective& entry = counts_.collectives[scattered ? "reduce-scatter" : i.opcode];
      entry.bytes += times * bytes;
      counts_.transfer_bytes += times * 2 * bytes;
      // Arrays that travel together are one transfer.
      if (part == 0) entry.count += static_cast<int64_t>(times);
    }
  }

  // True when array `part` of a result is used through slices alone.
  bool only_sliced(const pjrt::HloInstruction& i, size_t part) const {
    if (i.arrays[part].dims.empty()) return false;
    if (i.arrays.size() == 1) return users_only_slice(i);
    const auto users = users_.find(i.id);
    if (users == users_.end()) return false;
    bool used = false;
    for (const pjrt::HloInstruction* user : users->second) {
      if (user->opcode != "get-tuple-element" || user->tuple_index != static_cast<int64_t>(part)) continue;
      used = true;
      if (!users_only_slice(*user)) return false;
    }
    return used;
  }

  bool users_only_slice(const pjrt::HloInstruction& i) const {
    const auto users = users_.find(i.id);
    return users != users_.end() && std::all_of(users->second.begin(), users->second.end(),
                                                [&](const pjrt::HloInstruction* user) { return slices(*user, i.id); });
  }

  // True when `user` takes but a slice of the value `id`.
  bool slices(const pjrt::HloInstruction& user, int64_t id) const {
    if (is_one_of(user.opcode, {"dynamic-slice", "slice"})) return user.operands[0] == id;
    if (is_one_of(user.opcode, {"bitcast", "reshape", "transpose", "copy", "convert"})) return users_only_slice(user);
    if (user.opcode != "fusion") return false;
    for (const pjrt::HloInstruction& inner : computations_.at(user.called[0])->instructions) {
      if (inner.opcode != "parameter" || user.operands[static_cast<size_t>(inner.parameter)] != id) continue;
      if (!users_only_slice(inner)) return false;
    }
    return true;
  }

  const pjrt::HloModule& module_;
  std::map<int64_t, const pjrt::HloComputation*> computations_;
  std::map<int64_t, const pjrt::HloInstruction*> instructions_;
  std::map<int64_t, std::vector<const pjrt::HloInstruction*>> users_;
  Counts counts_;
};

}  // namespace

Counts count(const pjrt::HloModule& module) { return Counter(module).run(); }

}  // namespace tessera::plan
