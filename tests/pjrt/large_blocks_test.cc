// When the memory of large temporaries is kept, and when it goes back.

#include "base/system/large_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "pjrt/executable.h"
#include "pjrt/pjrt_testing.h"

namespace {

std::vector<std::string> asked;  // of jemalloc

}  // namespace

// In the place of jemalloc's, which tests are not linked with: large blocks are those of arena 7.
extern "C" int mallctl(const char* name, void* old, size_t*, void* value, size_t) {
  if (std::strcmp(name, "arenas.lookup") == 0) {
    *static_cast<unsigned*>(old) = 7;
    return 0;
  }
  ssize_t number = 0;
  if (value) std::memcpy(&number, value, sizeof(number));
  asked.push_back(name + (value ? " = " + std::to_string(number) : std::string()));
  return 0;
}

namespace tessera::pjrt {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A program whose temporaries take 4 bytes for each of so many numbers.
Executable with_temporaries(const Client& client, const std::string& name, int64_t numbers) {
  const std::string type = "tensor<" + std::to_string(numbers) + "xf32>";
  return client.compile("module @" + name + R"( {
  func.func public @main(%x: tensor<f32>) -> tensor<f32> {
    %many = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> )" +
                        type + R"(
    %kept = stablehlo.optimization_barrier %many : )" +
                        type + R"(
    %sum = stablehlo.reduce(%kept init: %x) applies stablehlo.maximum across dimensions = [0] : ()" +
                        type + R"(, tensor<f32>) -> tensor<f32>
    return %sum : tensor<f32>
  }
})");
}

TEST(LargeBlocks, AreKeptUntilAnotherProgramWithManyTemporariesRuns) {
  keep_large_blocks();
  EXPECT_THAT(asked, ElementsAre("arena.7.dirty_decay_ms = -1"));
  asked.clear();
  const auto client = cpu_client();
  const Executable step = with_temporaries(*client, "step", int64_t{20} << 20),
                   again = with_temporaries(*client, "step", int64_t{20} << 20),
                   evaluate = with_temporaries(*client, "evaluate", int64_t{24} << 20),
                   small = with_temporaries(*client, "small", 1000);
  ASSERT_GT(step.memory().temporaries, kLargeBlock);
  Buffer x = upload<float>(*client, {1}, DType::kF32, {});
  const auto given_back_by = [&](const Executable& program) {
    program.run(std::array{&x})[0].await();
    return std::exchange(asked, {});
  };
  EXPECT_THAT(given_back_by(step), ElementsAre("arena.7.purge"));
  EXPECT_THAT(given_back_by(step), IsEmpty());
  EXPECT_THAT(given_back_by(small), IsEmpty()) << "it needs no room";
  EXPECT_THAT(given_back_by(again), IsEmpty()) << "the same program on another device";
  EXPECT_THAT(given_back_by(evaluate), ElementsAre("arena.7.purge"));
  EXPECT_THAT(given_back_by(step), ElementsAre("arena.7.purge"));
}

}  // namespace
}  // namespace tessera::pjrt
