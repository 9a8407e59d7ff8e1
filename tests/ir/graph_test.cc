// Shape rules and their messages, the verifier, the emitter's text, scan's remat policies as they show in the program.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numbers>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ir/composite.h"
#include "ir/functions.h"
#include "ir/grad.h"
#include "ir/manual.h"
#include "ir/op_entries.h"
#include "ir/passes/rewrite.h"
#include "ir/passes/verify.h"
#include "ir/program/flops.h"
#include "ir/random.h"
#include "support/formula.h"
#include "support/run_graph.h"

namespace tessera::ir {
namespace {

using ::tessera::testing::f32_array;
using ::tessera::testing::i32_array;
using ::tessera::testing::run;
using ::testing::HasSubstr;

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::kUsage);
    return e.what();
  }
  return "no error";
}

struct Traced {
  Graph graph;
  GraphScope scope{graph};
  Value a = graph.add_parameter({DType::kF32, {2, 3}}), b = graph.add_parameter({DType::kF32, {4}});
};

TEST(ShapeRules, SayWhatDoesNotFitAndWhere) {
  Traced t;
  const NameScope outer("blocks"), inner("mlp");
  EXPECT_THAT(error_of([&] { t.a + t.b; }),
              AllOf(HasSubstr("stablehlo.add"), HasSubstr("[2, 3] and [4]"), HasSubstr("blocks/mlp")));
  EXPECT_THAT(error_of([&] { matmul(t.a, t.b); }), HasSubstr("f32[2, 3]"));
  EXPECT_THAT(error_of([&] { reshape(t.a, {4, 2}); }), HasSubstr("cannot reshape to [4, 2]: 8 elements against 6"));
  EXPECT_THAT(error_of([&] { t.a + convert(t.a, DType::kBF16); }), HasSubstr("different dtypes: convert one of them"));
  EXPECT_THAT(error_of([&] { transpose(t.a, {0, 0}); }), HasSubstr("not a permutation"));
  const int64_t most = int64_t{1} << 54;
  EXPECT_EQ(error_of([&] { zeros({DType::kF32, {most}}); }), "no error");
  EXPECT_THAT(error_of([&] {
                zeros({DType::kF32, {most + 1}});
              }),
              AllOf(HasSubstr("larger than any machine's memory"), HasSubstr("blocks/mlp")));
  for (const Dims& dims : {Dims{most, most}, Dims{0, most + 1}, Dims{int64_t{1} << 62, 4}}) {
    EXPECT_THAT(error_of([&] { zeros({DType::kF32, dims}); }), HasSubstr("larger than any machine's memory"));
    EXPECT_THAT(error_of([&] { t.graph.add_parameter({DType::kF32, dims}); }), HasSubstr("larger than any machine's memory"));
  }
  EXPECT_THAT(error_of([&] { slice_axis(t.a, 1, 2, 5); }), HasSubstr("does not fit"));
  EXPECT_THAT(error_of([&] { sum(t.a, {2}); }), HasSubstr("axis 2 is outside an array of rank 2"));
  EXPECT_THAT(error_of([&] { exp(convert(t.a, DType::kI32)); }), HasSubstr("needs a float operand"));
  EXPECT_THAT(error_of([&] {
                scan(3, {t.a}, {}, [](const Values& c, const Values&) { return ScanResult{{convert(c[0], DType::kF64)}, {}}; });
              }),
              HasSubstr("turns carry 0 from f32[2, 3] into f64[2, 3]"));
}

