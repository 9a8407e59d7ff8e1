#pragma once
// Where a layer's parameters and random keys come from. A layer is a function of a Scope and values; the scope knows the path.
//
//   ParamStore store(graph);
//   Scope root(store, {.training = true, .key = key});
//   Value w = (root / "head").param("kernel", {384, 10}, init::zeros());   // parameter `head/kernel`

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"
#include "ir/graph.h"
#include "ir/processes.h"
#include "ir/program/target.h"
#include "nn/init.h"
#include "nn/sharding.h"

namespace tessera::nn {

struct ParamSpec {
  std::string name;  // slash-joined path: "blocks/attn/qkv/kernel"
  TensorType type;   // always f32 here; the leading axis of a stacked one counts the blocks
  Init init;
  bool stacked = false;  // belongs to a scanned block
  bool trained = true;   // false: a buffer, which has no gradient; the forward pass of training gives its next value

  // Of one block's array.
  Dims layer_dims() const { return Dims(type.dims.begin() + (stacked ? 1 : 0), type.dims.end()); }
};

// Where "/<block>" goes into the name of a stacked parameter: behind its scan's scope, which is called `blocks`.
size_t block_at(const std::string& name);

// The next value of a buffer, as a whole array of the graph that the trace began in.
struct BufferUpdate {
  std::string name;
  ir::Value value;
};

// The parameters and buffers of a traced model: each becomes an argument of the root graph when it is first asked for.
class ParamStore {
 public:
  // `root` has no parent and outlives the store.
  explicit ParamStore(ir::Graph& root) : root_(root) {}
  ParamStore(const ParamStore&) = delete;
  ParamStore& operator=(const ParamStore&) = delete;

  // The root graph's value of a parameter. A name asked for twice is our own bug, unless `share` says that the same array is
  // meant; its shape must then be the same.
  ir::Value get(const ParamSpec& spec, bool share = false);
  // Makes `value` stand for the parameter `name` instead of a new argument (averaged weights, weights already cast or
  // gathered). Call before the model is traced; the specs are recorded as ever.
  void provide(const std::string& name, ir::Value value) { provided_[name] = value; }
  bool provides(const std::string& name) const { return provided_.contains(name); }

  // Both in order of creation.
  const std::vector<ParamSpec>& specs() const { return specs_; }
  const ir::Values& values() const { return values_; }
  // What buffers become, in the order of tracing. Who opens a scan turns those of its body into stacked ones (nn/blocks/blocks.h).
  std::vector<BufferUpdate>& updates() { return updates_; }

 private:
  ir::Graph& root_;
  std::vector<BufferUpdate> updates_;
  std::vector<ParamSpec> specs_;
  ir::Values values_;
  std::map<std::string, size_t> index_;
  std::map<std::string, ir::Value> provided_;
};

struct Context {
  bool training = false;
  ir::Value key;                       // u32[2]; none where the model draws nothing at random
  DType compute = DType::kF32;         // of activations and products; parameters stay f32 and are converted at use
  const ir::Target* target = nullptr;  // which composites stay whole (ir/composite.h); outlives the trace; null: none
  const Sharding* sharding = nullptr;  // outlives the trace; null: one device
  ir::Processes processes = {};        // that share the batch: layers see this one's rows
};

// A place in the model: a path with a context. Cheap to copy; the store outlives it.
class Scope {
 public:
  Scope(ParamStore& store, Context context) : store_(&store), context_(context) {}

  // The scope one level down.
  Scope operator/(std::string_view name) const;

  // The parameter `path/name` as seen from the current graph, f32. In a stacked scope the array is [depth, dims..] and this is
  // the current block's slice of it.
  ir::Value param(std::string_view name, const Dims& dims, const Init& init) const;
  // The same in the compute dtype.
  ir::Value compute_param(std::string_view name, const Dims& dims, const Init& init) const;

  // The same of a buffer, f32, and its next value, in training. Each is set once.
  ir::Value buffer(std::string_view name, const Dims& dims, const Init& init) const;
  void update(std::string_view name, ir::Value value) const;

  // This scope's random key: the context's with the path folded in, so that layers differ. Needs random().
  ir::Value key() const;
  // True when layers draw at random: training, and a key was given.
  bool random() const { return context_.training && static_cast<bool>(context_.key); }

  // This scope inside the body of a scan over blocks: parameters are stacked, and keys differ by `layer`, an integer scalar
  // that is the block's index. Call in the body; the scope is called `blocks`.
  Scope in_scan(ir::Value layer) const;
  // The same of a scan over the first blocks of `depth`.
  Scope in_scan(ir::Value layer, int64_t depth) const;
  // This scope for block `index` of `depth`, traced by itself.
  Scope in_block(int64_t index, int64_t depth) const;
  // This scope, whose parameters may already exist: a second trace of the same model shares them.
  Scope shared() const;

  bool training() const { return context_.training; }
  DType compute() const { return context_.compute; }
  const ir::Target* target() const { return context_.target; }
  const Sharding* sharding() const { return context_.sharding; }
  const ir::Processes& processes() const { return context_.processes; }
  const std::string& path() const { return path_; }
  // The last step of the path; layers open an ir::NameScope of it, for error messages.
  std::string name() const;
  ParamStore& store() const { return *store_; }

 private:
  ir::Value param_as(std::string_view name, const Dims& dims, const Init& init, DType dtype, bool trained = true) const;
  ir::Value of_block(ir::Value stacked) const;
  ir::Value gathered(ir::Value value, const mesh::PartitionSpec& at_rest) const;

  ParamStore* store_;
  Context context_;
  std::string path_;
  int64_t depth_ = 0;   // of the stacked parameters; 0 where they are not stacked
  int64_t block_ = -1;  // that is traced by itself; -1 in a scan
  bool share_ = false;
};

}  // namespace tessera::nn
