// An array with what is in its memory, for one that is written before it is read: the stacks that a scan fills slice by slice.

#include <optional>

#include "host/call.h"
#include "host/kernel.h"
#include "ir/op_entries.h"
#include "ir/ops.h"

namespace tessera::host {
namespace {

// Of a call; the array may have any type.
struct Stack {
  int64_t stack = 0;

  template <class Visitor>
  void visit(Visitor&& field) {
    field("stack", stack, "tells calls apart, so that the compiler does not take two for the same array");
  }
};

bool unwritten(const Call&) { return true; }

constexpr Function kFunction{"unwritten", unwritten};
constexpr Entry kFunctions[] = {kEntry<kFunction>};

// Bytes below which a call takes as long as writing zeros.
constexpr int64_t kLargeStack = int64_t{1} << 18;

std::optional<ir::Values> replace(const ir::Node& node, const ir::Values&, Selection& selection) {
  const bool filled = node.op == &ir::kOpConstant && node.has_attr("_filled");
  if (!filled || selection.devices.mesh || byte_count(node.types[0]) < kLargeStack) return std::nullopt;
  return ir::ffi_call(call_target(kFunction.name), {}, node.types, ir::encode(Stack{selection.stacks++}));
}

}  // namespace

constinit const Kernel kUnwritten{.functions = kFunctions, .replace = replace};

}  // namespace tessera::host