// What profiles and plans name the compiler's instructions by.
TEST(Scopes, AreLocationsAndThoseOfGradientsSaySo) {
  Traced t;
  Value loss;
  {
    const NameScope outer("blocks"), inner("mlp");
    loss = sum_all(tanh(t.a));
  }
  const Value grad = gradient(loss, {t.a})[0];
  const Value call = [&] {
    const NameScope named("head");
    return ffi_call("tessera.nothing", {grad}, {grad.type()})[0];
  }();
  t.graph.results = {call};
  const std::string text = emit(t.graph, {});
  EXPECT_THAT(text, ::testing::ContainsRegex("stablehlo.tanh.*loc\\(\"blocks/mlp/tanh\"\\)"));
  EXPECT_THAT(text, HasSubstr("loc(\"gradient/blocks/mlp/multiply\")"));
  EXPECT_THAT(text, ::testing::ContainsRegex("scope = \"head\".*loc\\(\"head/custom_call\"\\)"));
  EXPECT_TRUE(current_scope().empty());
}

TEST(Broadcasting, FollowsNumPy) {
  const auto out = run({f32_array({2, 1}, {1, 2}), f32_array({3}, {10, 20, 30})}, [](const Values& x) {
    return Values{x[0] + x[1], 1.0 - x[0]};
  });
  EXPECT_EQ(out[0].type.dims, (Dims{2, 3}));
  EXPECT_EQ(out[0].as<float>(), (std::vector<float>{11, 21, 31, 12, 22, 32}));
  EXPECT_EQ(out[1].as<float>(), (std::vector<float>{0, -1}));
}

TEST(Functions, GiveTheValuesTheirNamesPromise) {
  const auto out = run({f32_array({2, 3}, {1, 3, 3, -1, 5, 0}), i32_array({2}, {2, 7})}, [](const Values& x) {
    const auto [top, where] = top_k(x[0], 2);
    return Values{argmax(x[0], 1),    top, where, one_hot(x[1], 3, DType::kF32), softmax(x[0]), take(x[0], x[1]),
                  global_norm({x[0]})};
  });
  EXPECT_EQ(out[0].as<int32_t>(), (std::vector<int32_t>{1, 1}));
  EXPECT_EQ(out[1].as<float>(), (std::vector<float>{3, 3, 5, 0}));
  EXPECT_EQ(out[2].as<int32_t>(), (std::vector<int32_t>{1, 2, 1, 2}));
  EXPECT_EQ(out[3].as<float>(), (std::vector<float>{0, 0, 1, 0, 0, 0}));
  EXPECT_NEAR(out[4].as<float>()[0], 0.06337894, 1e-6);
  EXPECT_EQ(out[5].as<float>(), (std::vector<float>{-1, 5, 0, -1, 5, 0})) << "indices are clamped";
  EXPECT_NEAR(out[6].as<float>()[0], std::sqrt(45.0), 1e-5);
}

TEST(Softmax, SurvivesLargeInputs) {
  const auto out = run({f32_array({1, 3}, {1e4F, 1e4F, -1e30F})}, [](const Values& x) {
    return Values{softmax(x[0]), log_softmax(x[0])};
  });
  EXPECT_EQ(out[0].as<float>(), (std::vector<float>{0.5F, 0.5F, 0}));
  EXPECT_NEAR(out[1].as<float>()[0], -std::log(2.0), 1e-6);
}

TEST(Random, IsThreefryAndAFunctionOfTheKey) {
  // Random123's known answer for Threefry-2x32-20: counter and key of all zeros.
  const auto known = run({}, [](const Values&) { return Values{random_bits(make_key(0), {1})}; });
  EXPECT_EQ(known[0].as<uint32_t>()[0], 0x6b200159u);
  const auto out = run({}, [](const Values&) {
    const Value key = make_key(7);
    return Values{random_uniform(key, {1000}), random_normal(fold_in(key, "a"), {200, 100}),
                  random_normal(fold_in(key, "b"), {200, 100}), random_truncated_normal(key, {200, 100}),
                  random_uniform(key, {10, 100})};
  });
  const auto moments = [](const std::vector<float>& v) {
    double m = 0, s = 0;
    for (const float x : v) m += x, s += static_cast<double>(x) * x;
    m /= static_cast<double>(v.size());
    return std::pair{m, s / static_cast<double>(v.size()) - m * m};
  };
  EXPECT_EQ(out[0].as<float>(), out[4].as<float>()) << "the shape does not matter, only the position";
  EXPECT_NEAR(moments(out[0].as<float>()).first, 0.5, 0.03);
  const auto normal = out[1].as<float>();
  EXPECT_NEAR(moments(normal).first, 0, 0.02);
  EXPECT_NEAR(moments(normal).second, 1, 0.03);
  EXPECT_NE(normal, out[2].as<float>());
  const auto cut = out[3].as<float>();
  EXPECT_NEAR(moments(cut).second, 0.774, 0.02);  // the variance of a normal cut at two deviations
  EXPECT_LE(*std::max_element(cut.begin(), cut.end()), 2);
}

