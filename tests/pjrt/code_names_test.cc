// Names of addresses in what the CPU plugin compiled, and in its own code.
#include "pjrt/code_names.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "base/system/cpu_samples.h"
#include "pjrt/pjrt_testing.h"
#include "pjrt/program/hlo.h"

namespace tessera::pjrt {
namespace {

using ::testing::Contains;

// Long enough to be sampled, and one loop: sums of an exponential.
constexpr const char* kSlow = R"(module @slow {
  func.func public @main(%a: tensor<512x4096xf32>) -> tensor<512x4096xf32> {
    %e = "stablehlo.exponential"(%a) : (tensor<512x4096xf32>) -> tensor<512x4096xf32> loc("blocks/mlp")
    %s = "stablehlo.sine"(%e) : (tensor<512x4096xf32>) -> tensor<512x4096xf32> loc("blocks/mlp")
    %t = "stablehlo.tanh"(%s) : (tensor<512x4096xf32>) -> tensor<512x4096xf32> loc("blocks/mlp")
    return %t : tensor<512x4096xf32>
  }
})";

std::set<std::string> instructions_of(const HloModule& program, const std::string& scope) {
  std::set<std::string> out;
  for (const HloComputation& computation : program.computations) {
    for (const HloInstruction& instruction : computation.instructions) {
      if (instruction.op_name == scope) out.insert(instruction.name);
    }
  }
  return out;
}

TEST(CodeNames, OfACompiledFunctionIsThatOfItsInstruction) {
  const auto client = cpu_client();
  const Executable slow = client->compile(kSlow);
  Buffer a = upload<float>(*client, std::vector<float>(512 * 4096, 0.5F), DType::kF32, {512, 4096});
  slow.run(std::array{&a})[0].await();
  const CodeNames names(*cpu_plugin());
  std::set<std::string> compiled;
  for (int tries = 0; tries < 20 && compiled.empty(); ++tries) {  // on a busy machine samples are rare
    ASSERT_TRUE(start_cpu_samples());
    for (int i = 0; i < 20; ++i) slow.run(std::array{&a})[0].await();
    const CpuSamples taken = stop_cpu_samples();
    for (const CpuSample& sample : taken.samples) {
      if (const auto name = names.find(sample.address); name && name->compiled) compiled.insert(name->name);
    }
  }
  std::string format;
  const HloModule program = parse_hlo(slow.optimized_program(&format), format);
  const std::set<std::string> of_scope = instructions_of(program, "blocks/mlp");
  ASSERT_FALSE(compiled.empty());
  for (const std::string& name : compiled) EXPECT_THAT(of_scope, Contains(name));
}

TEST(CodeNames, OfThePluginsOwnFunctionsAreReadable) {
  const auto plugin = cpu_plugin();
  const CodeNames names(*plugin);
  const auto name =
      names.find(reinterpret_cast<uintptr_t>(dlsym(dlopen(plugin->path().c_str(), RTLD_LAZY | RTLD_NOLOAD), "GetPjrtApi")));
  ASSERT_TRUE(name.has_value());
  EXPECT_FALSE(name->compiled);
  EXPECT_EQ(name->name, "GetPjrtApi");
  EXPECT_FALSE(names.find(0).has_value());
  EXPECT_FALSE(names.find(reinterpret_cast<uintptr_t>(&cpu_plugin)).has_value());
}

}  // namespace
}  // namespace tessera::pjrt
