#include "plan/plan.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "pjrt/client.h"
#include "pjrt/executable.h"
#include "pjrt/plugin/error.h"
#include "pjrt/topology.h"
#include "plan/compiled.h"
#include "plan/proposals.h"
#include "store/file.h"
#include "store/temp_dir.h"
#include "support/paths.h"

namespace tessera::plan {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr double kGiB = 1024.0 * 1024 * 1024;

ReadRecipe recipe(const std::string& name, const std::vector<std::string>& base = {}) {
  const std::string path = testing::source_path("recipes/") + name + ".toml";
  return [path, base](const std::vector<std::string>& overrides) {
    std::vector<std::string> all = base;
    all.insert(all.end(), overrides.begin(), overrides.end());
    return config::parse_recipe(store::read_text(store::local_files(), path), path, all);
  };
}

PlanOptions options(const std::string& topology) {
  PlanOptions out;
  out.topology = topology;
  out.device.plugin = testing::cpu_plugin_path();
  out.device.cache = pjrt::ExecutableCache(testing::cache_path());
  return out;
}

// ---- counting ----

struct Counted {
  Counts counts;
  int64_t state_bytes = 0;  // of the parameters, whole
};

const std::vector<std::string> kSmall = {"model.width=128",
                                         "model.depth=3",
                                         "model.heads=4",
                                         "data.batch=32",
                                         "data.source=\"fake(images=1000, classes=10)\"",
                                         "data.pp=\"decode | random_crop(28) | value_range(-1, 1)\"",
                                         "eval.val.data.pp=\"decode | central_crop(28) | value_range(-1, 1)\"",
                                         "eval.val.data.source=\"fake(images=100, classes=10)\"",
                                         "eval.val.batch=32"};

ReadRecipe small_recipe(const std::vector<std::string>& more) {
  std::vector<std::string> all = kSmall;
  all.insert(all.end(), more.begin(), more.end());
  return recipe("vit_10b_toy", all);
}

Counts counts_of(int64_t devices, const std::vector<std::string>& more) {
  return compile_on_cpu(Case(small_recipe(more), {}, devices), options("").device).counts;
}

constexpr double kWidth = 128, kDepth = 3, kTokens = 4, kBatch = 32;
// Multiply-adds of a block's products for one token, attention's two products included.
constexpr double kBlock = 12 * kWidth * kWidth + 2 * kTokens * kWidth;
constexpr double kPatches = 14 * 14 * 3 * kWidth;

TEST(Count, FlopsAreThoseOfThePapersFormula) {
  // Forward, and twice that backward but for the patches' cotangent; the recomputed part comes with remat.
  const double blocks = 2 * kBatch * kTokens * kDepth * kBlock, patches = 2 * kBatch * kTokens * kPatches;
  const double head = 2 * kBatch * kWidth * 10;
  const Counts none = counts_of(1, {"model.remat=none"});
  EXPECT_NEAR(none.flops, 3 * blocks + 2 * patches + 3 * head, 1e-6 * none.flops);
  // With "full" all but the last product is done again.
  const double again = blocks - 2 * kBatch * kTokens * kDepth * 4 * kWidth * kWidth;
  EXPECT_NEAR(counts_of(1, {"model.remat=full"}).flops, none.flops + again, 1e-6 * none.flops);
  EXPECT_NEAR(counts_of(8, {"model.remat=none"}).flops, none.flops / 8, 0.01 * none.flops / 8);
  EXPECT_TRUE(none.collectives.empty());
}

TEST(Count, FullyShardedTransfersAreTwoGathersAndOneScatter) {
  const Counts counts = counts_of(8, {"sharding.rules=[\".* = fsdp(min_size=1)\"]", "model.remat=full"});
  // Kernels and biases of the blocks, gathered forward and backward; the rest once.
  const double block = kDepth * (12 * kWidth * kWidth + 9 * kWidth + 4 * kWidth);
  const double rest = kPatches + kWidth + kTokens * kWidth + 2 * kWidth + kWidth * 10;
  EXPECT_NEAR(counts.collectives.at("all-gather").bytes, 4 * (2 * block + rest), 0.02 * 4 * 2 * block);
  EXPECT_NEAR(counts.collectives.at("reduce-scatter").bytes, 4 * (block + rest), 0.02 * 4 * block);
  // What is left is scalars and an indivisible bias.
  EXPECT_LT(counts.collectives.at("all-reduce").bytes, 4096);
}

TEST(Count, ReplicasReduceEveryGradientOnce) {
  const Counts counts = counts_of(8, {"mesh=\"replica=8\""});
  const double params =
      kDepth * (12 * kWidth * kWidth + 13 * kWidth) + kPatches + kWidth + kTokens * kWidth + 2 * kWidth + kWidth * 10 + 10;
  EXPECT_NEAR(counts.collectives.at("all-reduce").bytes, 4 * params, 0.02 * 4 * params);
  EXPECT_FALSE(counts.collectives.contains("all-gather"));
}

// Left to XLA's partitioner, a grouped convolution gathers the batch and every device computes all of it.
TEST(Count, GroupedConvolutionsStayOnTheirDevice) {
  const auto counts = [](int64_t devices) {
    const std::string model = R"(model={name="resnet", variant="resnext50_32x4d", depths=[1, 1, 1, 1], dims=[32, 32, 32, 32]})";
    return compile_on_cpu(Case(recipe("imagenet"), {model, "data.batch=8", "eval.val.batch=8"}, devices), options("").device)
        .counts;
  };
  const Counts one = counts(1), four = counts(4);
  EXPECT_FALSE(four.collectives.contains("all-gather"));
  EXPECT_NEAR(four.flops, one.flops / 4, 0.01 * one.flops);
}

TEST(Count, Bf16HalvesWhatTravels) {
  const Counts f32 = counts_of(8, {}), bf16 = counts_of(8, {"dtype=bf16"});
  EXPECT_EQ(bf16.collectives.at("all-gather").bytes * 2, f32.collectives.at("all-gather").bytes);
  EXPECT_EQ(bf16.flops, f32.flops);
}

TEST(Count, ReadsOnlyHlo) {
  EXPECT_THROW(pjrt::parse_hlo("not a message \xff\xff", "hlo"), Error);
  EXPECT_THROW(pjrt::parse_hlo("", "mlir"), Error);
}

// ---- the estimate ----

// One dense layer, [8192, 4096] x [4096, 16384] in bf16, on one device, its kernel gathered from 64.
Step dense_layer() {
  Step step;
  step.bf16 = true;
  step.devices = 64;
  step.counts.flops = 2.0 * 8192 * 4096 * 16384;
  step.counts.product_bytes = 2.0 * (8192.0 * 4096 + 4096.0 * 16384 + 8192.0 * 16384);
  step.counts.collectives["all-gather"] = {1, 2.0 * 4096 * 16384};
  step.counts.transfer_bytes = 2 * 2.0 * 4096 * 16384;
  return step;
}

TEST(Roofline, OneDenseLayerOnThreeGenerationsByHand) {
  struct Case {
    const char *chip, *bound;
    double compute, memory, interconnect;  // microseconds
  };
  // 1.0995e12 flops; 0.4698e9 + 0.2684e9 bytes of memory; 134.2e6 x 63 / 64 = 132.1e6 bytes over the link.
  for (const Case& c : {Case{"v3", "compute", 17878, 1640.4, 943.7}, Case{"v5e", "compute", 5581.3, 901.3, 660.6},
                        Case{"h200", "compute", 1111.7, 153.8, 293.6}}) {
    const Roofline r = roofline(dense_layer(), *pjrt::find_chip(c.chip));
    EXPECT_NEAR(r.compute * 1e6, c.compute, 1e-3 * c.compute) << c.chip;
    EXPECT_NEAR(r.memory * 1e6, c.memory, 1e-3 * c.memory) << c.chip;
    EXPECT_NEAR(r.interconnect * 1e6, c.interconnect, 1e-3 * c.interconnect) << c.chip;
    EXPECT_STREQ(r.bound(), c.bound);
    EXPECT_EQ(r.seconds(), r.compute);
  }
}

TEST(Roofline, AllReduceGoesTwiceAndGroupsUseTheNetwork) {
  Step step = dense_layer();
  step.counts.flops = 0;
  const double gather = roofline(step, *pjrt::find_chip("h200")).interconnect;
  step.counts.collectives["all-reduce"] = step.counts.collectives["all-gather"];
  EXPECT_NEAR(roofline(step, *pjrt::find_chip("h200")).interconnect, 3 * gather, 1e-9 * gather);
  step.counts.collectives.erase("all-reduce");
  step.groups = 8;  // 134.2e6 x 7 / 8 / 8 devices a host over 50 GB/s, against 7 / 8 of it inside at 450 GB/s
  EXPECT_NEAR(roofline(step, *pjrt::find_chip("h200")).interconnect, 134.2177e6 * 7 / 8 / 8 / 50e9, 1e-6);
  EXPECT_STREQ(roofline(step, *pjrt::find_chip("h200")).bound(), "interconnect");
}

// docs.cloud.google.com/tpu/docs (system architecture: peak bf16, memory and its bandwidth of a chip; v2 to v4 have two cores a
// chip, and v2 and v3 a device a core) and NVIDIA's data sheets (dense bf16).
TEST(Chips, AreAsTheirMakersSay) {
  struct Figures {
    const char* name;
    double tera_flops, gigabytes, gigabytes_per_second;
  };
  for (const Figures& want : {Figures{"v3", 123.0 / 2, 32 / 2.0 * 1.073741824, 900 / 2.0},
                              {"v5e", 197, 16 * 1.073741824, 819},
                              {"v5p", 459, 95 * 1.073741824, 2765},
                              {"v6e", 918, 32 * 1.073741824, 1638},
                              {"a100", 312, 80, 2039},
                              {"h100", 989, 80, 3350},
                              {"h200", 989, 141, 4800}}) {
    const pjrt::Chip& chip = *pjrt::find_chip(want.name);
    EXPECT_DOUBLE_EQ(chip.bf16_flops, want.tera_flops * 1e12) << want.name;
    EXPECT_DOUBLE_EQ(chip.hbm_bytes, want.gigabytes * 1e9) << want.name;
    EXPECT_DOUBLE_EQ(chip.hbm_bandwidth, want.gigabytes_per_second * 1e9) << want.name;
  }
}

// ---- whole plans ----

TEST(Plan, TenBillionParametersOnAV3Pod) {
  const Plan plan = make_plan(recipe("vit_10b"), options("v3:8x8"));
  EXPECT_TRUE(plan.fits);
  EXPECT_EQ(plan.devices, 128);
  EXPECT_EQ(plan.parameters, 10'077'917'160);
  EXPECT_LE(plan.peak, 3.85 * kGiB);
  EXPECT_GT(plan.peak, plan.arguments);
  EXPECT_NEAR(plan.arguments, 12.0 * 10'077'917'160 / 128, 0.01 * plan.arguments);
  EXPECT_GT(plan.mfu, 0.5);
  const auto json = nlohmann::json::parse(plan_json(plan));
  for (const char* key : {"topology", "devices", "device_kind", "parameters", "per_device", "fits", "step_seconds", "bound",
                          "images_per_second", "mfu", "compile_seconds", "proposals"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  for (const char* key : {"argument_bytes", "temp_bytes", "output_bytes", "peak_bytes", "hbm_bytes", "flops",
                          "hbm_traffic_bytes", "collectives"}) {
    EXPECT_TRUE(json["per_device"].contains(key)) << key;
  }
  EXPECT_THAT(plan_text(plan), HasSubstr("fits"));
}

// An image for each chip and a compiler in a hurry, which takes half of the time.
TEST(Plan, Bf16OnV5e) {
  const Plan plan =
      make_plan(recipe("vit_10b", {"dtype=bf16", "data.batch=256", "optimization_level=1"}), options("v5e:16x16"));
  EXPECT_LE(plan.peak, 1.45 * kGiB);
  EXPECT_TRUE(plan.fits);
}

TEST(Plan, OptimizationLevelsReachTheCompiler) {
  const auto target = open_target("v5e:2x4", 1, options("").device);
  const auto temporaries = [&](const std::vector<std::string>& overrides) {
    return target->compile(Case(small_recipe(overrides), {}, target->devices()).program).memory.temporaries;
  };
  const int64_t by_itself = temporaries({});
  EXPECT_EQ(temporaries({"optimization_level=2"}), by_itself);
  EXPECT_NE(temporaries({"optimization_level=0"}), by_itself);
}

TEST(Plan, Bf16OnH200sWithoutAGpu) {
  const Plan plan = make_plan(recipe("vit_10b", {"dtype=bf16"}), options("h200:16x8"));
  EXPECT_EQ(plan.devices, 128);
  EXPECT_LE(plan.peak, 3.1 * kGiB);
  EXPECT_THAT(plan.device_kind, HasSubstr("H200"));
}

TEST(Plan, RefusesWhatDoesNotFitAndSaysWhatWould) {
  // 13 billion parameters: 18 GiB of state for each of eight devices. Few tokens and no optimisation, because those make compiling
  // long.
  const std::vector<std::string> large = {"model.width=8192", "model.depth=16",     "model.heads=64",
                                          "data.batch=128",   "eval.val.batch=128", "optimization_level=0"};
  const Plan plan = make_plan(recipe("vit_10b_toy", large), options("v3:2x2"));
  EXPECT_FALSE(plan.fits);
  ASSERT_FALSE(plan.proposals.empty());
  EXPECT_THAT(plan_text(plan), HasSubstr("params/blocks/mlp/fc1/kernel f32[16, 1024, 32768]"));
  PlanOptions again = options(plan.proposals[0].topology);
  again.propose = false;
  EXPECT_TRUE(make_plan(recipe("vit_10b_toy", large), again).fits);
}

// Hardware with so many bytes, and its compiler.
class Played : public Target {
 public:
  using Compiler = std::function<Compiled(const train::Program&)>;

  Played(double memory, Compiler compiler) : compiler_(std::move(compiler)) {
    name_ = "played";
    memory_ = memory;
  }
  Compiled compile(const train::Program& program) const override { return compiler_(program); }

 private:
  Compiler compiler_;
};
constexpr double kBoundless = 1e15;

TEST(Plan, OfGpusComputesActivationsAgainWhereARunDoes) {
  const Case c(small_recipe({"model.remat=auto", "mesh=replica=1"}), {}, 1, true);
  ASSERT_TRUE(c.program.smaller);
  const CpuCase counted{};
  const auto peak = [&](double memory) {
    const Played target(memory, [](const train::Program& program) {
      Compiled out;
      out.memory.peak = program.smaller ? 700 : 100;
      return out;
    });
    return plan_case(c, target, options("cpu:1"), &counted).peak;
  };
  EXPECT_EQ(peak(1200), 700) << "0.8 of three quarters are 720";
  EXPECT_EQ(peak(1100), 100);
  const Played refuses(1200, [](const train::Program& program) {
    if (program.smaller) throw pjrt::PjrtError("PJRT_Client_Compile", 8, "RESOURCE_EXHAUSTED", {}, {});
    return Compiled{};
  });
  EXPECT_TRUE(plan_case(c, refuses, options("cpu:1"), &counted).fits);
}

std::vector<Proposal> proposals_for(const Target& target, const ReadRecipe& read) {
  return find_proposals(read, Case(read, {}, 1), target, options("cpu:1"));
}

const std::vector<std::string> kFewProposals = {"data.batch=2", "eval.val.batch=2", "dtype=bf16"};

TEST(Proposals, ACompilerThatFailsIsTold) {
  const Played broken(kBoundless, [](const train::Program&) -> Compiled { throw device_error("the compiler broke"); });
  const auto client = train::open_client(options("").device);  // sets the descriptor of messages, for the plugin's noise
  const testing::TempDir dir;
  const int usual = log_descriptor(), file = ::open((dir / "log").c_str(), O_WRONLY | O_CREAT, 0600);
  set_log_descriptor(file);
  EXPECT_TRUE(proposals_for(broken, small_recipe(kFewProposals)).empty());
  set_log_descriptor(usual);
  ::close(file);
  EXPECT_THAT(testing::slurp(dir / "log"), HasSubstr("accumulate=2` is not known: the compiler broke"));
}

// Each tower has a `remat` of its own, and the model has none.
TEST(Proposals, RecomputeBothTowers) {
  const Played target(kBoundless, [](const train::Program&) { return Compiled{}; });
  const std::vector<std::string> towers = {
      R"(model={name="two_tower", image={width=32, depth=1, heads=1, patch=14}, text={width=32, depth=1, heads=1}, bias_init=-10})"};
  const std::vector<Proposal> found = proposals_for(target, recipe("siglip_b16", towers));
  ASSERT_FALSE(found.empty());
  EXPECT_THAT(found[0].overrides, AllOf(Contains("model.image.remat=full"), Contains("model.text.remat=full")));
}

// A step that is compiled in seconds, and whose arrays are larger than its code.
const std::vector<std::string> kMedium = {"model.width=1152", "model.depth=8", "model.heads=8", "data.batch=32",
                                          "eval.val.batch=32"};

TEST(Plan, NamesWhatIsAliveAtThePeak) {
  const Plan plan = make_plan(recipe("vit_10b_toy", kMedium), options("v3:2x2"));
  EXPECT_NEAR(plan.accounted, plan.peak, 0.05 * plan.peak);
  ASSERT_GE(plan.at_peak.size(), 5U);
  double sum = 0;
  std::vector<std::string> arrays;
  for (size_t i = 0; i < plan.at_peak.size(); ++i) {
    if (i > 0) {
      EXPECT_LE(plan.at_peak[i].bytes, plan.at_peak[i - 1].bytes);
    }
    sum += static_cast<double>(plan.at_peak[i].bytes);
    arrays.push_back(plan.at_peak[i].name + " " + plan.at_peak[i].type);
  }
  EXPECT_EQ(sum, plan.accounted);
  EXPECT_THAT(arrays, Contains("params/blocks/mlp/fc1/kernel f32[8, 144, 4608]"));
  EXPECT_THAT(arrays, Contains("opt/nu/blocks/mlp/fc2/kernel f32[8, 576, 1152]"));
  EXPECT_THAT(arrays, Contains("gradient of model/blocks/mlp/fc1 f32[8, 144, 4608]"));
  EXPECT_THAT(plan_text(plan), HasSubstr("of the compiler's peak); the largest:"));
  const auto device = nlohmann::json::parse(plan_json(plan))["per_device"];
  EXPECT_EQ(device["accounted_bytes"].get<double>(), plan.accounted);
  ASSERT_EQ(device["at_peak"].size(), 5U);
  EXPECT_EQ(device["at_peak"][0]["name"], plan.at_peak[0].name);
  EXPECT_EQ(device["at_peak"][0]["bytes"], plan.at_peak[0].bytes);
  EXPECT_EQ(device["at_peak"][0]["type"], plan.at_peak[0].type);
}

TEST(Plan, SaysWhenThePeakCantBeTold) {
  Plan plan;
  plan.peak = 1e9;
  EXPECT_THAT(plan_text(plan), HasSubstr("not known: the plugin does not give the order"));
}

// A block's kernel, cut along its last dimension, lies on a TPU with the stack's dimension second to last. Gathered as it lies
// there, a dimension of size 1 would be padded to 4.
TEST(Plan, BlocksAreGatheredWithoutPadding) {
  const auto target = open_target("v3:8x8", 1, options("").device);
  // 36 columns of fc1 on each device.
  const Case c(recipe("vit_10b_toy", kMedium), {"data.batch=128", "eval.val.batch=128"}, target->devices());
  int64_t gathers = 0;
  for (const pjrt::HloComputation& computation : target->compile(c.program).program.computations) {
    for (const pjrt::HloInstruction& i : computation.instructions) {
      if (i.opcode != "all-gather" || i.arrays[0].bytes() < 1 << 20) continue;  // position embedding and head are small
      ++gathers;
      EXPECT_LE(i.arrays[0].padded_bytes(), 1.5 * static_cast<double>(i.arrays[0].bytes())) << i.name << " " << i.op_name;
    }
  }
  EXPECT_GE(gathers, 4);  // fc1 and fc2, forward and backward
}

TEST(Plan, OfVirtualDevicesIsWhatRunsThere) {
  const Plan plan = make_plan(recipe("vit_10b_toy"), options("cpu:8"));
  EXPECT_TRUE(plan.fits);
  EXPECT_EQ(plan.device_kind, "cpu");
  EXPECT_FALSE(plan.roofline);
  EXPECT_GT(plan.temporaries, 0);
}

TEST(Plan, IsCompiledOnce) {
  const testing::TempDir cache;
  const auto plan_on = [&](const std::string& topology, const std::string& width) {
    PlanOptions here = options(topology);
    here.device.cache = pjrt::ExecutableCache(cache.path());
    return make_plan(small_recipe({"model.depth=1", "model.heads=1", "model.width=" + width}), here);
  };
  Plan first = plan_on("cpu:1", "32");
  const Plan second = plan_on("cpu:1", "32");
  EXPECT_FALSE(first.compiled_before);
  EXPECT_TRUE(second.compiled_before);
  EXPECT_THAT(plan_text(second), HasSubstr(" s, by an earlier plan"));
  first.compiled_before = true;
  EXPECT_EQ(plan_json(second), plan_json(first));
  EXPECT_FALSE(plan_on("cpu:1", "64").compiled_before);
  EXPECT_FALSE(plan_on("cpu:2", "32").compiled_before);
}

TEST(Compiled, KeepsWhatTheCompilerSaid) {
  const testing::TempDir directory;
  const pjrt::ExecutableCache cache(directory.path());
  const Hash128 one{1, 2}, other{3, 4};
  keep_account(cache, one, {{1, 2, 3, 4, 5, 6}, 2.5, "hlo", std::string("\n\0x", 3), {}});
  const auto found = find_account(cache, one);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->seconds, 2.5);
  EXPECT_EQ(found->format, "hlo");
  EXPECT_EQ(found->bytes, std::string("\n\0x", 3));
  const pjrt::CompiledMemory& memory = found->memory;
  EXPECT_EQ(
      std::vector({memory.arguments, memory.outputs, memory.aliased, memory.temporaries, memory.generated_code, memory.peak}),
      (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_FALSE(find_account(cache, other));
  cache.keep(other, "no account");
  EXPECT_FALSE(find_account(cache, other));
  cache.keep(other, "{\"seconds\": 1}\n");
  EXPECT_FALSE(find_account(cache, other));
}

// Of hardware that is not there, always; devices at hand may have more memory another time.
TEST(Compiled, KeepsThatAProgramNeedsTooMuch) {
  const testing::TempDir directory;
  const pjrt::ExecutableCache cache(directory.path());
  int compiled = 0;
  constexpr int kResourceExhausted = 8;
  const auto compile = [&]() -> pjrt::CompiledProgram {
    ++compiled;
    throw pjrt::PjrtError("PJRT_Compile", kResourceExhausted, "needs 20 GiB", "plugin 1", "less");
  };
  for (const bool keep : {false, true}) {
    for (int i = 0; i < 2; ++i) {
      try {
        compile_once(cache, Hash128{1, 2}, keep, compile);
        ADD_FAILURE() << "compiled";
      } catch (const pjrt::PjrtError& error) {
        EXPECT_TRUE(pjrt::is_out_of_memory(error));
        EXPECT_EQ(error.message(), "needs 20 GiB");
        EXPECT_EQ(error.where() + error.help(), "plugin 1less");
      }
    }
  }
  EXPECT_EQ(compiled, 3);
}

// The plugins load, and say what is missing, on a machine without their devices.
TEST(Plugins, WithoutADeviceSaySo) {
  ::setenv("VIRTUAL_ENV", testing::source_path(".deps/plan").c_str(), 1);
  for (const pjrt::Platform platform : {pjrt::Platform::kCuda, pjrt::Platform::kTpu}) {
    train::DeviceOptions device;
    device.platform = platform;
    try {
      const auto client = train::open_client(device);
      EXPECT_EQ(client->platform_name(), pjrt::platform_name(platform));  // there is one here
      EXPECT_GE(client->devices().size(), 1u);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kDevice);
      EXPECT_THAT(error.message(), HasSubstr("PJRT_Client_Create"));
      EXPECT_THAT(error.help(), HasSubstr("tessera devices"));
    }
  }
}

TEST(Plan, WhatCountingNeedsIsLookedForFirst) {
  PlanOptions without = options("v3:8x8");
  without.device.plugin = "/nowhere/xla_cpu_pjrt.so";
  std::string begun;
  without.progress = [&](const std::string& what) { begun += what + "\n"; };
  try {
    make_plan(recipe("vit_10b_toy"), without);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kDevice);
    EXPECT_THAT(error.message(), HasSubstr("counts the step's work in a program for CPUs: there is no plugin at /nowhere"));
  }
  EXPECT_EQ(begun, "");
}

TEST(Plan, UnknownTopologiesAreListed) {
  for (const char* name : {"v3:9x9", "v3", "q7:2x2", "h200:8", "cpu:x", "v5e:0x4", ""}) {
    try {
      make_plan(recipe("vit_10b_toy"), options(name));
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kUsage) << name;
      EXPECT_THAT(error.help(), HasSubstr("v5e:16x16")) << name;
    }
  }
}

}  // namespace
}  // namespace tessera::plan