TEST(Emit, IsDeterministicGenericText) {
  const auto text = [] {
    Traced t;
    const ScanResult r = scan(3, {t.a}, {}, [&](const Values& c, const Values&) { return ScanResult{{c[0] * 2.0}, {}}; });
    t.graph.results = {r.carry[0], gradient(sum_all(tanh(t.a)), {t.a})[0]};
    return program_text(t.graph, {"m", {{0, 0}}});
  };
  EXPECT_EQ(text(), text());
  EXPECT_THAT(text(), HasSubstr("%arg0: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}"));
  EXPECT_THAT(text(), HasSubstr("\"stablehlo.while\""));
  EXPECT_THAT(text(), Not(HasSubstr("tessera.")));
}

// Leaves free memory of a node's size at addresses in an order of their own, which the next nodes take. Gives what keeps the
// pieces apart.
std::vector<std::unique_ptr<std::byte[]>> scatter_free_memory(uint32_t seed) {
  std::vector<std::unique_ptr<std::byte[]>> blocks(4000), apart;
  for (auto& block : blocks) block = std::make_unique<std::byte[]>(sizeof(Node));
  for (size_t i = 0; i < blocks.size(); i += 2) apart.push_back(std::move(blocks[i]));
  std::shuffle(blocks.begin(), blocks.end(), std::mt19937(seed));
  for (auto& block : blocks) block.reset();
  return apart;
}

// The text is the key of the executable cache, and a process finds nothing there if its nodes lie elsewhere than those of the
// process that wrote the entry.
TEST(Emit, TextDoesNotDependOnAddresses) {
  using Kind = RematPolicy::Kind;
  const auto text = [](const RematPolicy& policy) {
    Traced t;
    const auto body = [](const Values& c, const Values&) {
      Value x = c[0];
      for (const char* name : {"a", "b", "c", "d", "e", "f"}) x = sin(checkpoint_name(tanh(x) * x, name)) + x;
      return ScanResult{{x}, {}};
    };
    const ScanResult r = scan(3, {t.a}, {}, body, {.remat = policy});
    t.graph.results = gradient(sum_all(r.carry[0]), {t.a});
    return program_text(t.graph);
  };
  for (const RematPolicy& policy : {RematPolicy{Kind::kSaveAll, {}}, {Kind::kSaveNamed, {"f", "d", "c", "b", "a"}}}) {
    const std::string usual = text(policy);
    for (uint32_t seed = 0; seed < 5; ++seed) {
      const auto apart = scatter_free_memory(seed);
      EXPECT_TRUE(text(policy) == usual) << "seed " << seed;
    }
  }
}

size_t count_of(std::string_view word, std::string_view text) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

