// Which arrays are alive when: on programs small enough to be worked out by hand, and on hostile ones.
#include "plan/liveness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <protozero/pbf_writer.hpp>

#include "base/error.h"
#include "pjrt/client.h"
#include "pjrt/executable.h"
#include "plan/live_arrays.h"
#include "support/paths.h"
#include "train/process/device.h"

namespace tessera::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

pjrt::HloArray f32(std::vector<int64_t> dims) {
  pjrt::HloArray array{"f32", 4, std::move(dims), {}, {}, 0};
  for (auto axis = static_cast<int64_t>(array.dims.size()); axis-- > 0;) array.minor_to_major.push_back(axis);
  return array;
}

// A computation, written line by line.
struct Lines {
  pjrt::HloComputation computation;

  pjrt::HloInstruction& add(int64_t id, const std::string& opcode, std::vector<pjrt::HloArray> arrays,
                            std::vector<int64_t> operands = {}) {
    pjrt::HloInstruction i;
    i.id = id;
    i.opcode = opcode;
    i.name = opcode + "." + std::to_string(id);
    i.arrays = std::move(arrays);
    i.operands = std::move(operands);
    if (opcode == "tuple" || i.arrays.size() > 1) i.elements.assign(i.arrays.size(), 1);
    computation.instructions.push_back(i);
    computation.root = id;
    return computation.instructions.back();
  }
  pjrt::HloInstruction& parameter(int64_t id, int64_t number, std::vector<pjrt::HloArray> arrays) {
    pjrt::HloInstruction& i = add(id, "parameter", std::move(arrays));
    i.parameter = number;
    return i;
  }
  pjrt::HloInstruction& element(int64_t id, int64_t of, int64_t at, pjrt::HloArray array) {
    pjrt::HloInstruction& i = add(id, "get-tuple-element", {std::move(array)}, {of});
    i.tuple_index = at;
    return i;
  }
  pjrt::HloComputation as(int64_t id) {
    computation.id = id;
    return computation;
  }
};

pjrt::HloModule module_of(std::vector<pjrt::HloComputation> computations) {
  pjrt::HloModule module;
  module.computations = std::move(computations);
  module.entry = module.computations.back().id;
  module.scheduled = true;
  return module;
}

std::vector<int64_t> sizes_at_peak(const Liveness& liveness) {
  std::vector<int64_t> sizes;
  for (const size_t at : liveness.at_peak) sizes.push_back(liveness.buffers[at].bytes);
  return sizes;
}

const pjrt::HloArray kKilobyte = f32({256}), kTwo = f32({512});

// x -> dot 2 KB -> dot 1 KB -> result: the argument stays, and both products are alive while the second is made.
TEST(Liveness, ProductsAreAliveUntilTheyAreRead) {
  Lines entry;
  entry.parameter(1, 0, {kKilobyte});
  entry.add(2, "dot", {kTwo}, {1});
  entry.add(3, "dot", {kKilobyte}, {2});
  entry.add(4, "dot", {kKilobyte}, {3});
  const pjrt::HloModule module = module_of({entry.as(0)});
  const Liveness liveness = *liveness_of(module);
  EXPECT_EQ(liveness.peak, 4096);
  EXPECT_THAT(sizes_at_peak(liveness), ElementsAre(2048, 1024, 1024));
  EXPECT_EQ(liveness.buffers[liveness.at_peak[1]].argument, 0);
}

TEST(Liveness, ElementwiseResultsTakeOverWhatNobodyNeeds) {
  const auto peak = [](bool needed) {
    Lines entry;
    entry.parameter(1, 0, {kKilobyte});
    entry.add(2, "dot", {kTwo}, {1});
    entry.add(3, "tanh", {kTwo}, {2});
    entry.add(4, "add", {kTwo}, {3, needed ? 2 : 3});
    const pjrt::HloModule module = module_of({entry.as(0)});
    return liveness_of(module)->peak;
  };
  EXPECT_EQ(peak(false), 1024 + 2048);
  EXPECT_EQ(peak(true), 1024 + 2 * 2048);
}

TEST(Liveness, AReductionOrAnotherLayoutDoesNot) {
  pjrt::HloArray turned = f32({16, 32});
  turned.minor_to_major = {0, 1};
  Lines entry;
  entry.parameter(1, 0, {kKilobyte});
  entry.add(2, "dot", {f32({16, 32})}, {1});
  entry.add(3, "copy", {turned}, {2});
  const pjrt::HloModule module = module_of({entry.as(0)});
  EXPECT_EQ(liveness_of(module)->peak, 1024 + 2 * 2048);
}

TEST(Liveness, DonatedArgumentsAreTheResults) {
  Lines entry;
  entry.parameter(1, 0, {kTwo});
  entry.add(2, "dot", {kTwo}, {1});
  entry.add(3, "tuple", {kTwo}, {2});
  pjrt::HloModule module = module_of({entry.as(0)});
  EXPECT_EQ(liveness_of(module)->peak, 4096);
  module.aliases = {{{0}, {}, 0}};
  EXPECT_EQ(liveness_of(module)->peak, 2048);
}

