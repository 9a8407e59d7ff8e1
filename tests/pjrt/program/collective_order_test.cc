// A program that was serialised and loaded again starts its collectives in one order on every device. Without that, the devices
// of the first test wait for one another until XLA ends the process.

#include "pjrt/program/collective_order.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pjrt/pjrt_testing.h"

namespace tessera::pjrt {
namespace {

constexpr int64_t kDevices = 4;
constexpr int64_t kSide = 256, kSize = kSide * kSide;  // of an array: large enough for XLA to give parts of it to other threads
// So many that the plugin's threads do not suffice for devices that start other collectives first. (Eight run without an order.)
constexpr int kChains = 24;

CompileOptions on_all_devices() { return {.num_replicas = kDevices, .device_ids = {0, 1, 2, 3}}; }

std::shared_ptr<Client> client_of_all() { return Client::create(cpu_plugin(), {.cpu_device_count = kDevices}); }

// The mean over the devices, by the name `out`.
std::string mean(const std::string& out, const std::string& in) {
  return fmt::format(R"(
  %sum_{0} = "stablehlo.all_reduce"({1}) ({{
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %z = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %z : tensor<f32>
  }}) {{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}} : (tensor<{2}xf32>) -> tensor<{2}xf32>
  %{0} = stablehlo.multiply %sum_{0}, %part : tensor<{2}xf32>)",
                     out, in, kSize);
}

// Three means in a loop.
std::string loop_with_collective(int chain) {
  return fmt::format(R"(
  %l{0}:2 = stablehlo.while(%i = %zero, %v = %product{0}) : tensor<i32>, tensor<{1}xf32>
    cond {{
      %go = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    }} do {{
      %next = stablehlo.add %i, %one : tensor<i32>{2}
      stablehlo.return %next, %body{0} : tensor<i32>, tensor<{1}xf32>
    }}
  %end{0} = stablehlo.reverse %l{0}#1, dims = [0] : tensor<{1}xf32>)",
                     chain, kSize, mean(fmt::format("body{}", chain), "%v"));
}

// Of a kind that XLA does not make one of several.
std::string collective(int chain) {
  return fmt::format(R"(
  %end{0} = "stablehlo.collective_permute"(%product{0})
    {{source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0]]> : tensor<4x2xi64>}} : (tensor<{1}xf32>) -> tensor<{1}xf32>)",
                     chain, kSize);
}

// The sum of chains of work that are independent of each other. Each begins with a product, which ends when the threads have the
// time; then come a loop with a collective in its body in the even chains, and a collective in the odd ones, or in all.
std::string program_of_chains(int chains, bool loops = true) {
  std::string text =
      fmt::format(R"(module @chains attributes {{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = {0} : i32}} {{
func.func public @main(%a: tensor<{1}xf32>) -> tensor<{1}xf32> {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %part = stablehlo.constant dense<{2}> : tensor<{1}xf32>
  %s0 = stablehlo.constant dense<0.0> : tensor<{1}xf32>)",
                  kDevices, kSize, 1.0 / kDevices);
  for (int chain = 0; chain < chains; ++chain) {
    text += fmt::format(R"(
  %factor{0} = stablehlo.constant dense<1.{0:02}e-3> : tensor<{1}xf32>
  %scaled{0} = stablehlo.multiply %a, %factor{0} : tensor<{1}xf32>
  %m{0} = stablehlo.reshape %scaled{0} : (tensor<{1}xf32>) -> tensor<{2}x{2}xf32>
  %d{0} = stablehlo.dot_general %m{0}, %m{0}, contracting_dims = [1] x [0]
    : (tensor<{2}x{2}xf32>, tensor<{2}x{2}xf32>) -> tensor<{2}x{2}xf32>
  %product{0} = stablehlo.reshape %d{0} : (tensor<{2}x{2}xf32>) -> tensor<{1}xf32>)",
                        chain, kSize, kSide);
    text += loops && chain % 2 == 0 ? loop_with_collective(chain) : collective(chain);
    text += fmt::format("\n  %s{} = stablehlo.add %s{}, %end{} : tensor<{}xf32>", chain + 1, chain, chain, kSize);
  }
  return text + fmt::format("\n  return %s{} : tensor<{}xf32>\n}}\n}}\n", chains, kSize);
}

std::vector<std::vector<float>> run(const Client& client, const Executable& program) {
  std::vector<Buffer> inputs;
  std::vector<std::vector<Buffer*>> arguments;
  for (size_t d = 0; d < kDevices; ++d) {
    std::vector<float> numbers(kSize);
    for (size_t i = 0; i < kSize; ++i) numbers[i] = static_cast<float>(i % 97 * (d + 1)) / 7;
    inputs.push_back(upload<float>(client, numbers, DType::kF32, {kSize}, d));
  }
  for (Buffer& input : inputs) arguments.push_back({&input});
  std::vector<std::vector<float>> out;
  for (const std::vector<Buffer>& results : program.execute(arguments)) out.push_back(results[0].to_host<float>());
  return out;
}

size_t waits_in(const std::string& serialized) {
  const std::string name = "tessera.order";
  size_t found = 0;
  for (size_t at = serialized.find(name); at != std::string::npos; at = serialized.find(name, at + 1)) ++found;
  return found;
}

TEST(CollectiveOrder, LoadedProgramsRunAsCompiledOnes) {
  const auto client = client_of_all();
  const Executable compiled = client->compile(program_of_chains(kChains), on_all_devices());
  const auto want = run(*client, compiled);
  const auto in_order = with_collectives_in_order(compiled.serialize());
  ASSERT_TRUE(in_order);
  EXPECT_EQ(waits_in(*in_order), kChains / 2) << "one at each end of a loop; XLA runs the loops one after the other";
  const Executable loaded = client->deserialize(*in_order, on_all_devices());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(run(*client, loaded), want) << "run " << i;
}

TEST(CollectiveOrder, WithoutLoopsNothingIsChanged) {
  const std::string serialized = client_of_all()->compile(program_of_chains(3, false), on_all_devices()).serialize();
  EXPECT_EQ(with_collectives_in_order(serialized), serialized);
}

TEST(CollectiveOrder, OtherBytesAreRefused) {
  EXPECT_FALSE(with_collectives_in_order(""));
  EXPECT_FALSE(with_collectives_in_order("no program"));
  const std::string serialized = client_of_all()->compile(program_of_chains(2), on_all_devices()).serialize();
  EXPECT_FALSE(with_collectives_in_order(serialized.substr(0, serialized.size() / 2)));
}

}  // namespace
}  // namespace tessera::pjrt