// Unrolled, a scan and its gradient have no loop, and what is saved passes from one to the other without being stacked. What the
// gradient computes again is kept apart where that is wanted: of each iteration once.
TEST(Emit, AnUnrolledScanSaysTheSameWithoutALoop) {
  const auto trace = [](Graph& graph, bool unroll, bool prevent_cse = false) {
    const GraphScope scope(graph);
    const Value x = graph.add_parameter({DType::kF32, {2, 3}}), w = graph.add_parameter({DType::kF32, {4, 3, 3}});
    const auto body = [](const Values& c, const Values& s) {
      const Value h = checkpoint_name(tanh(matmul(c[0], s[0])), "h");
      return ScanResult{{sin(h) + c[0]}, {sum(h, {0})}};
    };
    const ScanResult r = scan(4, {x}, {w}, body,
                              {.remat = {RematPolicy::Kind::kSaveNamed, {"h"}}, .unroll = unroll, .prevent_cse = prevent_cse});
    graph.results = {r.carry[0], r.ys[0]};
    for (const Value g : gradient(sum_all(r.carry[0] * r.carry[0]) + sum_all(r.ys[0]), {x, w})) graph.results.push_back(g);
    return program_text(graph);
  };
  Graph loop, unrolled, apart;
  EXPECT_THAT(trace(loop, false), HasSubstr("stablehlo.while"));
  const std::string text = trace(unrolled, true), text_apart = trace(apart, true, true);
  for (const std::string& without : {text, text_apart}) {
    EXPECT_THAT(without, Not(HasSubstr("stablehlo.while")));
    EXPECT_EQ(count_of("stablehlo.concatenate", without), 2U)
        << "the results ys and the gradient of w, and nothing that is saved";
  }
  EXPECT_EQ(count_of("stablehlo.optimization_barrier", text), 0U);
  EXPECT_EQ(count_of("stablehlo.optimization_barrier", text_apart), 4U);
  const std::vector<::tessera::testing::HostArray> arguments = {
      ::tessera::testing::f32_array({2, 3}, ::tessera::testing::formula_array("x", 6)),
      ::tessera::testing::f32_array({4, 3, 3}, ::tessera::testing::formula_array("w", 36))};
  const auto want = ::tessera::testing::run_graph(loop, arguments);
  for (const Graph* graph : {&unrolled, &apart}) {
    const auto got = ::tessera::testing::run_graph(*graph, arguments);
    for (size_t r = 0; r < want.size(); ++r) {
      const std::vector<float> a = got[r].floats(), b = want[r].floats();
      ASSERT_EQ(a.size(), b.size());
      for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-5) << "result " << r;
    }
  }
}

// Two arrays of two slices side by side are no stack of two: what is taken of them is a part of both.
TEST(Emit, AnUnrolledScanOfJoinedArraysTakesPartsOfAll) {
  const auto trace = [](Graph& graph, bool unroll) {
    const GraphScope scope(graph);
    const Value a = graph.add_parameter({DType::kF32, {2, 3}}), b = graph.add_parameter({DType::kF32, {2, 3}});
    const auto body = [](const Values& c, const Values& s) { return ScanResult{{c[0] * 2.0 + s[0]}, {}}; };
    graph.results =
        scan(2, {constant_f32({6}, std::vector<float>(6, 1))}, {concatenate({a, b}, 1)}, body, {.unroll = unroll}).carry;
    return program_text(graph);
  };
  Graph loop, unrolled;
  EXPECT_THAT(trace(loop, false), HasSubstr("stablehlo.while"));
  EXPECT_THAT(trace(unrolled, true), Not(HasSubstr("stablehlo.while")));
  const std::vector<::tessera::testing::HostArray> arguments = {
      ::tessera::testing::f32_array({2, 3}, ::tessera::testing::formula_array("a", 6)),
      ::tessera::testing::f32_array({2, 3}, ::tessera::testing::formula_array("b", 6))};
  EXPECT_EQ(::tessera::testing::run_graph(unrolled, arguments)[0].floats(),
            ::tessera::testing::run_graph(loop, arguments)[0].floats());
}

// In bf16, 300 ones add up to 256: f32 is what the sum is taken and kept in until it is converted.
TEST(Emit, WidenedGradientsAreSummedInF32) {
  const auto text = [](bool wide) {
    Graph graph;
    const GraphScope scope(graph);
    const Value x = graph.add_parameter({DType::kBF16, {300, 2}}), w = graph.add_parameter({DType::kBF16, {2, 4}});
    Value y = matmul(x, w);
    if (wide) y = widen_rhs_gradient(y);
    graph.results = gradient(sum_all(convert(y, DType::kF32)), {w});
    return program_text(graph);
  };
  constexpr const char* kWide = "(tensor<300x2xbf16>, tensor<300x4xbf16>) -> (tensor<2x4xf32>)";
  EXPECT_THAT(text(true), HasSubstr(kWide));
  EXPECT_THAT(text(false), Not(HasSubstr(kWide)));
}

