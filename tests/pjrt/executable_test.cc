#include "pjrt/executable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "base/error.h"
#include "pjrt/pjrt_testing.h"
#include "pjrt/plugin/error.h"

namespace tessera::pjrt {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kAdd = R"(module @add_two {
  func.func public @main(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xi1>) {
    %sum = stablehlo.add %a, %b : tensor<2x3xf32>
    %less = stablehlo.compare LT, %a, %b : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
    return %sum, %less : tensor<2x3xf32>, tensor<2x3xi1>
  }
})";

// (w, g) -> (w - g, sum(w)); w's memory becomes the first result.
constexpr const char* kUpdate = R"(module @update {
  func.func public @main(%w: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %g: tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>) {
    %new = stablehlo.subtract %w, %g : tensor<4xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%w init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    return %new, %sum : tensor<4xf32>, tensor<f32>
  }
})";

const TensorType kFour{DType::kF32, {4}};

TEST(Executable, AddsAndCompares) {
  const auto client = cpu_client();
  const Executable add = client->compile(kAdd);
  EXPECT_EQ(add.name(), "add_two");
  EXPECT_THAT(add.devices(), ElementsAre(0));
  Buffer a = upload<float>(*client, {1, 2, 3, 4, 5, 6}, DType::kF32, {2, 3});
  Buffer b = upload<float>(*client, {10, 0, 30, 0, 50, 0}, DType::kF32, {2, 3});
  const std::vector<Buffer> out = add.run(std::array{&a, &b});
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].type(), (TensorType{DType::kF32, {2, 3}}));
  EXPECT_EQ(out[1].type(), (TensorType{DType::kBool, {2, 3}}));
  EXPECT_THAT(out[0].to_host<float>(), ElementsAre(11, 2, 33, 4, 55, 6));
  EXPECT_THAT(out[1].to_host<uint8_t>(), ElementsAre(1, 0, 1, 0, 1, 0));
  out[0].await();
  EXPECT_TRUE(out[0].ready());
  EXPECT_THAT(a.to_host<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Executable, MultipliesMatrices) {
  const auto client = cpu_client();
  const Executable matmul = client->compile(R"(module @matmul {
    func.func public @main(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<2x4xf32> {
      %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
      return %c : tensor<2x4xf32>
    }
  })");
  Buffer a = upload<float>(*client, {1, 2, 3, 4, 5, 6}, DType::kF32, {2, 3});
  Buffer b = upload<float>(*client, {1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1}, DType::kF32, {3, 4});
  EXPECT_THAT(matmul.run(std::array{&a, &b})[0].to_host<float>(), ElementsAre(1, 2, 3, 6, 4, 5, 6, 15));
}