// A loop that fills a stack of four rows, with a product of its own in each round.
pjrt::HloModule stacking_loop(bool in_place) {
  const pjrt::HloArray row = f32({1, 256}), stack = f32({4, 256});
  Lines condition;
  condition.parameter(20, 0, {row, stack});
  condition.add(21, "constant", {pjrt::HloArray{"pred", 1, {}, {}, {}, 0}});
  Lines body;
  body.parameter(30, 0, {row, stack});
  body.element(31, 30, 0, row);
  body.element(32, 30, 1, stack);
  body.add(33, "dot", {row}, {31}).op_name = "blocks/mlp/dot_general";
  body.add(34, in_place ? "dynamic-update-slice" : "concatenate", {stack}, {32, 33}).op_name =
      "blocks/mlp/dynamic_update_slice";
  body.add(35, "tuple", {row, stack}, {33, 34});
  Lines entry;
  entry.parameter(1, 0, {row}).op_name = "params/patch/kernel";
  entry.add(2, "copy", {row}, {1});
  entry.add(3, "custom-call", {stack}).target = "AllocateBuffer";
  entry.add(4, "tuple", {row, stack}, {2, 3});
  entry.add(5, "while", {row, stack}, {4}).called = {1, 2};
  entry.element(6, 5, 1, stack);
  return module_of({body.as(1), condition.as(2), entry.as(0)});
}

TEST(Liveness, LoopsCarryTheirStateInPlace) {
  const pjrt::HloModule module = stacking_loop(true);
  const Liveness liveness = *liveness_of(module);
  // The argument, the carried row, the stack, the truth value.
  EXPECT_EQ(liveness.peak, 1024 + 1024 + 4096 + 1);
  const std::vector<LiveArray> arrays = live_arrays(module, liveness);
  EXPECT_EQ(arrays[0].name, "blocks/mlp, saved for the backward pass");
  EXPECT_EQ(arrays[0].type, "f32[4, 256]");
  EXPECT_EQ(arrays[0].bytes, 4096);
}

TEST(Liveness, OnlyMainMemoryCounts) {
  Lines entry;
  entry.parameter(1, 0, {kKilobyte});
  pjrt::HloArray fast = kTwo;
  fast.memory_space = 1;
  entry.add(2, "dot", {fast}, {1});
  entry.add(3, "dot", {kKilobyte}, {2});
  const pjrt::HloModule module = module_of({entry.as(0)});
  EXPECT_EQ(liveness_of(module)->peak, 2048);
  EXPECT_EQ(liveness_of(module, {0, 1})->peak, 4096);
}

TEST(LiveArrays, AreNamedByWhereTheirNumbersComeFrom) {
  Lines entry;
  entry.parameter(1, 0, {f32({64})}).op_name = "params/head/kernel";
  pjrt::HloArray half = f32({64});
  half.dtype = "bf16", half.element_bytes = 2;
  entry.add(2, "convert", {half}, {1});
  pjrt::HloArray whole = half;
  whole.dims = {256};
  entry.add(3, "all-gather", {whole}, {2});
  entry.add(4, "dot", {f32({128})}, {3}).op_name = "gradient/head/dot_general";
  entry.add(5, "dot", {f32({1})}, {4, 3});
  const pjrt::HloModule module = module_of({entry.as(0)});
  std::vector<std::string> names;
  for (const LiveArray& array : live_arrays(module, *liveness_of(module))) names.push_back(array.name + " " + array.type);
  EXPECT_THAT(names, ElementsAre("params/head/kernel, gathered bf16[256]", "gradient of head/dot_general f32[128]",
                                 "params/head/kernel f32[64]", "an unnamed dot f32[1]"));
}

// ---- what is padded

// What libtpu 0.0.51 allots to arrays of these layouts.
TEST(HloArrays, ArePaddedToTiles) {
  const auto bytes = [](std::vector<int64_t> dims, int64_t element, std::vector<int64_t> order,
                        std::vector<std::vector<int64_t>> tiles) {
    return pjrt::HloArray{"", element, std::move(dims), std::move(order), std::move(tiles), 0}.padded_bytes();
  };
  EXPECT_EQ(bytes({1, 36864, 9216}, 2, {2, 0, 1}, {{4, 128}, {2, 1}}), 2717908992);
  EXPECT_EQ(bytes({1024, 36, 9216}, 2, {2, 1, 0}, {{8, 128}, {2, 1}}), 754974720);
  EXPECT_EQ(bytes({116, 9216, 9}, 4, {1, 2, 0}, {{8, 128}}), 68419584);
  EXPECT_EQ(bytes({}, 4, {}, {{256}}), 1024);
  EXPECT_EQ(bytes({1000}, 4, {0}, {{1024}}), 4096);
  EXPECT_EQ(bytes({3, 5}, 4, {1, 0}, {}), 60);
  EXPECT_EQ(bytes({3, 5}, 4, {1}, {{8, 128}}), 60);      // no layout of this array
  EXPECT_EQ(bytes({3, 5}, 4, {1, 0}, {{-1, 128}}), 60);  // a dimension that is folded into the next
}