// What XLA is given in bf16 it computes in bf16 where the device can, a GPU's sums of many numbers too.
TEST(Emit, FunctionsOfSixteenBitFloatsComputeInF32) {
  const auto sum_of = [](Value x) { return sum(x, {0}); };
  const auto mean_of = [](Value x) { return mean(x, {0}); };
  const std::vector<std::function<Value(Value)>> functions = {gelu_exact, gelu_tanh, sum_of, mean_of};
  for (size_t i = 0; i < functions.size(); ++i) {
    Graph graph;
    const GraphScope scope(graph);
    const Value x = graph.add_parameter({DType::kBF16, {300, 2}}), y = functions[i](x);
    EXPECT_EQ(y.dtype(), DType::kBF16);
    graph.results = gradient(sum_all(convert(y, DType::kF32)), {x});
    graph.results.push_back(y);
    std::istringstream lines(program_text(graph));
    for (std::string line; std::getline(lines, line);) {
      if (line.find("bf16") == std::string::npos) continue;
      EXPECT_THAT(line, ::testing::AnyOf(HasSubstr("stablehlo.convert"), HasSubstr("func."))) << "function " << i;
    }
  }
}

// The bias of a layer has one cotangent a row.
TEST(Emit, GradientsOfBroadcastsAreSummedInF32) {
  Graph graph;
  const GraphScope scope(graph);
  const Value x = graph.add_parameter({DType::kBF16, {300, 2}}), bias = graph.add_parameter({DType::kBF16, {2}});
  graph.results = gradient(sum_all(convert((x + bias) * x, DType::kF32)), {bias});
  EXPECT_THAT(program_text(graph), HasSubstr("(tensor<300x2xf32>, tensor<f32>) -> (tensor<2xf32>)"));
}

// The exact values in f64, within the rounding to bf16 and a few roundings of f32.
TEST(Functions, GeluOfBf16IsRoundedOnce) {
  std::vector<float> x;
  for (int i = -32; i <= 32; ++i) x.push_back(static_cast<float>(i) / 8);  // bf16 has them all
  const auto n = static_cast<int64_t>(x.size());
  const auto results = ::tessera::testing::run({::tessera::testing::f32_array({n}, x)}, [](const Values& in) -> Values {
    const Value narrow = convert(in[0], DType::kBF16), exact = gelu_exact(narrow), approximate = gelu_tanh(narrow);
    Values out = {exact, approximate};
    for (const Value y : {exact, approximate}) out.push_back(gradient(sum_all(convert(y, DType::kF32)), {narrow})[0]);
    for (Value& y : out) y = convert(y, DType::kF32);
    return out;
  });
  const double inner = std::sqrt(2 / std::numbers::pi);
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = x[i], cdf = (1 + std::erf(v / std::numbers::sqrt2)) / 2;
    const double t = std::tanh(inner * (v + 0.044715 * v * v * v));
    const double wanted[] = {v * cdf, v * (1 + t) / 2, cdf + v * std::exp(-v * v / 2) / std::sqrt(2 * std::numbers::pi),
                             (1 + t) / 2 + v * (1 - t * t) * inner * (1 + 3 * 0.044715 * v * v) / 2};
    for (size_t f = 0; f < 4; ++f) {
      EXPECT_NEAR(results[f].floats()[i], wanted[f], std::abs(wanted[f]) * std::ldexp(1, -8) + 1e-6)
          << "function " << f << " of " << v;
    }
  }
}