TEST(Executable, DonatesWhatItWasToldTo) {
  const auto client = cpu_client();
  const Executable update = client->compile(kUpdate, {.donated = {0}});
  Buffer w = upload<float>(*client, {1, 2, 3, 4}, DType::kF32, {4});
  Buffer g = upload<float>(*client, {1, 1, 1, 1}, DType::kF32, {4});
  w.set_name("params/w");
  std::vector<Buffer> out = update.run(std::array{&w, &g});
  EXPECT_THAT(out[0].to_host<float>(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(out[1].to_host<float>(), ElementsAre(10));
  EXPECT_TRUE(w.donated());
  EXPECT_FALSE(w.empty());
  EXPECT_FALSE(g.donated());
  EXPECT_THAT(message_of<InternalError>([&] { (void)w.to_host<float>(); }),
              HasSubstr("read: buffer `params/w` (f32[4]) was donated to program `update`"));
  EXPECT_THAT(message_of<InternalError>([&] {
                update.run(std::array{&g, &w});
              }),
              HasSubstr("argument 1 of `update`: buffer `params/w` (f32[4]) was donated to program `update`"));
  EXPECT_FALSE(g.donated()) << "a refused call takes nothing";
  w = std::move(out[0]);
  EXPECT_FALSE(w.donated());
  out = update.run(std::array{&w, &g});
  EXPECT_THAT(out[0].to_host<float>(), ElementsAre(-1, 0, 1, 2));
}

TEST(Executable, KeepsAnAliasedArgumentThatIsNotListed) {
  const auto client = cpu_client();
  const Executable update = client->compile(kUpdate);
  Buffer w = upload<float>(*client, {1, 2, 3, 4}, DType::kF32, {4});
  Buffer g = upload<float>(*client, {1, 1, 1, 1}, DType::kF32, {4});
  for (int i = 0; i < 2; ++i) EXPECT_THAT(update.run(std::array{&w, &g})[0].to_host<float>(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(w.to_host<float>(), ElementsAre(1, 2, 3, 4));
}

TEST(Executable, ReportsMemory) {
  const Executable update = cpu_client()->compile(kUpdate, {.donated = {0}});
  const CompiledMemory memory = update.memory();
  EXPECT_EQ(memory.arguments, 32);
  EXPECT_EQ(memory.outputs, 16 + 4 + 2 * 8) << "the two results and the tuple of their addresses";
  EXPECT_EQ(memory.aliased, 16);
  EXPECT_GE(memory.temporaries, 0);
  EXPECT_GE(memory.peak, memory.arguments);
}

TEST(Executable, SaysWhatIsWrongWithAProgram) {
  const std::string text = message_of<PjrtError>([] {
    cpu_client()->compile(
        "module @bad { func.func public @main(%a: tensor<2xf32>) -> tensor<3xf32> { return %a : tensor<2xf32> } }");
  });
  EXPECT_THAT(text, HasSubstr("PJRT_Client_Compile: UNKNOWN: -:1:"));
  EXPECT_THAT(text, HasSubstr("tensor<3xf32>"));
  EXPECT_THAT(text, HasSubstr("--> xla_cpu_pjrt.so, PJRT C API 0.81, StableHLO 1."));
}

TEST(Executable, RefusesAnUnknownFlag) {
  EXPECT_THAT(message_of<PjrtError>([] {
                cpu_client()->compile(kAdd, {.flags = {{"xla_no_such_flag", true}}});
              }),
              HasSubstr("xla_no_such_flag"));
  const Executable add = cpu_client()->compile(kAdd, {.flags = {{"xla_cpu_enable_fast_math", true}}});
  EXPECT_EQ(add.num_outputs(), 2u);
}

TEST(Executable, RefusesWrongArguments) {
  const auto client = cpu_client();
  const Executable add = client->compile(kAdd);
  Buffer a = upload<float>(*client, {1, 2, 3, 4, 5, 6}, DType::kF32, {2, 3});
  Buffer small = upload<float>(*client, {1, 2, 3, 4}, DType::kF32, {4});
  EXPECT_THAT(message_of<PjrtError>([&] { add.run(std::array{&a}); }), HasSubstr("PJRT_LoadedExecutable_Execute: "));
  // The CPU plugin finds the wrong size while it runs, so the error comes out of the result.
  EXPECT_THAT(message_of<PjrtError>([&] { add.run(std::array{&a, &small})[0].await(); }), HasSubstr("16"));
  Buffer none;
  EXPECT_THAT(message_of<InternalError>([&] {
                add.run(std::array{&a, &none});
              }),
              HasSubstr("argument 1 of `add_two`: the buffer is empty"));
  const std::vector<std::vector<Buffer*>> two = {{&a, &a}, {&a, &a}};
  EXPECT_THAT(message_of<InternalError>([&] { add.execute(two); }), HasSubstr("runs on 1 devices, got arguments for 2"));
}

TEST(Executable, RunsSharded) {
  const auto client = Client::create(cpu_plugin(), {.cpu_device_count = 8});
  ASSERT_EQ(client->devices().size(), 8u);
  // x is split over eight devices; the total is summed over all of them and replicated.
  const Executable program =
      client->compile(R"(module @sharded attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
    sdy.mesh @mesh = <["replica"=2, "fsdp"=4]>
    func.func public @main(%x: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "fsdp"}]>})
        -> (tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "fsdp"}]>}, tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>}) {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<16xf32>, tensor<f32>) -> tensor<f32>
      %all = stablehlo.broadcast_in_dim %sum, dims = [] : (tensor<f32>) -> tensor<16xf32>
      %y = stablehlo.subtract %x, %all : tensor<16xf32>
      return %y, %sum : tensor<16xf32>, tensor<f32>
    }
  })",
                      {.num_partitions = 8, .device_ids = {0, 1, 2, 3, 4, 5, 6, 7}});
  EXPECT_THAT(program.devices(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  std::vector<Buffer> shards;
  std::vector<std::vector<Buffer*>> args;
  for (size_t d = 0; d < 8; ++d) {
    shards.push_back(upload<float>(*client, {2.0f * d, 2.0f * d + 1}, DType::kF32, {2}, d));
  }
  for (Buffer& shard : shards) args.push_back({&shard});
  const std::vector<std::vector<Buffer>> out = program.execute(args);
  ASSERT_EQ(out.size(), 8u);
  for (size_t d = 0; d < 8; ++d) {
    EXPECT_EQ(out[d][0].device(), d);
    EXPECT_EQ(out[d][0].type(), (TensorType{DType::kF32, {2}})) << "a shard";
    EXPECT_THAT(out[d][0].to_host<float>(), ElementsAre(2.0f * d - 120, 2.0f * d + 1 - 120));
    EXPECT_THAT(out[d][1].to_host<float>(), ElementsAre(120));
  }
}

TEST(Executable, RunsOnTheDeviceAskedFor) {
  const auto client = Client::create(cpu_plugin(), {.cpu_device_count = 3});
  const Executable add = client->compile(kAdd, {.device_ids = {client->devices()[2].id}});
  EXPECT_THAT(add.devices(), ElementsAre(2));
  Buffer a = upload<float>(*client, {1, 2, 3, 4, 5, 6}, DType::kF32, {2, 3}, 2);
  EXPECT_EQ(a.device(), 2u);
  const std::vector<Buffer> out = add.run(std::array{&a, &a});
  EXPECT_EQ(out[0].device(), 2u);
  EXPECT_THAT(out[0].to_host<float>(), ElementsAre(2, 4, 6, 8, 10, 12));
}

TEST(Executable, ComesBackFromItsBytes) {
  const auto client = cpu_client();
  const CompileOptions options{.donated = {0}};
  const std::string bytes = client->compile(kUpdate, options).serialize();
  const Executable update = client->deserialize(bytes, options);
  EXPECT_EQ(update.name(), "update");
  Buffer w = upload<float>(*client, {1, 2, 3, 4}, DType::kF32, {4});
  Buffer g = upload<float>(*client, {1, 1, 1, 1}, DType::kF32, {4});
  EXPECT_THAT(update.run(std::array{&w, &g})[0].to_host<float>(), ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(w.donated());
  EXPECT_THAT(message_of<PjrtError>([&] { client->deserialize("not an executable"); }),
              HasSubstr("PJRT_Executable_DeserializeAndLoad: "));
}

}  // namespace
}  // namespace tessera::pjrt
