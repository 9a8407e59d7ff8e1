#include "mesh/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "mesh/sharding_rules.h"

namespace tessera::mesh {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Mesh kMesh = parse_mesh("replica=2, fsdp=4", 8);
const Mesh kCube = parse_mesh("replica=2, fsdp=2, tensor=2", 8);

TEST(Partition, ShardsCoverAnArrayOnceForEachCopy) {
  const PartitionSpec spec{{{}, {"fsdp"}}};
  EXPECT_EQ(shard_dims(kMesh, {6, 8}, spec), (Dims{6, 2}));
  for (int64_t device = 0; device < 8; ++device) {
    EXPECT_EQ(shard_offset(kMesh, {6, 8}, spec, device), (Dims{0, 2 * (device % 4)}));
    EXPECT_EQ(holds_first_copy(kMesh, spec, device), device < 4);
  }
  const PartitionSpec both{{{"fsdp", "replica"}}};  // fsdp is the major one
  EXPECT_EQ(shard_offset(kMesh, {16}, both, 5), (Dims{2 * (1 * 2 + 1)}));
  EXPECT_THROW(shard_dims(kMesh, {6}, {{{"fsdp"}}}), InternalError);
}

TEST(Partition, RowsFollowProcessesWhereTheBatchsAxesComeFirst) {
  const auto follow = [](const char* mesh, int64_t processes) {
    return batch_follows_processes(parse_mesh(mesh, 8), processes);
  };
  for (const char* mesh : {"replica=8", "fsdp=8", "replica=2, fsdp=4"}) {
    for (const int64_t processes : {1, 2, 4, 8}) EXPECT_TRUE(follow(mesh, processes)) << mesh;
  }
  EXPECT_TRUE(follow("replica=2, fsdp=2, tensor=2", 4)) << "a process has both devices of a row";
  EXPECT_FALSE(follow("replica=2, fsdp=2, tensor=2", 8));
  EXPECT_FALSE(follow("tensor=2, replica=4", 2)) << "both have all rows";
  EXPECT_TRUE(follow("tensor=2, replica=4", 1));
  EXPECT_TRUE(follow("fsdp=4, replica=2", 2)) << "a batch is cut in the order of the axes";
  EXPECT_FALSE(follow("replica=8", 3));
}

TEST(Partition, SpecsCompareAndPrint) {
  EXPECT_EQ((PartitionSpec{{{}, {}}}), PartitionSpec{});
  EXPECT_FALSE((PartitionSpec{{{"fsdp"}}}) == PartitionSpec{});
  EXPECT_EQ((PartitionSpec{{{}, {"replica", "tensor"}}}).text(), "spec(_, replica+tensor)");
  EXPECT_EQ(PartitionSpec{}.text(), "replicate");
  EXPECT_THAT(batch_axes(kCube), ElementsAre("replica", "fsdp"));
  EXPECT_EQ(batch_parts(kCube), 4);
}

PartitionSpec spec_of(const std::string& rule, const Mesh& mesh, const Dims& dims, bool stacked = false) {
  return ShardingRule::parse(rule, "sharding").spec_for(mesh, "params/w", dims, stacked);
}

TEST(ShardingRules, FsdpTakesTheFirstDivisibleDimensionThatLeavesEnoughRows) {
  EXPECT_EQ(spec_of("fsdp", kMesh, {128, 512}).text(), "spec(fsdp, _)");
  EXPECT_EQ(spec_of("fsdp", kMesh, {512, 128}).text(), "spec(fsdp, _)");
  EXPECT_EQ(spec_of("fsdp", kMesh, {3, 3, 512, 1024}).text(), "spec(_, _, fsdp, _)");
  EXPECT_EQ(spec_of("fsdp", kMesh, {124, 512}).text(), "spec(_, fsdp)") << "31 rows";
  EXPECT_EQ(spec_of("fsdp", kMesh, {64, 128, 512}, true).text(), "spec(_, fsdp, _)");
}

TEST(ShardingRules, ElseFsdpTakesTheLargestDivisibleDimension) {
  EXPECT_EQ(spec_of("fsdp(min_size=1)", kMesh, {16, 24}).text(), "spec(_, fsdp)");
  EXPECT_EQ(spec_of("fsdp(min_size=1)", kMesh, {16, 30}).text(), "spec(fsdp, _)");
  EXPECT_EQ(spec_of("fsdp(min_size=1)", kMesh, {15, 30}).text(), "replicate");
  EXPECT_EQ(spec_of("fsdp", kMesh, {16, 24}).text(), "replicate");  // too small by default: 384
  // The axis that counts blocks is never split.
  EXPECT_EQ(spec_of("fsdp(min_size=24577)", kMesh, {64, 16, 24}, true).text(), "replicate");
  EXPECT_EQ(spec_of("fsdp(min_size=24576)", kMesh, {64, 16, 24}, true).text(), "spec(_, _, fsdp)");
}

TEST(ShardingRules, TensorSplitsOneDimensionAndFsdpAnother) {
  EXPECT_EQ(spec_of("tensor(-1, min_size=1)", kCube, {8, 32}).text(), "spec(fsdp, tensor)");
  EXPECT_EQ(spec_of("tensor(0, axis=_, min_size=1)", kCube, {8, 32}).text(), "spec(tensor, _)");
  EXPECT_EQ(spec_of("tensor(0, min_size=1)", kMesh, {8, 32}).text(), "spec(_, fsdp)");  // no tensor axis here
  EXPECT_EQ(spec_of("spec(_, fsdp+tensor)", kCube, {8, 32}).text(), "spec(_, fsdp+tensor)");
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.message() + " | " + error.help();
  }
  return "nothing was thrown";
}

