#pragma once
// A kernel: functions that a compiled program can call on this processor, and which parts of a finished graph they replace. Each
// kernel has a file of its own, with its arithmetic, and a line of kernels.def.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/shape.h"
#include "ir/composite.h"
#include "ir/graph.h"
#include "mesh/mesh.h"
#include "mesh/partition.h"

// Of xla/ffi/api/c_api.h, which only call.h includes.
struct XLA_FFI_Error;
struct XLA_FFI_CallFrame;

namespace tessera::host {

// The devices that a program runs on: virtual devices of this host where there are several. A call takes whole rows of a batch.
struct Devices {
  std::optional<mesh::Mesh> mesh;  // none: one device, or each by itself
  // Whether a device has but some rows of the batch: others, of this process or of others, run the same program over theirs.
  bool one_of_many = false;
  int64_t that_meet = 1;  // of those, the devices of this process

  int64_t count() const { return mesh ? mesh::batch_parts(*mesh) : 1; }
  // Whether others compute further rows of the batch.
  bool share_batch() const { return mesh || one_of_many; }
  // Whether so many rows divide evenly over the devices.
  bool can_share(int64_t rows) const { return rows % count() == 0; }
};

// The state of one pass over one graph.
struct Selection {
  const Devices& devices;
  int64_t stacks = 0;                     // number of stacks whose first contents are left unwritten
  int64_t channels = 0;                   // number of calls so far that other processes take part in
  std::map<ir::Value, ir::Value> as_f32;  // of bf16 values, for kernels that take those as f32
};

// A function as a program calls it: custom_call @tessera.<name>. One that computes a composite has that composite's name.
struct Entry {
  const char* name;
  XLA_FFI_Error* (*handler)(XLA_FFI_CallFrame* frame);
};
std::string call_target(const std::string& name);

using Types = std::vector<TensorType>;

// A composite as one call of the function of its name; over several devices each calls it for its own part of every array.
ir::Values call_function(const ir::Composite& composite, const ir::Values& operands, const Types& results,
                         Selection& selection);

// The functions of a layer with weights that all examples share: (x, kernel) -> y, (cotangent of y, kernel) -> that of x, and
// (x, cotangent of y) -> that of the kernel.
struct KernelFunctions {
  const char *forward, *input_gradient, *kernel_gradient;
};

// A composite (x, kernel) -> y, or its gradient, as calls of these functions. On several devices each call takes the device's
// rows of the batch and the whole kernel, and the devices' gradients of the kernel are summed.
ir::Values call_with_whole_kernel(const ir::Composite& composite, const ir::Values& operands, const Types& results,
                                  Selection& selection, const KernelFunctions& functions);

// Which operand of a call is the right side of its products: a layer's weights.
inline constexpr size_t kRightOperand = 1;

// What a call makes of its weights before it multiplies: an array of so many bytes, which it takes in their place.
struct Packing {
  const char* function;     // (weights) -> the bytes …
  ir::AttrDict attributes;  // … and its attributes
  int64_t bytes;
};

// Where weights stay the same from call to call, they are packed once (Target::prepare).
struct Preparation {
  const char* call;  // the name of a function
  // Nothing where a call packs its weights each time.
  std::optional<Packing> (*of)(const ir::Node& call);
};

struct Kernel {
  std::span<const Entry> functions;
  // Whether this processor can run it.
  bool (*available)() = [] { return true; };
  // Whether it computes the composite, of operands of these types; and how it is called then.
  bool (*takes)(const ir::Composite& composite, const Types& operands,
                const Devices& devices) = [](const ir::Composite&, const Types&, const Devices&) { return false; };
  // Operands in bf16 are converted to f32 for the call and its results rounded back. (The plugin's own bf16 ops compute in f32 as
  // well, and round after every op.)
  bool takes_bf16_as_f32 = false;
  ir::Values (*call)(const ir::Composite& composite, const ir::Values& operands, const Types& results,
                     Selection& selection) = call_function;
  // Replaces a node of a lowered graph that is no composite; nothing where the kernel does not handle it.
  std::optional<ir::Values> (*replace)(const ir::Node& node, const ir::Values& operands, Selection& selection) =
      [](const ir::Node&, const ir::Values&, Selection&) -> std::optional<ir::Values> { return std::nullopt; };
  std::span<const Preparation> preparations = {};
};

// For `takes`.
bool all_f32(const Types& types);
bool all_bf16(const Types& types);

#define KERNEL(name) extern const Kernel k##name;
#include "host/kernels.def"
#undef KERNEL

// Every kernel of the table, in its order.
std::span<const Kernel* const> kernel_table();

}  // namespace tessera::host