TEST(Emit, SmallProgramWordForWord) {
  Traced t;
  t.graph.results = {t.a * 0.5};
  EXPECT_EQ(
      program_text(t.graph, {"small", {}}),
      "module @small attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {\n"
      "  func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<4xf32>) -> (tensor<2x3xf32>) {\n"
      "    %0 = \"stablehlo.constant\"() {value = dense<5.00000000e-01> : tensor<f32>} : () -> (tensor<f32>)\n"
      "    %1 = \"stablehlo.broadcast_in_dim\"(%0) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<2x3xf32>)\n"
      "    %2 = \"stablehlo.multiply\"(%arg0, %1) : (tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>)\n"
      "    func.return %2 : tensor<2x3xf32>\n  }\n}\n");
}

TEST(Verify, FindsWhatABugWouldBreak) {
  Traced t;
  const Value y = t.a * 2.0;
  t.graph.results = {y};
  EXPECT_NO_THROW(verify(t.graph));
  y.node->types[0].dims = {2, 4};
  EXPECT_THROW(verify(t.graph), InternalError);
  y.node->types[0].dims = {2, 3};
  Graph other;
  const Value foreign = other.add_parameter({DType::kF32, {2, 3}});
  y.node->operands[0] = foreign;
  EXPECT_THROW(verify(t.graph), InternalError);
}

TEST(Constants, OfEveryDtypeComeBack) {
  for (const DType d : {DType::kBool, DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8, DType::kU16, DType::kU32,
                        DType::kU64, DType::kBF16, DType::kF32, DType::kF64}) {
    const auto out = run({}, [&](const Values&) { return Values{convert(constant(1, d, {3}), DType::kF64)}; });
    EXPECT_EQ(out[0].doubles(), (std::vector<double>{1, 1, 1})) << dtype_name(d);
  }
  const auto special = run({}, [](const Values&) {
    return Values{constant(-INFINITY), convert(constant(1.5, DType::kBF16, {2}), DType::kF32),
                  constant_f32({2, 2}, {1, -2.5F, 3e-9F, 4})};
  });
  EXPECT_EQ(special[0].as<float>()[0], -INFINITY);
  EXPECT_EQ(special[1].as<float>(), (std::vector<float>{1.5F, 1.5F}));
  EXPECT_EQ(special[2].as<float>(), (std::vector<float>{1, -2.5F, 3e-9F, 4}));
}

// What a policy keeps shows in the results of the forward scan.
size_t saved_arrays(const RematPolicy& policy) {
  Graph graph;
  const GraphScope scope(graph);
  const Value x = graph.add_parameter({DType::kF32, {8, 4}}), w = graph.add_parameter({DType::kF32, {3, 4, 4}});
  const ScanResult r = scan(3, {x}, {w},
                            [](const Values& c, const Values& s) {
                              const Value h = checkpoint_name(matmul(c[0], s[0]), "hidden");
                              return ScanResult{{c[0] + tanh(h) * sin(h)}, {}};
                            },
                            {policy});
  gradient(sum_all(r.carry[0]), {x, w});
  return r.carry[0].node->types.size() - 1;
}

TEST(Remat, KeepsWhatThePolicyNames) {
  using Kind = RematPolicy::Kind;
  EXPECT_EQ(saved_arrays({Kind::kSaveNothing, {}}), 1) << "the carry that enters";
  EXPECT_EQ(saved_arrays({Kind::kSaveNamed, {"hidden"}}), 2);
  EXPECT_EQ(saved_arrays({Kind::kSaveNamed, {"other"}}), 1);
  EXPECT_GT(saved_arrays({Kind::kSaveAll, {}}), 2);
}

