#pragma once
// Which array is split how: patterns over the names of the state -> rules, first match wins.
//
// A rule is one of
//   replicate                     every device holds all of it
//   fsdp(axis=fsdp, min_size=N)   one dimension that the axis divides is split over `axis` (several: fsdp+tensor): the first, where
//                                 each device gets 32 rows or more, else the largest; arrays of fewer elements than
//                                 min_size, or without such a dimension, are replicated
//   tensor(dim, min_size=N)       dimension `dim` is split over `tensor`, and another one as by fsdp
//   spec(_, fsdp, replica+tensor) written out: for each dimension `_` or the axes
// Dimensions are those of one block's array: the axis that counts the blocks of a scan is never split.
//
// A preset is a list of rules that come last:
//   fully_sharded   parameters and optimizer state are split (ZeRO-3; with a replica axis beside fsdp: hybrid)
//   optimizer_only  parameters are replicated, the optimizer's state is split (ZeRO-1)
//   replicated      nothing is split over fsdp
// In each of them attention and MLP are split over `tensor` where the mesh has that axis.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"
#include "base/text/pattern.h"
#include "base/visit.h"
#include "mesh/partition.h"

namespace tessera::mesh {

// Elements of an array, all blocks together, below which splitting is not worth it. Small, since compilers combine the
// transfers of small arrays.
inline constexpr int64_t kMinShardedSize = 512;

struct ShardingOptions {
  std::string preset = "fully_sharded";
  std::vector<std::string> rules;
  bool reshard = true;
  std::string reduce = "compute";

  template <class Visitor>
  void visit(Visitor&& field) {
    field("preset", preset, may_change("fully_sharded (ZeRO-3), optimizer_only (ZeRO-1) or replicated"));
    field("rules", rules,
          may_change("\"PATTERN = RULE\" over state names, before the preset: replicate, fsdp(…), tensor(dim), spec(…)"));
    field("reduce", reduce,
          may_change("dtype in which gradients of kernels are summed over devices: compute (that of products) or f32"));
    field("reshard", reshard,
          may_change("gather a block's parameters anew in the backward pass; false keeps them gathered for the step"));
  }
};

class ShardingRule {
 public:
  // Throws a usage Error at `where`.
  static ShardingRule parse(std::string_view text, const std::string& where);
  // The spec of an array of a state; `stacked`: its first dimension counts blocks. Throws a usage Error that names `name` when
  // a written-out spec does not fit.
  PartitionSpec spec_for(const Mesh& mesh, const std::string& name, const Dims& dims, bool stacked) const;

 private:
  enum class Kind { kReplicate, kFsdp, kTensor, kSpec };
  Kind kind_ = Kind::kReplicate;
  AxisNames axes_;
  int64_t min_size_ = 0, dim_ = 0;
  PartitionSpec spec_;
  std::string text_, where_;
};

class ShardingRules {
 public:
  ShardingRules(const ShardingOptions& options, const std::string& where);

  PartitionSpec spec_for(const Mesh& mesh, const std::string& name, const Dims& dims, bool stacked) const;
  // Warnings about the recipe's own rules that match none of `names`, with the nearest one.
  std::vector<std::string> unmatched(const std::vector<std::string>& names) const;

 private:
  PatternRules<ShardingRule> rules_;
  size_t own_ = 0;  // the first ones are the recipe's
};

}  // namespace tessera::mesh
