#pragma once
// The state of a run as a flat, ordered map name -> array: everything that the next step depends on. Checkpoint, resume,
// counting and printing are one loop each over it.
//
//   params/<parameter>      f32, in the model's order; buffers (running statistics) are among them
//   opt/<slot>/<parameter>  f32 or bf16, the optimizer's slots
//   step                    i32, steps done
//   rng                     u32[2], the run's random key; what a step draws is a function of it and `step`
//   average/<parameter>     f32, the moving average of the weights, where the recipe asks for one
//   lr_scale                f32, what a plateau schedule is multiplied by, where `optimizer.lr` is one
//   guard                   f32[4], what a run that may skip updates knows of them (train/guard/skip_update.h), where the recipe
//                           has [guard]. A run may begin with it, or go on without: no checkpoint need have it, and any may
//
// On the device a scanned block's parameter is one stacked array [depth, …]; in files it is one array per block, its index
// after the scope of the blocks: params/blocks/attn/qkv/kernel [6, …] <-> params/blocks/0/attn/qkv/kernel, …,
// params/blocks/5/….

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/box.h"
#include "base/shape.h"
#include "checkpoint/formats/safetensors.h"
#include "checkpoint/manager.h"
#include "checkpoint/stored_array.h"
#include "mesh/sharding_rules.h"
#include "nn/scope.h"
#include "optim/optimizer.h"

namespace tessera::state {

// The prefixes of the names of parameters and of their averages.
inline constexpr std::string_view kParams = "params/", kAverages = "average/";
inline constexpr std::string_view kGuard = "guard";
inline constexpr int64_t kGuardValues = 4;

struct StateEntry {
  std::string name;
  TensorType type;
  bool trained = true;       // false: a buffer of the model, which no optimizer moves
  size_t block_at = 0;       // of a stacked array: where "/<block>" goes into the name; 0: not stacked
  mesh::PartitionSpec spec;  // how it lies on the layout's mesh
  // For a slot that has 1 in place of dimensions of its parameter: the parameter's dimensions. The slot lies on a mesh as an
  // array of these would, with the dimensions of size 1 whole. Empty elsewhere.
  Dims like;

  bool stacked() const { return block_at != 0; }
  int64_t parts() const { return stacked() ? type.dims[0] : 1; }  // arrays in a file
  std::string part_name(int64_t part) const;
  TensorType part_type() const;
};

// The model's name of an entry of params/.
std::string param_name(const StateEntry& entry);

// The order of arrays in programs' arguments and results.
struct StateLayout {
  std::vector<StateEntry> entries;
  size_t params = 0;                        // the first ones are the parameters
  size_t slots = 0;                         // then the slots, then `step` and `rng`
  size_t averages = 0;                      // then the average of each parameter, or none
  bool lr_scale = false;                    // then `lr_scale`, or not
  bool guard = false;                       // then `guard`, or not
  mesh::Mesh mesh;                          // no axes: one device
  bool reshard = true, reduce_f32 = false;  // as mesh/sharding_rules.h says

  size_t step_index() const { return params + slots; }
  size_t rng_index() const { return params + slots + 1; }
  size_t average_index() const { return rng_index() + 1; }  // the first of them
  size_t lr_scale_index() const { return average_index() + averages; }
  size_t guard_index() const { return lr_scale_index() + (lr_scale ? 1 : 0); }
  int64_t param_count() const;  // elements of all parameters, buffers left out
  int64_t bytes() const;        // of everything
  int64_t shard_bytes() const;  // of each device's part of everything
  int64_t devices() const { return mesh.devices(); }
  bool sharded() const { return devices() > 1; }
  TensorType shard_type(size_t entry) const;                   // of each device's part
  std::vector<mesh::PartitionSpec> specs(size_t count) const;  // of the first `count` entries
};

// The parameters alone: what evaluation and prediction need.
StateLayout param_layout(const std::vector<nn::ParamSpec>& specs);
StateLayout state_layout(const std::vector<nn::ParamSpec>& specs, const optim::Optimizer& optimizer, bool averaged = false,
                         bool guarded = false);

// Spreads the layout over a mesh, by the rules.
void lay_out(StateLayout& layout, const mesh::Mesh& mesh, const mesh::ShardingOptions& options);
// The same for tracing the model's parameters.
nn::Sharding sharding_of(const StateLayout& layout);

// Host arrays of whole entries, in the layout's order (of its first `size()` entries).
using HostArrays = std::vector<store::Bytes>;

// Entries as files hold them: each block by itself, as views that share the memory.
std::vector<checkpoint::HostTensor> split_blocks(const StateLayout& layout, const HostArrays& arrays);
// The same for one entry's box, whose data are row-major and dense.
std::vector<checkpoint::HostTensor> split_blocks(const StateEntry& entry, const Placed& box, const store::Bytes& bytes);

// Checks that `stored` has every array of the layout with its type, and no other; `guard` may be missing or there in any case.
// One data Error lists all that does not fit.
void check_arrays(const StateLayout& layout, const checkpoint::StoredArrays& stored, const std::string& where);
// Copies a box of an entry, row-major and dense, to `out`. It reads block by block from a checkpoint whose arrays were checked.
// Where that has no `guard`, it writes zeros.
void read_entry(const StateEntry& entry, const checkpoint::StoredArrays& stored, const Placed& box, std::byte* out);

// Mean and standard deviation of one parameter.
struct Moments {
  double mean = 0, deviation = 0;
};
Moments moments_of(const store::Bytes& f32_values);

// "678,442 parameters in 78 arrays, 7.77 MiB of state", and on a mesh what a device has of it.
std::string parameter_summary(const StateLayout& layout);
// Name, shape, size, place on the mesh, mean and standard deviation of every parameter, and that summary, as lines of text.
std::string parameter_table(const StateLayout& layout, const std::vector<Moments>& moments);

}  // namespace tessera::state
