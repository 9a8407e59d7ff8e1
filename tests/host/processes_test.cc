// Sums and rows over processes, where the others have what this one has.

#include "host/processes.h"

#include <gmock/gmock.h>

#include <cstring>

#include "base/error.h"
#include "host/register.h"
#include "host/target.h"
#include "ir/functions.h"
#include "ir/grad.h"
#include "ir/ops.h"
#include "ir/processes.h"
#include "support/run_graph.h"

namespace tessera::host {
namespace {

using ::tessera::testing::cpu_client;
using ::tessera::testing::f32_array;
using ::tessera::testing::HostArray;
using ::testing::ElementsAre;

constexpr int64_t kCount = 3;

class Replicas : public group::Exchange {
 public:
  int64_t count() const override { return kCount; }
  void sum(std::span<const float> in, std::span<float> out, uint32_t) override {
    for (size_t i = 0; i < in.size(); ++i) out[i] = kCount * in[i];
  }
  void gather(std::span<const std::byte> in, std::span<std::byte> out, uint32_t) override {
    for (size_t p = 0; p < kCount; ++p) std::memcpy(out.data() + p * in.size(), in.data(), in.size());
  }
  void broadcast(std::span<std::byte>, int64_t, uint32_t) override {}
};

// The function's results and the gradients of weighted sums of them: the loss is the sum of every process's.
class ProcessesTest : public ::testing::Test {
 protected:
  void SetUp() override { set_exchange(&exchange_); }
  void TearDown() override { set_exchange(nullptr); }

  template <class Fn>
  static std::vector<HostArray> run(int32_t process, const std::vector<HostArray>& xs, const std::vector<HostArray>& weights,
                                    Fn&& fn) {
    ir::Graph graph;
    const ir::Value index = graph.add_parameter({DType::kI32, {}});
    ir::Values parameters, cotangents;
    for (const HostArray& x : xs) parameters.push_back(graph.add_parameter(x.type));
    for (const HostArray& w : weights) cotangents.push_back(graph.add_parameter(w.type));
    const ir::GraphScope scope(graph);
    graph.results = fn(ir::Processes{kCount, index}, parameters);
    const ir::Values gradients = ir::vjp(graph.results, cotangents, parameters);
    graph.results.insert(graph.results.end(), gradients.begin(), gradients.end());
    std::vector<HostArray> arguments{tessera::testing::i32_array({}, {process})};
    arguments.insert(arguments.end(), xs.begin(), xs.end());
    arguments.insert(arguments.end(), weights.begin(), weights.end());
    const Target target(register_kernels(*cpu_client()));
    return tessera::testing::run_graph(graph, arguments, {}, &target);
  }

 private:
  Replicas exchange_;
};

TEST_F(ProcessesTest, TheGradientOfASumIsTheSumOfTheCotangents) {
  const auto out = run(0, {f32_array({2}, {1, 2}), f32_array({1}, {5})}, {f32_array({2}, {0.5, 4}), f32_array({1}, {-1})},
                       [](const ir::Processes& processes, const ir::Values& x) { return sum_over_processes(processes, x); });
  ASSERT_EQ(out.size(), 4u);
  EXPECT_THAT(out[0].floats(), ElementsAre(3, 6));
  EXPECT_THAT(out[1].floats(), ElementsAre(15));
  EXPECT_THAT(out[2].floats(), ElementsAre(1.5, 12));
  EXPECT_THAT(out[3].floats(), ElementsAre(-3));
}

// Small arrays travel together, large ones alone.
TEST_F(ProcessesTest, SumsHaveAnySizes) {
  std::vector<float> large(100'000), small(7);
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<float>(i);
  for (size_t i = 0; i < small.size(); ++i) small[i] = -static_cast<float>(i);
  const auto out = run(1, {f32_array({7}, small), f32_array({100'000}, large), f32_array({7, 1}, small)},
                       {f32_array({7}, small), f32_array({100'000}, large), f32_array({7, 1}, small)},
                       [](const ir::Processes& processes, const ir::Values& x) { return sum_over_processes(processes, x); });
  for (float& x : large) x *= kCount;
  for (float& x : small) x *= kCount;
  for (const size_t i : {0u, 2u, 3u, 5u}) EXPECT_EQ(out[i].floats(), small) << i;
  for (const size_t i : {1u, 4u}) EXPECT_EQ(out[i].floats(), large) << i;
}

// What a process's rows add to the loss in all processes.
TEST_F(ProcessesTest, TheGradientOfGatheredRowsIsOfTheProcessesOwn) {
  const auto gather = [](const ir::Processes& processes, const ir::Values& x) {
    return ir::Values{gather_over_processes(processes, x[0])};
  };
  const HostArray rows = f32_array({2, 2}, {1, 2, 3, 4});
  const HostArray weights = f32_array({6, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const auto first = run(0, {rows}, {weights}, gather), last = run(2, {rows}, {weights}, gather);
  EXPECT_THAT(first[0].floats(), ElementsAre(1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4));
  EXPECT_EQ(last[0].floats(), first[0].floats());
  EXPECT_THAT(first[1].floats(), ElementsAre(3, 6, 9, 12));
  EXPECT_THAT(last[1].floats(), ElementsAre(27, 30, 33, 36));
}

TEST_F(ProcessesTest, AnExchangeThatFailsEndsTheProgram) {
  struct Broken final : Replicas {
    void sum(std::span<const float>, std::span<float>, uint32_t) override { throw device_error("process 2 does not answer"); }
  } broken;
  set_exchange(&broken);
  const auto total = [](const ir::Processes& processes, const ir::Values& x) { return sum_over_processes(processes, x); };
  try {
    run(0, {f32_array({1}, {1})}, {f32_array({1}, {1})}, total);
    FAIL() << "the program went on";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("process 2 does not answer"));
  }
}

}  // namespace
}  // namespace tessera::host
