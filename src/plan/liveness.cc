#include "plan/liveness.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>

#include "base/error.h"
#include "plan/opcodes.h"

namespace tessera::plan {
namespace {

constexpr size_t kNowhere = std::numeric_limits<size_t>::max();

// Each element of the result is made of the element of the operands at the same place.
bool is_elementwise(const std::string& opcode) {
  static const std::set<std::string> kElementwise = {"abs",
                                                     "add",
                                                     "and",
                                                     "atan2",
                                                     "cbrt",
                                                     "ceil",
                                                     "clamp",
                                                     "compare",
                                                     "complex",
                                                     "convert",
                                                     "copy",
                                                     "cosine",
                                                     "divide",
                                                     "erf",
                                                     "exponential",
                                                     "exponential-minus-one",
                                                     "floor",
                                                     "imag",
                                                     "is-finite",
                                                     "log",
                                                     "log-plus-one",
                                                     "logistic",
                                                     "maximum",
                                                     "minimum",
                                                     "multiply",
                                                     "negate",
                                                     "not",
                                                     "or",
                                                     "popcnt",
                                                     "power",
                                                     "real",
                                                     "reduce-precision",
                                                     "remainder",
                                                     "round-nearest-afz",
                                                     "round-nearest-even",
                                                     "rsqrt",
                                                     "select",
                                                     "shift-left",
                                                     "shift-right-arithmetic",
                                                     "shift-right-logical",
                                                     "sign",
                                                     "sine",
                                                     "sqrt",
                                                     "subtract",
                                                     "tan",
                                                     "tanh",
                                                     "xor"};
  return kElementwise.contains(opcode);
}

// Sets of values that share memory.
class Sets {
 public:
  explicit Sets(size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), size_t{0}); }
  size_t of(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  // The set of the smaller number keeps its name.
  void join(size_t a, size_t b) {
    a = of(a), b = of(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<size_t> parent_;
};

class Account {
 public:
  Account(const pjrt::HloModule& module, const std::vector<int64_t>& spaces)
      : module_(module), spaces_(spaces), sets_(number()) {}

  Liveness run() {
    visit(module_.entry);
    share_donated();
    measure();
    share_with_operands();
    return at_worst();
  }

 private:
  struct Range {
    size_t from = kNowhere, to = 0;  // moments, both included
    int64_t bytes = 0;
    bool throughout = false;  // of an argument or a constant
    void cover(size_t moment) { from = std::min(from, moment), to = std::max(to, moment); }
  };

  // Numbers every array of every instruction.
  size_t number() {
    size_t count = 0;
    for (const pjrt::HloComputation& c : module_.computations) {
      computations_[c.id] = &c;
      std::set<int64_t> known;
      for (const pjrt::HloInstruction& i : c.instructions) {
        if (!std::ranges::all_of(i.operands, [&](int64_t o) { return known.contains(o); })) {
          throw device_error(fmt::format("the plugin's `{}` uses what is not there yet", i.name));
        }
        known.insert(i.id);
        instructions_[i.id] = &i;
        first_[i.id] = count;
        count += i.arrays.size();
        for (size_t at = 0; at < i.arrays.size(); ++at) values_.push_back({&i, at});
      }
    }
    return count;
  }

  const pjrt::HloComputation& computation(int64_t id) const {
    const auto found = computations_.find(id);
    if (found == computations_.end()) throw device_error("the plugin's program calls a computation that it does not have");
    return *found->second;
  }
  const pjrt::HloInstruction& instruction(int64_t id) const {
    const auto found = instructions_.find(id);
    if (found == instructions_.end()) throw device_error("the plugin's program names an instruction that it does not have");
    return *found->second;
  }
  const pjrt::HloInstruction& operand(const pjrt::HloInstruction& i, size_t at) const { return instruction(i.operands.at(at)); }

  size_t value(const pjrt::HloInstruction& i, size_t array) const {
    if (array >= i.arrays.size()) throw device_error(fmt::format("the plugin's `{}` has too few arrays", i.name));
    return first_.at(i.id) + array;
  }
  // Joins `count` arrays, from the given ones on.
  void join(const pjrt::HloInstruction& a, size_t from_a, const pjrt::HloInstruction& b, size_t from_b, size_t count) {
    for (size_t i = 0; i < count; ++i) sets_.join(value(a, from_a + i), value(b, from_b + i));
  }
  void join_all(const pjrt::HloInstruction& a, const pjrt::HloInstruction& b) {
    join(a, 0, b, 0, std::min(a.arrays.size(), b.arrays.size()));
  }

  // The number of arrays before element `element` of a tuple.
  static size_t before(const pjrt::HloInstruction& tuple, size_t element) {
    const auto end = tuple.elements.begin() + static_cast<ptrdiff_t>(std::min(element, tuple.elements.size()));
    return std::accumulate(tuple.elements.begin(), end, size_t{0});
  }
  // The place of an array that is named by its places in tuples. Those we meet are one deep; the first array of a deeper one.
  static size_t place(const pjrt::HloInstruction& i, const std::vector<int64_t>& path) {
    return path.empty() ? 0 : before(i, static_cast<size_t>(path[0]));
  }

  // ---- what shares memory by rule

  // Gives every instruction that is run a moment, in order, and joins what shares memory.
  void visit(int64_t id) {
    constexpr int kDeepest = 64;
    if (++depth_ > kDeepest) throw device_error("the plugin's program calls itself");
    const pjrt::HloComputation& of = computation(id);
    for (const pjrt::HloInstruction& i : of.instructions) {
      if (i.opcode == "while") {
        join_loop(i);
      } else if (is_one_of(i.opcode, {"call", "conditional", "async-start"})) {
        join_call(i);
      } else if (i.opcode == "fusion") {
        join_fusion(i);
      } else {
        join_operands(i);
      }
      for (const pjrt::HloAlias& alias : i.aliases) {
        const pjrt::HloInstruction& from = operand(i, static_cast<size_t>(alias.operand));
        sets_.join(value(i, place(i, alias.output)), value(from, place(from, alias.operand_array)));
      }
      order_.push_back(&i);
    }
    --depth_;
  }

  const pjrt::HloInstruction* parameter(const pjrt::HloComputation& of, int64_t number) const {
    for (const pjrt::HloInstruction& i : of.instructions) {
      if (i.opcode == "parameter" && i.parameter == number) return &i;
    }
    return nullptr;
  }

  // A loop carries its state in place.
  void join_loop(const pjrt::HloInstruction& loop) {
    join_all(loop, operand(loop, 0));
    for (const int64_t called : loop.called) {
      const pjrt::HloComputation& of = computation(called);
      if (const pjrt::HloInstruction* state = parameter(of, 0)) join_all(loop, *state);
      const pjrt::HloInstruction& root = instruction(of.root);
      if (root.arrays.size() == loop.arrays.size()) join_all(loop, root);  // the condition's is a truth value
      visit(called);
    }
  }

  void join_call(const pjrt::HloInstruction& i) {
    const bool branches = i.opcode == "conditional";
    const size_t result = i.opcode == "async-start" ? before(i, 1) : 0;
    for (size_t c = 0; c < i.called.size(); ++c) {
      const pjrt::HloComputation& of = computation(i.called[c]);
      for (size_t at = branches ? c + 1 : 0; at < (branches ? std::min(c + 2, i.operands.size()) : i.operands.size()); ++at) {
        const pjrt::HloInstruction* p = parameter(of, branches ? 0 : static_cast<int64_t>(at));
        if (p) join_all(*p, operand(i, at));
      }
      const pjrt::HloInstruction& root = instruction(of.root);
      join(i, result, root, 0, std::min(root.arrays.size(), i.arrays.size() - std::min(result, i.arrays.size())));
      visit(i.called[c]);
    }
    if (i.opcode == "async-start") join_start(i);
  }

  // A tuple, or the result of a start, holds the operands first.
  void join_start(const pjrt::HloInstruction& i) {
    size_t at = 0;
    for (size_t o = 0; o < i.operands.size(); ++o) {
      const pjrt::HloInstruction& from = operand(i, o);
      join(i, at, from, 0, std::min(from.arrays.size(), i.arrays.size() - std::min(at, i.arrays.size())));
      at += from.arrays.size();
    }
  }

  void join_operands(const pjrt::HloInstruction& i) {
    if (is_one_of(i.opcode, {"tuple", "all-gather-start", "collective-permute-start"})) {
      join_start(i);
    } else if (i.opcode == "get-tuple-element") {
      join(i, 0, operand(i, 0), before(operand(i, 0), static_cast<size_t>(i.tuple_index)), i.arrays.size());
    } else if (is_one_of(i.opcode, {"bitcast", "optimization-barrier", "domain", "add-dependency", "all-reduce-start",
                                    "all-reduce-done", "async-update", "dynamic-update-slice", "scatter", "sort"})) {
      for (size_t o = 0, at = 0; o < i.operands.size() && at < i.arrays.size(); ++o) {
        join(i, at, operand(i, o), 0, std::min(operand(i, o).arrays.size(), i.arrays.size() - at));
        at += operand(i, o).arrays.size();
      }
    } else if (is_one_of(i.opcode, {"all-gather-done", "collective-permute-done", "async-done"})) {
      const pjrt::HloInstruction& start = operand(i, 0);
      join(i, 0, start, before(start, 1), std::min(i.arrays.size(), start.arrays.size() - before(start, 1)));
    } else if (i.opcode == "copy-start") {
      join(i, 1, operand(i, 0), 0, i.arrays.size() > 1 ? 1 : 0);
    } else if (i.opcode == "copy-done") {
      join_all(i, operand(i, 0));
    }
  }

  // The operation that writes into a part of another array and ends with array `at` of `i`, in a fusion or not; null where
  // another operation ends with it.
  const pjrt::HloInstruction* written_into(const pjrt::HloInstruction& i, size_t at) const {
    const pjrt::HloInstruction* last = i.opcode == "fusion" ? &instruction(computation(i.called.at(0)).root) : &i;
    if (last->opcode == "tuple") last = &operand(*last, at);
    while (last->opcode == "bitcast") last = &operand(*last, 0);
    return is_one_of(last->opcode, {"dynamic-update-slice", "scatter"}) ? last : nullptr;
  }

  // A fusion that ends by writing into one of its operands does so in place.
  void join_fusion(const pjrt::HloInstruction& i) {
    for (size_t at = 0; at < i.arrays.size(); ++at) {
      const pjrt::HloInstruction* written = written_into(i, at);
      if (!written) continue;
      const pjrt::HloInstruction* into = &operand(*written, 0);
      while (is_one_of(into->opcode, {"bitcast", "copy"})) into = &operand(*into, 0);
      if (into->opcode != "parameter") continue;
      const pjrt::HloInstruction& outer = operand(i, static_cast<size_t>(into->parameter));
      if (outer.arrays.size() == 1) sets_.join(value(i, at), value(outer, 0));
    }
  }

  void share_donated() {
    const pjrt::HloComputation& entry = computation(module_.entry);
    const pjrt::HloInstruction& root = instruction(entry.root);
    for (const pjrt::HloAlias& alias : module_.aliases) {
      const pjrt::HloInstruction* argument = parameter(entry, alias.operand);
      if (argument) sets_.join(value(root, place(root, alias.output)), value(*argument, place(*argument, alias.operand_array)));
    }
  }

  // ---- when it is alive

  bool in_main_memory(const pjrt::HloArray& array) const {
    return std::find(spaces_.begin(), spaces_.end(), array.memory_space) != spaces_.end();
  }

  void measure() {
    ranges_.resize(values_.size());
    for (size_t moment = 0; moment < order_.size(); ++moment) {
      const pjrt::HloInstruction& i = *order_[moment];
      for (size_t at = 0; at < i.arrays.size(); ++at) {
        Range& range = ranges_[sets_.of(value(i, at))];
        range.cover(moment);
        if (in_main_memory(i.arrays[at])) range.bytes = std::max(range.bytes, i.arrays[at].padded_bytes());
        if (i.opcode == "constant") range.throughout = true;
      }
      for (const int64_t o : i.operands) {
        const pjrt::HloInstruction& from = instruction(o);
        // A tuple's arrays are read where they are taken out, which is no reading of the others.
        if (i.opcode == "get-tuple-element" && from.arrays.size() > 1) continue;
        for (size_t at = 0; at < from.arrays.size(); ++at) ranges_[sets_.of(value(from, at))].cover(moment);
      }
    }
    for (const pjrt::HloInstruction& i : computation(module_.entry).instructions) {
      const bool stays = i.opcode == "parameter" || i.id == computation(module_.entry).root;
      for (size_t at = 0; stays && at < i.arrays.size(); ++at) {
        Range& range = ranges_[sets_.of(value(i, at))];
        range.to = order_.size();
        range.throughout = range.throughout || i.opcode == "parameter";
      }
    }
    for (Range& range : ranges_) {
      if (range.throughout) range.from = 0, range.to = order_.size();
    }
  }

  // ---- what shares memory because it can

  void share_with_operands() {
    for (size_t moment = 0; moment < order_.size(); ++moment) {
      const pjrt::HloInstruction& i = *order_[moment];
      if (!is_one_of(i.opcode, {"fusion", "all-reduce"}) && !is_elementwise(i.opcode)) continue;
      for (size_t at = 0; at < i.arrays.size(); ++at) share_with_an_operand(i, at, moment);
    }
  }

  // A sum over devices is made in place, operand by operand. A TPU's gather that is shown as a sum of every device's part among
  // zeros is not.
  void share_with_an_operand(const pjrt::HloInstruction& i, size_t at, size_t moment) {
    const size_t result = sets_.of(value(i, at));
    if (ranges_[result].from != moment || ranges_[result].bytes == 0) return;
    for (size_t o = 0; o < i.operands.size(); ++o) {
      const pjrt::HloInstruction& from = operand(i, o);
      if (from.arrays.size() != 1) continue;
      if (i.opcode == "all-reduce" && (o != at || written_into(from, 0))) continue;
      const size_t source = sets_.of(value(from, 0));
      if (source == result || ranges_[source].to != moment || ranges_[source].bytes != ranges_[result].bytes) continue;
      if (from.arrays[0].dims != i.arrays[at].dims || from.arrays[0].minor_to_major != i.arrays[at].minor_to_major) continue;
      if (i.opcode == "fusion" && !fusion_is_elementwise(i, o)) continue;
      Range both = ranges_[source];
      both.to = ranges_[result].to;
      sets_.join(source, result);
      ranges_[sets_.of(source)] = both;
      return;
    }
  }

  // All that a fusion makes of operand `o` is elementwise.
  bool fusion_is_elementwise(const pjrt::HloInstruction& fusion, size_t o) const {
    std::set<int64_t> reached;
    for (const pjrt::HloInstruction& i : computation(fusion.called.at(0)).instructions) {
      if (i.opcode == "parameter") {
        if (i.parameter == static_cast<int64_t>(o)) reached.insert(i.id);
        continue;
      }
      const bool uses = std::ranges::any_of(i.operands, [&](int64_t id) { return reached.contains(id); });
      if (!uses) continue;
      if (i.opcode == "reduce") continue;  // its result is another one
      if (!is_elementwise(i.opcode) && !is_one_of(i.opcode, {"tuple", "bitcast"})) return false;
      reached.insert(i.id);
    }
    return true;
  }

  // ---- the worst moment

  Liveness at_worst() {
    Liveness out;
    std::map<size_t, size_t> places = describe(out);
    std::map<size_t, int64_t> changes;
    for (const auto& [set, place] : places) {
      changes[ranges_[set].from] += ranges_[set].bytes;
      changes[ranges_[set].to + 1] -= ranges_[set].bytes;
    }
    size_t worst = 0;
    int64_t alive = 0;
    for (const auto& [moment, change] : changes) {
      alive += change;
      if (alive > out.peak) out.peak = alive, worst = moment;
    }
    for (const auto& [set, place] : places) {
      const Range& range = ranges_[set];
      if (range.bytes > 0 && range.from <= worst && worst <= range.to) out.at_peak.push_back(place);
    }
    std::ranges::stable_sort(out.at_peak, std::ranges::greater(), [&](size_t i) { return out.buffers[i].bytes; });
    return out;
  }

  // The buffers: who writes to them, which arguments they hold. Gives the place of each set of what is run.
  std::map<size_t, size_t> describe(Liveness& out) {
    std::map<size_t, size_t> places;
    for (const pjrt::HloInstruction* i : order_) {
      std::vector<size_t>& own = out.buffers_of[i->id];
      if (!own.empty()) continue;  // of a computation that is called twice
      for (size_t at = 0; at < i->arrays.size(); ++at) {
        const size_t set = sets_.of(value(*i, at));
        const auto [place, is_new] = places.emplace(set, out.buffers.size());
        if (is_new) out.buffers.push_back({.bytes = ranges_[set].bytes, .argument = {}, .writes = {}});
        own.push_back(place->second);
        if (!only_names(*i)) out.buffers[place->second].writes.push_back({i, at});
      }
    }
    for (const pjrt::HloInstruction& i : computation(module_.entry).instructions) {
      if (i.opcode != "parameter") continue;
      for (const size_t place : out.buffers_of.at(i.id)) out.buffers[place].argument = i.parameter;
    }
    return places;
  }

  // Writes nothing: its result is what others have written.
  static bool only_names(const pjrt::HloInstruction& i) {
    return is_one_of(
        i.opcode, {"tuple", "get-tuple-element", "bitcast", "while", "call", "conditional", "parameter", "optimization-barrier",
                   "all-gather-done", "all-reduce-done", "async-done", "copy-done", "collective-permute-done", "async-update"});
  }

  const pjrt::HloModule& module_;
  const std::vector<int64_t>& spaces_;
  std::map<int64_t, const pjrt::HloComputation*> computations_;
  std::map<int64_t, const pjrt::HloInstruction*> instructions_;
  std::map<int64_t, size_t> first_;  // of an instruction's values
  std::vector<HloValue> values_;
  Sets sets_;
  std::vector<const pjrt::HloInstruction*> order_;  // by moment
  std::vector<Range> ranges_;                       // by set
  int depth_ = 0;
};

}  // namespace

std::optional<Liveness> liveness_of(const pjrt::HloModule& module, const std::vector<int64_t>& spaces) {
  if (!module.scheduled) return std::nullopt;
  try {
    return Account(module, spaces).run();
  } catch (const std::out_of_range&) {
    throw device_error("the plugin's program contradicts itself");
  }
}

}  // namespace tessera::plan