// ---- programs that are none

TEST(Liveness, NeedsASchedule) {
  pjrt::HloModule module = stacking_loop(true);
  module.scheduled = false;
  EXPECT_FALSE(liveness_of(module));
}

TEST(Liveness, RefusesProgramsThatContradictThemselves) {
  pjrt::HloModule missing = stacking_loop(true);
  missing.computations.back().instructions[1].operands = {99};
  pjrt::HloModule uncalled = stacking_loop(true);
  uncalled.computations.back().instructions[4].called = {77};
  pjrt::HloModule itself = stacking_loop(true);
  itself.computations.back().instructions[4].called = {0};
  pjrt::HloModule beyond = stacking_loop(true);
  beyond.computations.back().instructions[5].tuple_index = 9;
  pjrt::HloModule rootless = stacking_loop(true);
  rootless.computations[0].root = 99;
  pjrt::HloModule no_operand = stacking_loop(true);
  no_operand.computations.back().instructions[4].operands.clear();
  pjrt::HloModule negative = stacking_loop(true);
  negative.computations[0].instructions[4].aliases = {{{0}, {}, -1}};
  for (const pjrt::HloModule& module : {missing, uncalled, itself, beyond, rootless, no_operand, negative}) {
    try {
      (void)liveness_of(module);
      ADD_FAILURE() << "taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kDevice);
      EXPECT_THAT(error.message(), HasSubstr("the plugin's"));
    }
  }
}

// A module of one computation with instructions 1 and 2, whose schedule is `order`.
pjrt::HloModule scheduled(const std::vector<int64_t>& order) {
  std::string bytes;
  protozero::pbf_writer module(bytes);
  {
    protozero::pbf_writer computation(module, 3);
    for (const int64_t id : {1, 2}) {
      protozero::pbf_writer instruction(computation, 2);
      instruction.add_string(2, "partition-id");
      instruction.add_int64(35, id);
    }
    computation.add_int64(5, 7);
    computation.add_int64(6, 2);
  }
  module.add_int64(6, 7);
  {
    protozero::pbf_writer schedule(module, 7);
    protozero::pbf_writer entry(schedule, 1);
    entry.add_int64(1, 7);
    protozero::pbf_writer sequence(entry, 2);
    sequence.add_packed_int64(1, order.begin(), order.end());
  }
  return pjrt::parse_hlo(bytes, "hlo");
}

TEST(Hlo, InstructionsStandAsTheyAreRun) {
  const pjrt::HloModule module = scheduled({2, 1});
  EXPECT_TRUE(module.scheduled);
  EXPECT_EQ(module.computations[0].instructions[0].id, 2);
  for (const std::vector<int64_t>& order : {std::vector<int64_t>{}, {1}, {1, 1}, {1, 3}, {1, 2, 3}}) {
    EXPECT_FALSE(scheduled(order).scheduled) << order.size();
  }
}

// ---- a compiler's program

// Two products, one twice as large, that no compiler can leave out: 1 MiB each of a and b, 2 MiB between.
TEST(Liveness, OfACompiledProgramIsTheCompilersAccount) {
  train::DeviceOptions device;
  device.plugin = testing::cpu_plugin_path();
  device.cache = pjrt::ExecutableCache("");
  const auto client = train::open_client(device);
  const pjrt::Executable compiled = client->compile(R"(module {
  func.func @main(%a: tensor<512x512xf32> loc("params/a"), %b: tensor<512x512xf32> loc("params/b")) -> tensor<512x512xf32> {
    %0 = stablehlo.concatenate %b, %b, dim = 1 : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x1024xf32>
    %1 = stablehlo.dot_general %a, %0, contracting_dims = [1] x [0] : (tensor<512x512xf32>, tensor<512x1024xf32>) -> tensor<512x1024xf32> loc("mlp/dot_general")
    %2 = stablehlo.dot_general %1, %1, contracting_dims = [1] x [1] : (tensor<512x1024xf32>, tensor<512x1024xf32>) -> tensor<512x512xf32>
    return %2 : tensor<512x512xf32>
  }
})",
                                                    {});
  std::string format;
  const pjrt::HloModule module = pjrt::parse_hlo(compiled.optimized_program(&format), format);
  const auto liveness = liveness_of(module);
  ASSERT_TRUE(liveness);
  const pjrt::CompiledMemory memory = compiled.memory();
  const auto of_compiler = static_cast<double>(memory.arguments + memory.outputs + memory.temporaries - memory.aliased);
  EXPECT_LE(static_cast<double>(liveness->peak), of_compiler);
  EXPECT_GE(static_cast<double>(liveness->peak), 0.8 * of_compiler);
  EXPECT_EQ(liveness->peak % (1 << 20), 0);
  std::vector<std::string> names;
  for (const LiveArray& array : live_arrays(module, *liveness)) names.push_back(array.name);
  EXPECT_THAT(names, ::testing::Contains("params/a"));
  EXPECT_THAT(names, ::testing::Contains("params/b"));
  EXPECT_THAT(names, ::testing::Contains("mlp/dot_general"));
}

}  // namespace
}  // namespace tessera::plan
