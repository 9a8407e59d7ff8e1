// Calls of cuDNN's attention: the ones that JAX makes, what goes into them and becomes of their results, and when they are made.

#include "ir/program/cudnn_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "ir/composite.h"
#include "ir/composites.h"
#include "ir/functions.h"
#include "ir/grad.h"
#include "ir/op_entries.h"
#include "ir/ops.h"
#include "ir/passes/rewrite.h"
#include "ir/program/gpu_target.h"
#include "ir/program/program.h"
#include "support/formula.h"
#include "support/paths.h"
#include "support/played_cudnn.h"
#include "support/run_graph.h"

namespace tessera::ir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr DType kBF16 = DType::kBF16;

std::string part(const std::string& line, const char* pattern) {
  std::smatch found;
  EXPECT_TRUE(std::regex_search(line, found, std::regex(pattern))) << pattern << " in " << line;
  return found.size() > 1 ? found[1].str() : "";
}

std::vector<std::string> layouts(const std::string& list) {
  std::vector<std::string> out;
  const std::regex each(R"(dense<\[([\d, ]*)\]>)");
  for (std::sregex_iterator at(list.begin(), list.end(), each), end; at != end; ++at) out.push_back((*at)[1]);
  return out;
}

// The calls of a program, as tools/references/models/cudnn_attention.py describes them.
nlohmann::json calls_of(const std::string& program) {
  nlohmann::json calls = nlohmann::json::array();
  std::istringstream lines(program);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(kCudnnAttention) == std::string::npos) continue;
    const std::string config = part(line, R"re(backend_config = "((?:[^"\\]|\\.)*)")re");
    calls.push_back({{"name", part(line, R"re(call_target_name = "([^"]*)")re")},
                     {"operands", part(line, R"re( : \(([^()]*)\) ->)re")},
                     {"results", part(line, R"re( -> \(([^()]*)\))re")},
                     {"operand_layouts", layouts(part(line, R"re(operand_layouts = \[(.*?>)\])re"))},
                     {"result_layouts", layouts(part(line, R"re(result_layouts = \[(.*?>)\])re"))},
                     {"config", nlohmann::json::parse(std::regex_replace(config, std::regex(R"(\\")"), "\""))}});
  }
  return calls;
}

// And says of the gradient that its order of summation is fixed: where JAX asks for that, XLA adds it, but to one call of a program.
TEST(CudnnAttention, MakesTheCallsThatJaxMakes) {
  Graph graph;
  const GraphScope scope(graph);
  const TensorType queries{kBF16, {2, 5, 3, 16}}, keys{kBF16, {2, 7, 3, 16}};
  const Value q = graph.add_parameter(queries), k = graph.add_parameter(keys), v = graph.add_parameter(keys);
  graph.results = cudnn_attention_gradient(q, k, v, graph.add_parameter(queries));
  std::ifstream file(testing::source_path("tests/references/cudnn_attention.json"));
  auto wanted = nlohmann::json::parse(file);
  for (auto& call : wanted) {
    if (call["name"] == "__cudnn$fmhaSoftmaxBackward")
      call["config"]["cudnn_fmha_backend_config"]["force_deterministic"] = true;
  }
  const nlohmann::json calls = calls_of(program_text(graph));
  ASSERT_EQ(calls.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(calls[i], wanted[i]) << nlohmann::json::diff(wanted[i], calls[i]);
}

// ---- what the calls are given and become, with cuDNN's part played by ops

constexpr int64_t kBatch = 2, kHeads = 3, kWidth = 8;

Value plain_attention(Value q, Value k, Value v) {
  const Value p = convert(softmax(testing::attention_scores(q, k)), kBF16);
  return transpose(dot_general(p, transpose(v, {0, 2, 1, 3}), {{0, 1}, {0, 1}, {3}, {2}}), {0, 2, 1, 3});
}

Composite attention() {
  return {"attention", NoAttributes{}, [](const Values& x) -> Values { return {plain_attention(x[0], x[1], x[2])}; }};
}

Composite self_attention(int64_t tokens) {
  return {"self_attention", SelfAttention{kHeads, tokens}, [tokens](const Values& x) -> Values {
            Values apart;
            for (int64_t i = 0; i < 3; ++i) {
              apart.push_back(
                  reshape(slice_axis(x[0], 1, i * kHeads * kWidth, (i + 1) * kHeads * kWidth), {-1, tokens, kHeads, kWidth}));
            }
            return {reshape(plain_attention(apart[0], apart[1], apart[2]), {-1, kHeads * kWidth})};
          }};
}

bool always(const AttentionSizes&) { return true; }

// The result of a composite of bf16 arrays of these shapes, and their gradients under a sum with weights.
std::vector<std::vector<float>> run_attention(const Composite& composite, const std::vector<Dims>& shapes, bool by_cudnn) {
  Graph graph;
  const GraphScope scope(graph);
  const GpuTarget gpu({}, always);
  Values x;
  std::vector<testing::HostArray> arguments;
  for (const Dims& shape : shapes) {
    arguments.push_back(testing::f32_array(shape, testing::formula_array(to_string(shape) + "x", element_count(shape))));
    x.push_back(convert(graph.add_parameter({DType::kF32, shape}) * 2.0, kBF16));
  }
  const Value y = convert(ir::composite(by_cudnn ? &gpu : nullptr, composite, x)[0], DType::kF32);
  const Value weights = reshape(sin(convert(iota({DType::kI32, {element_count(y.dims())}}, 0), DType::kF32)), y.dims());
  graph.results = {y};
  for (const Value dx : gradient(sum_all(y * weights), x)) graph.results.push_back(convert(dx, DType::kF32));
  std::vector<std::vector<float>> out;
  const std::unique_ptr<Graph> finished = finish(graph, {}, by_cudnn ? &gpu : nullptr);
  for (const auto& result : testing::run_graph(*testing::with_calls_played(*finished), arguments))
    out.push_back(result.floats());
  return out;
}

// Within what bf16 loses: the two round at different places.
void expect_close(const Composite& composite, const std::vector<Dims>& shapes) {
  const auto calls = run_attention(composite, shapes, true), plain = run_attention(composite, shapes, false);
  ASSERT_EQ(calls.size(), plain.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    float largest = 0, off = 0;
    ASSERT_EQ(calls[i].size(), plain[i].size());
    for (size_t j = 0; j < plain[i].size(); ++j) {
      largest = std::max(largest, std::abs(plain[i][j]));
      off = std::max(off, std::abs(plain[i][j] - calls[i][j]));
    }
    EXPECT_LE(off, largest / 32) << composite.name() << ", array " << i;
  }
}

TEST(CudnnAttention, GivesWhatTheCompositesMean) {
  expect_close(attention(), {{kBatch, 5, kHeads, kWidth}, {kBatch, 7, kHeads, kWidth}, {kBatch, 7, kHeads, kWidth}});
  expect_close(self_attention(5), {{kBatch * 5, 3 * kHeads * kWidth}});
}

TEST(GpuTarget, LeavesAttentionToCudnnWhereItWorks) {
  std::vector<AttentionSizes> asked;
  const GpuTarget gpu({}, [&](const AttentionSizes& sizes) {
    asked.push_back(sizes);
    return sizes.queries != 6;
  });
  const auto takes = [&](const Composite& composite, const std::vector<Dims>& shapes, DType dtype = kBF16) {
    std::vector<TensorType> types;
    for (const Dims& shape : shapes) types.push_back({dtype, shape});
    return gpu.takes(composite, types);
  };
  const Dims queries{2, 5, 3, 8}, keys{2, 7, 3, 8};
  EXPECT_TRUE(takes(attention(), {queries, keys, keys}));
  EXPECT_TRUE(takes(attention().gradient(3), {queries, keys, keys, queries}));
  EXPECT_TRUE(takes(self_attention(5), {{10, 72}}));
  EXPECT_FALSE(takes(self_attention(6), {{12, 72}})) << "what was asked said no";
  EXPECT_THAT(asked, ElementsAre(AttentionSizes{5, 7, 3, 8}, AttentionSizes{5, 7, 3, 8}, AttentionSizes{5, 5, 3, 8},
                                 AttentionSizes{6, 6, 3, 8}));
  EXPECT_FALSE(takes(self_attention(5), {{10, 72}}, DType::kF32)) << "cuDNN has none for f32";
  EXPECT_FALSE(takes(attention(), {{2, 5, 3, 12}, {2, 7, 3, 12}, {2, 7, 3, 12}}));
  EXPECT_FALSE(takes(attention(), {{2, 5, 3, 136}, {2, 7, 3, 136}, {2, 7, 3, 136}}));
  EXPECT_FALSE(takes({"convolution", Window{}, nullptr}, {{2, 4, 4, 8}}));
  EXPECT_EQ(asked.size(), 4) << "none of these can work";
  EXPECT_FALSE(GpuTarget().takes(self_attention(5), {{kBF16, {10, 72}}}));
}

TEST(GpuTarget, EachDeviceCallsCudnnForItsExamples) {
  const auto text_on = [](const std::string& axes) {
    const mesh::Mesh mesh = mesh::parse_mesh(axes, 4);
    const GpuTarget gpu(mesh, always);
    Graph graph;
    const GraphScope scope(graph);
    const Value qkv = graph.add_parameter({kBF16, {8 * 5, 3 * kHeads * kWidth}});
    Composite composite = self_attention(5);
    const bool taken = gpu.takes(composite, {qkv.type()});
    graph.results = taken ? composite_node(composite, {qkv}) : Values{qkv};
    return program_text(graph, {.mesh = mesh}, &gpu);
  };
  EXPECT_THAT(text_on("fsdp=4"), AllOf(HasSubstr("sdy.manual_computation"), HasSubstr("tensor<2x5x3x8xbf16>")));
  EXPECT_THAT(text_on("fsdp=2,tensor=2"), Not(HasSubstr(kCudnnAttention))) << "heads are on several devices";
}

}  // namespace
}  // namespace tessera::ir