// What each device computes of its rows: whole shapes outside, parts inside, and the arithmetic of all of them.
TEST(ShardMap, AreAPartOfEveryDevice) {
  Graph graph;
  const GraphScope scope(graph);
  const mesh::Mesh mesh = mesh::parse_mesh("replica=2, fsdp=2", 4);
  const Value x = graph.add_parameter({DType::kF32, {8, 3}}), w = graph.add_parameter({DType::kF32, {3, 5}});
  const auto product = [](const Values& local) -> Values {
    EXPECT_EQ(local[0].dims(), (Dims{2, 3}));
    EXPECT_EQ(local[1].dims(), (Dims{3, 5}));
    return {matmul(local[0], local[1])};
  };
  graph.results = shard_map(mesh, {x, w}, {0, kWhole}, product);
  EXPECT_EQ(graph.results[0].dims(), (Dims{8, 5}));
  EXPECT_EQ(product_flops(graph), 2.0 * 8 * 3 * 5);

  EmitOptions options;
  options.mesh = mesh;
  const std::string text = program_text(graph, options);
  EXPECT_THAT(text, HasSubstr("in_shardings = #sdy.sharding_per_value<[<@mesh, [{\"replica\", \"fsdp\"}, {}]>, "
                              "<@mesh, [{}, {}]>]>"));
  EXPECT_THAT(text, HasSubstr("(tensor<2x3xf32>, tensor<3x5xf32>) -> (tensor<2x5xf32>)"));
  EXPECT_THROW(shard_map(mesh, {x, w}, {0, kWhole}, [&](const Values&) -> Values { return {x}; }), InternalError);
}

TEST(Emit, LocationsNameArgumentsAndPartsOfTheModel) {
  Graph graph;
  const GraphScope scope(graph);
  const Value x = graph.add_parameter({DType::kF32, {2, 3}}, "images"),
              w = graph.add_parameter({DType::kF32, {4, 3, 3}}, "params/blocks/fc1/kernel");
  const auto body = [](const Values& c, const Values& s) {
    const NameScope named("fc1");
    return ScanResult{{tanh(matmul(c[0], s[0]))}, {}};
  };
  const ScanResult r = [&] {
    const NameScope named("blocks");
    return scan(4, {x}, {w}, body);
  }();
  graph.results = gradient(sum_all(r.carry[0]), {w});
  const std::string text = program_text(graph, {});
  EXPECT_THAT(text, HasSubstr("%arg1: tensor<4x3x3xf32> loc(\"params/blocks/fc1/kernel\")"));
  EXPECT_THAT(text, HasSubstr("(tensor<2x3xf32>) loc(\"blocks/fc1/tanh\")"));
  EXPECT_THAT(text, HasSubstr("(tensor<3x3xf32>) loc(\"gradient/blocks/fc1/dot_general\")"));
  graph.add_parameter({DType::kF32, {}}, "a \"quoted\" name");
  EXPECT_THROW(program_text(graph, {}), InternalError);
}

enum class Kind : int64_t { kOne, kTwo };

struct Numbers {
  int64_t k = 3;
  bool flag = true;
  double epsilon = 0.5;
  Kind kind = Kind::kTwo;

  template <class Visitor>
  void visit(Visitor&& field) {
    field("k", k, "");
    field("flag", flag, "");
    field("epsilon", epsilon, "");
    field("kind", kind, "");
  }
};

TEST(CustomCall, PrintsItsTargetAndAttributes) {
  Traced t;
  t.graph.results = ffi_call("kernel", {t.a}, {t.a.type()}, encode(Numbers{}));
  EXPECT_THAT(
      program_text(t.graph),
      AllOf(HasSubstr("call_target_name = \"kernel\""),
            HasSubstr("backend_config = {k = 3 : i64, flag = true, epsilon = 5.0000000000000000e-01 : f64, kind = 1 : i64}"),
            HasSubstr("api_version = 4 : i32")));
}

// Takes composites of some names, and calls a function for each.
class Taker : public Target {
 public:
  explicit Taker(std::vector<std::string> names) : names_(std::move(names)) {}
  bool takes(const Composite& composite, const std::vector<TensorType>&) const override {
    return std::ranges::count(names_, composite.name()) > 0;
  }
  std::unique_ptr<Graph> select_kernels(const Graph& lowered) const override {
    return rewrite(lowered, [](const Node& node, const Values& operands) -> std::optional<Values> {
      if (node.op != &kOpComposite) return std::nullopt;
      const auto& composite = *node.attr<std::shared_ptr<const Composite>>("_composite");
      return ffi_call(composite.name(), operands, node.types, composite.encoded());
    });
  }
  std::unique_ptr<Graph> prepare(const Graph& selected, size_t) const override {
    return rewrite(selected, [](const Node&, const Values&) { return std::nullopt; });
  }
  bool prefers_flat_sums() const override { return false; }
  bool stacks_slowly() const override { return false; }
  bool unrolls_blocks() const override { return false; }
  bool keeps_statistics() const override { return false; }
  bool keeps_activations() const override { return false; }
  bool gathers_first_dimension_fast() const override { return false; }
  bool widens_bf16() const override { return false; }