TEST(ShardingRules, MistakesAreExplained) {
  EXPECT_THAT(message_of([] { spec_of("fsdpp", kMesh, {8}); }), HasSubstr("did you mean `fsdp`"));
  EXPECT_THAT(message_of([] { spec_of("fsdp(axis=fsdq)", kMesh, {8}); }), HasSubstr("no mesh axis `fsdq`"));
  EXPECT_THAT(message_of([] { spec_of("spec(fsdp)", kMesh, {6}); }), HasSubstr("dimension 0 is 6, which 4 does not divide"));
  EXPECT_THAT(message_of([] { spec_of("tensor(1)", kCube, {6, 3}); }), HasSubstr("dimension 1 is 3"));
  ShardingOptions options;
  options.rules = {"params/head"};
  EXPECT_THAT(message_of([&] { ShardingRules(options, "sharding"); }), HasSubstr("is not a sharding rule"));
  options.rules = {};
  options.preset = "zero";
  EXPECT_THAT(message_of([&] { ShardingRules(options, "sharding"); }), HasSubstr("no sharding preset `zero`"));
}

TEST(ShardingRules, FirstMatchWinsAndPresetsComeLast) {
  ShardingOptions options;
  options.rules = {"params/head/.* = replicate", "params/haed/.* = fsdp(axis=fsdp, min_size=1)"};
  const ShardingRules rules(options, "sharding");
  EXPECT_EQ(rules.spec_for(kMesh, "params/head/kernel", {512, 512}, false).text(), "replicate");
  EXPECT_EQ(rules.spec_for(kMesh, "opt/mu/head/kernel", {512, 512}, false).text(), "spec(fsdp, _)");
  EXPECT_THAT(rules.unmatched({"params/head/kernel"}), ElementsAre(HasSubstr("did you mean `params/head`?")));
  options.rules = {};
  options.preset = "optimizer_only";
  const ShardingRules one(options, "sharding");
  EXPECT_EQ(one.spec_for(kMesh, "params/head/kernel", {512, 512}, false).text(), "replicate");
  EXPECT_EQ(one.spec_for(kMesh, "opt/mu/head/kernel", {512, 512}, false).text(), "spec(fsdp, _)");
}

TEST(ShardingRules, PresetsSplitHeadsAndHiddenFeaturesOverTensor) {
  const ShardingRules rules({}, "sharding");
  const auto spec = [&](const char* name, const Dims& dims) { return rules.spec_for(kCube, name, dims, true).text(); };
  EXPECT_EQ(spec("params/blocks/mlp/fc1/kernel", {4, 256, 1024}), "spec(_, fsdp, tensor)");
  EXPECT_EQ(spec("opt/nu/blocks/mlp/fc2/kernel", {4, 1024, 256}), "spec(_, tensor, fsdp)");
  EXPECT_EQ(spec("params/blocks/attn/proj/kernel", {4, 256, 256}), "spec(_, tensor, fsdp)");
  EXPECT_EQ(spec("params/blocks/attn/qkv/kernel", {4, 256, 768}), "spec(_, fsdp+tensor, _)");
  EXPECT_EQ(spec("params/blocks/mlp/fc1/bias", {4, 1024}), "spec(_, tensor)");
  EXPECT_EQ(spec("params/blocks/norm1/scale", {4, 256}), "spec(_, fsdp)");
  EXPECT_EQ(spec("params/blocks/norm1/scale", {1, 256}), "replicate");
}

}  // namespace
}  // namespace tessera::mesh
