// When the memory of large temporaries is kept, and when it goes back.

#include "base/system/large_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "pjrt/executable.h"
#include "pjrt/pjrt_testing.h"

namespace {

std::vector<std::string> asked;      // of jemalloc
std::deque<int64_t> free_from_look;  // bytes that are free at the first look, at the next …; the last one stays
int looks = 0;

constexpr size_t kPage = 4096;

}  // namespace

// In the place of jemalloc's, which tests are not linked with: large blocks are those of arena 7.
extern "C" int mallctl(const char* name, void* old, size_t*, void* value, size_t) {
  const std::string_view what = name;
  if (what == "epoch") return 0;
  if (what == "arenas.lookup") {
    *static_cast<unsigned*>(old) = 7;
    return 0;
  }
  if (what == "arenas.page") {
    *static_cast<size_t*>(old) = kPage;
    return 0;
  }
  if (what == "stats.arenas.7.pdirty") {
    ++looks;
    *static_cast<size_t*>(old) = static_cast<size_t>(free_from_look.front()) / kPage;
    if (free_from_look.size() > 1) free_from_look.pop_front();
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

constexpr int64_t kPlenty = int64_t{1} << 40;

TEST(LargeBlocks, AreKeptUntilAnotherProgramWithManyTemporariesRuns) {
  asked.clear();
  free_from_look = {kPlenty};
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

// The plugin frees a run's temporaries a moment after it has said that the run is through.
TEST(LargeBlocks, ARunWaitsUntilTheLastOneHasGivenItsTemporariesBack) {
  keep_large_blocks();
  const auto client = cpu_client();
  const Executable step = with_temporaries(*client, "step", int64_t{20} << 20);
  const int64_t block = step.memory().temporaries;
  Buffer x = upload<float>(*client, {1}, DType::kF32, {});
  const auto looks_of_a_run = [&](std::deque<int64_t> free) {
    free_from_look = std::move(free);
    looks = 0;
    step.run(std::array{&x})[0].await();
    return looks;
  };
  looks_of_a_run({kPlenty});
  EXPECT_EQ(looks_of_a_run({block + 4096}), 1) << "it is free already";
  EXPECT_EQ(looks_of_a_run({0, 0, 4096, block + 4096}), 4);
  EXPECT_GT(looks_of_a_run({0}), 1) << "and the run goes on where it does not come free";
}

TEST(LargeBlocks, AllFreeMemoryGoesBackWhenAsked) {
  asked.clear();
  give_back_free_memory();
  EXPECT_THAT(asked, ElementsAre("arena.4096.purge"));
}

TEST(LargeBlocks, SmallProgramsWaitForNobody) {
  keep_large_blocks();
  const auto client = cpu_client();
  const Executable small = with_temporaries(*client, "small", 1000);
  Buffer x = upload<float>(*client, {1}, DType::kF32, {});
  free_from_look = {0};
  looks = 0;
  for (int i = 0; i < 2; ++i) small.run(std::array{&x})[0].await();
  EXPECT_EQ(looks, 0);
}

}  // namespace
}  // namespace tessera::pjrt