 private:
  std::vector<std::string> names_;
};

struct Widening : Taker {
  Widening() : Taker({}) {}
  bool widens_bf16() const override { return true; }
};

// What a loop writes and reads part by part, in its gradient too, is never bf16 where that would be converted whole.
TEST(Scan, StacksBitsWhereBf16IsWidened) {
  Graph graph;
  const GraphScope scope(graph);
  const Value x = graph.add_parameter({DType::kBF16, {8}}), weights = graph.add_parameter({DType::kBF16, {3, 8}});
  const auto body = [](const Values& c, const Values& w) { return ScanResult{{c[0] * w[0]}, {c[0]}}; };
  const ScanResult all = scan(3, {x}, {weights}, body, {.remat = {.kind = RematPolicy::Kind::kSaveAll}});
  const Value loss = sum_all(convert(all.carry[0], DType::kF32)) + sum_all(convert(all.ys[0], DType::kF32));
  graph.results = gradient(loss, {x, weights});
  const Widening widening;
  const std::string bits = program_text(graph, {}, &widening), plain = program_text(graph);
  constexpr const char *kWritten = "(tensor<3x8xbf16>, tensor<1x8xbf16>", *kWrittenBits = "(tensor<3x8xui16>, tensor<1x8xui16>",
                       *kRead = "(tensor<3x8xbf16>, tensor<i32>";
  EXPECT_THAT(plain, AllOf(HasSubstr(kWritten), HasSubstr(kRead), Not(HasSubstr("ui16"))));
  EXPECT_THAT(bits, AllOf(HasSubstr(kWrittenBits), Not(HasSubstr(kWritten)), Not(HasSubstr(kRead))));
}

// A scan whose body is a composite, with its gradient.
std::string text_with(const Target* tracing, const Target* finishing) {
  Traced t;
  const Composite square("square", Numbers{}, [](const Values& v) { return Values{v[0] * v[0]}; });
  const auto body = [&](const Values& c, const Values&) { return ScanResult{composite(tracing, square, c), {}}; };
  const Value last = scan(2, {t.a}, {}, body).carry[0];
  t.graph.results = {last, gradient(sum_all(last), {t.a})[0]};
  return program_text(t.graph, {}, finishing);
}

TEST(Composite, StaysWholeWhereItIsTaken) {
  const Taker both({"square", "square_gradient"}), forward({"square"}), none({});
  const std::string calls = text_with(&both, &both);
  EXPECT_THAT(calls, AllOf(HasSubstr("\"square\""), HasSubstr("\"square_gradient\""), HasSubstr("backend_config = {k = 3")));
  EXPECT_THAT(text_with(&forward, &forward), AllOf(HasSubstr("\"square\""), Not(HasSubstr("square_gradient"))))
      << "a gradient that nobody takes is that of the decomposition";
  EXPECT_EQ(text_with(&none, &none), text_with(nullptr, nullptr));
  EXPECT_THAT(text_with(&both, nullptr), Not(HasSubstr("custom_call")))
      << "kept while it was traced, and then for another machine";
}

TEST(Composite, IsMadeOfItsOperandsAlone) {
  Traced t;
  EXPECT_THROW(composite_node({"sum", NoAttributes{}, [&](const Values& v) { return Values{v[0] + t.a}; }}, {t.a}),
               InternalError);
}

}  // namespace
}  // namespace tessera::ir
