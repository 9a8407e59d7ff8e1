// Every entry of the op table against central finite differences along a random direction, in f64 on the CPU plugin. The cases
// are a table by entry: one that has none fails the suite, whether its gradient is a rule, zero or refused.

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/error.h"
#include "base/rng.h"
#include "ir/composite.h"
#include "ir/functions.h"
#include "ir/grad.h"
#include "ir/op_entries.h"
#include "ir/processes.h"
#include "ir/program/program.h"
#include "ir/random.h"
#include "support/run_graph.h"

namespace tessera::ir {
namespace {

using ::tessera::testing::HostArray;

constexpr DType kF64 = DType::kF64;

// A differentiable function of f64 inputs with these shapes, drawn uniformly from [low, high].
struct Case {
  std::vector<Dims> shapes;
  LoopFn function;
  double low = -2, high = 2;
  double tolerance = 1e-6;
  double step = 1e-5;  // of the finite difference; larger where f32 rounding is inside
};

struct Entry {
  enum Kind { kRule, kZero, kStopped, kRefused } kind = kRule;
  std::vector<Case> cases;
};

Values one(Value v) { return {v}; }
Case unary(Value (*f)(Value), double low = -2, double high = 2) {
  return {{{3, 4}}, [f](const Values& x) { return one(f(x[0])); }, low, high};
}
Case binary(Value (*f)(Value, Value), double low = -2, double high = 2) {
  return {{{3, 4}, {4}}, [f](const Values& x) { return one(f(x[0], x[1])); }, low, high};
}
Entry rule(std::vector<Case> cases) { return {Entry::kRule, std::move(cases)}; }
Entry zero(LoopFn f, double low = -2, double high = 2) { return {Entry::kZero, {{{{3, 4}}, std::move(f), low, high}}}; }
Value ints(Value x) { return convert(x * 3.0, DType::kI32); }
Value back(Value x) { return convert(x, kF64); }
// 2 x, each device its half.
Value on_two_devices(Value x) {
  std::vector<std::unique_ptr<Graph>> body;
  body.push_back(std::make_unique<Graph>(&current_graph()));
  {
    const GraphScope scope(*body[0]);
    body[0]->results = {body[0]->add_parameter({x.dtype(), {x.dim(0) / 2}}) * 2.0};
  }
  return make_node(kOpManualComputation, {x}, {{"_result_dims", x.dims()}, {"_parts", int64_t{2}}}, std::move(body))->result();
}
Value const_i32(const Dims& dims, const std::vector<int32_t>& values) {
  return constant_array({DType::kI32, dims}, std::as_bytes(std::span(values)));
}

Case conv_case(Dims input, Dims kernel, const ConvOptions& options) {
  return {{std::move(input), std::move(kernel)}, [options](const Values& x) { return one(conv2d_nhwc(x[0], x[1], options)); }};
}

WindowOptions window(Dims size, Dims strides, std::vector<std::pair<int64_t, int64_t>> padding) {
  WindowOptions w;
  w.dimensions = std::move(size), w.strides = std::move(strides), w.padding = std::move(padding);
  return w;
}

ScanResult scan_body(const Values& c, const Values& x, Value w) {
  const Value h = checkpoint_name(tanh(matmul(c[0], w) + x[0]), "h");
  return {{sin(h) * 0.5 + c[0]}, {sum(h * h, {1})}};
}

Case scan_case(const RematPolicy& policy, bool reverse, bool unroll = false, bool prevent_cse = false) {
  return {{{2, 3}, {3, 3}, {4, 3}}, [=](const Values& x) {
            const ScanResult r =
                scan(4, {x[0]}, {x[2]}, [&](const Values& c, const Values& s) { return scan_body(c, s, x[1]); },
                     {policy, reverse, unroll, prevent_cse});
            return Values{r.carry[0], r.ys[0]};
          }};
}

std::map<const OpDef*, Entry> entries_elementwise() {
  std::map<const OpDef*, Entry> e;
  e[&kOpParameter] = rule({{{{2, 3}}, [](const Values& x) { return x; }}});
  e[&kOpConstant] = zero([](const Values& x) { return one(constant(2.5, kF64, x[0].dims())); });
  e[&kOpIota] = zero([](const Values& x) { return one(iota(x[0].type(), 1)); });
  e[&kOpAbs] = rule({unary(abs, 0.2, 2), unary(abs, -2, -0.2)});
  e[&kOpNegate] = rule({unary(negate)});
  e[&kOpSign] = zero([](const Values& x) { return one(sign(x[0])); }, 0.2, 2);
  e[&kOpExp] = rule({unary(exp)});
  e[&kOpExpm1] = rule({unary(expm1)});
  e[&kOpLog] = rule({unary(log, 0.3, 3)});
  e[&kOpLog1p] = rule({unary(log1p, -0.5, 3)});
  e[&kOpSqrt] = rule({unary(sqrt, 0.3, 3)});
  e[&kOpRsqrt] = rule({unary(rsqrt, 0.3, 3)});
  e[&kOpCbrt] = rule({unary(cbrt, 0.3, 3), unary(cbrt, -3, -0.3)});
  e[&kOpTanh] = rule({unary(tanh)});
  e[&kOpSin] = rule({unary(sin)});
  e[&kOpCos] = rule({unary(cos)});
  e[&kOpErf] = rule({unary(erf)});
  e[&kOpFloor] = zero([](const Values& x) { return one(floor(x[0])); }, 0.1, 0.9);
  e[&kOpRoundNearestEven] = zero([](const Values& x) { return one(round_nearest_even(x[0])); }, 0.6, 1.4);
  e[&kOpIsFinite] = zero([](const Values& x) { return one(back(is_finite(x[0]))); });
  e[&kOpConvert] = rule(
      {{{{3, 4}}, [](const Values& x) { return one(convert(convert(x[0], DType::kF32), kF64) * x[0]); }, -2, 2, 1e-3, 1e-2}});
  e[&kOpBitcastConvert] = zero(
      [](const Values& x) {
        return one(back(shift_right_logical(bitcast_convert(x[0], DType::kU64), constant(52, DType::kU64))));
      },
      1.1, 1.9);
  e[&kOpAdd] = rule({binary(add)});
  e[&kOpSubtract] = rule({binary(subtract)});
  e[&kOpMultiply] = rule({binary(multiply)});
  e[&kOpDivide] = rule({binary(divide, 0.5, 2)});
  e[&kOpMaximum] = rule({binary(maximum)});
  e[&kOpMinimum] = rule({binary(minimum)});
  e[&kOpPower] = rule({binary(power, 0.5, 2)});
  e[&kOpRemainder] = rule({{{{3, 4}, {4}}, [](const Values& x) { return one(remainder(x[0] + 7.3, x[1])); }, 0.9, 1.0},
                           {{{3, 4}, {4}}, [](const Values& x) { return one(remainder(-7.3 - x[0], x[1])); }, 0.9, 1.0}});
  for (const auto& [op, f] :
       std::initializer_list<std::pair<const OpDef*, Value (*)(Value, Value)>>{{&kOpAnd, logical_and},
                                                                               {&kOpOr, logical_or},
                                                                               {&kOpXor, logical_xor},
                                                                               {&kOpShiftLeft, shift_left},
                                                                               {&kOpShiftRightLogical, shift_right_logical}}) {
    e[op] = zero([f = f](const Values& x) { return one(back(f(ints(x[0]), ints(x[0])))); }, 1.1, 1.2);
  }
  e[&kOpCompare] = zero([](const Values& x) { return one(back(compare(Compare::kLt, x[0], x[0] + 1.0))); });
  e[&kOpSelect] = rule(
      {{{{3, 4}, {3, 4}}, [](const Values& x) { return one(select(compare(Compare::kLt, x[0], x[1]), x[0] * 2.0, x[1])); }}});
  e[&kOpClamp] = rule({{{{3, 4}, {}, {}}, [](const Values& x) { return one(clamp(x[1] - 1.5, x[0], x[2] + 1.5)); }, -2, 2},
                       {{{3, 4}, {3, 4}}, [](const Values& x) { return one(clamp(x[1] - 0.7, x[0], x[1] + 0.7)); }, -2, 2}});
  return e;
}

std::map<const OpDef*, Entry> entries_shape() {
  std::map<const OpDef*, Entry> e;
  e[&kOpBroadcastInDim] = rule({{{{3, 1}},
                                 [](const Values& x) {
                                   return one(broadcast_in_dim(x[0], {2, 3, 4}, {1, 2}));
                                 }},
                                {{{4}},
                                 [](const Values& x) {
                                   return one(broadcast_in_dim(x[0], {4, 2}, {0}));
                                 }},
                                {{{}}, [](const Values& x) {
                                   return one(broadcast_to(x[0], {4, 2}));
                                 }}});
  e[&kOpReshape] = rule({{{{3, 4}}, [](const Values& x) { return one(reshape(x[0], {2, -1})); }}});
  e[&kOpTranspose] = rule({{{{2, 3, 4}}, [](const Values& x) { return one(transpose(x[0], {2, 0, 1})); }}});
  e[&kOpSlice] = rule({{{{6, 7}}, [](const Values& x) { return one(slice(x[0], {1, 0}, {6, 7}, {2, 3})); }}});
  e[&kOpDynamicSlice] = rule({{{{5, 6}}, [](const Values& x) {
                                 return one(dynamic_slice(x[0], {constant(1, DType::kI32), constant(9, DType::kI32)}, {3, 2}));
                               }}});
  e[&kOpDynamicUpdateSlice] =
      rule({{{{5, 6}, {3, 2}}, [](const Values& x) {
               return one(dynamic_update_slice(x[0], x[1], {constant(1, DType::kI32), constant(9, DType::kI32)}));
             }}});
  e[&kOpPad] = rule({{{{3, 4}, {}},
                      [](const Values& x) {
                        return one(pad(x[0], x[1], {1, -1}, {2, 1}, {0, 2}));
                      }},
                     {{{5}, {}}, [](const Values& x) { return one(pad(x[0], x[1], {-2}, {-1}, {1})); }}});
  e[&kOpConcatenate] = rule({{{{2, 3}, {2, 1}, {2, 2}}, [](const Values& x) { return one(concatenate(x, 1)); }}});
  e[&kOpReverse] = rule({{{{2, 3}}, [](const Values& x) { return one(reverse(x[0], {0, 1})); }}});
  GatherDims batched;
  batched.offset_dims = {1}, batched.collapsed_slice_dims = {0}, batched.start_index_map = {0, 1}, batched.index_vector_dim = 1;
  GatherDims along;  // as jax.numpy's take_along_axis
  along.operand_batching_dims = along.start_indices_batching_dims = {0};
  along.collapsed_slice_dims = along.start_index_map = {1}, along.index_vector_dim = 2;
  e[&kOpGather] = rule({{{{5, 4}},
                         [batched](const Values& x) {
                           return one(gather(x[0], const_i32({3, 2}, {0, 1, 4, 0, 0, 2}), batched, {1, 2}));
                         }},
                        {{{3, 4}},
                         [along](const Values& x) {
                           return one(gather(x[0], const_i32({3, 2}, {0, 0, 1, 3, 2, 2}), along, {1, 1}));
                         }},
                        {{{5, 4}}, [](const Values& x) {
                           return one(take(x[0], const_i32({2, 2}, {3, 0, 3, 4})));
                         }}});
  ScatterDims rows;
  rows.update_window_dims = {1}, rows.inserted_window_dims = {0}, rows.scatter_dims_to_operand_dims = {0},
  rows.index_vector_dim = 1;
  e[&kOpScatter] = rule({{{{5, 4}, {3, 4}},
                          [rows](const Values& x) {
                            return one(scatter(x[0], const_i32({3, 1}, {3, 0, 3}), x[1], rows));
                          }},
                         {{{5, 4}, {3, 4}}, [rows](const Values& x) {
                            return one(scatter(x[0], const_i32({3, 1}, {3, 0, 1}), x[1], rows, ScatterKind::kReplace, true));
                          }}});
  return e;
}

std::map<const OpDef*, Entry> entries_products() {
  std::map<const OpDef*, Entry> e;
  e[&kOpDotGeneral] = rule({{{{3, 4}, {4, 5}}, [](const Values& x) { return one(matmul(x[0], x[1])); }},
                            {{{2, 3, 4, 5}, {5, 2, 6, 4}},
                             [](const Values& x) {
                               return one(dot_general(x[0], x[1], {{0}, {1}, {3, 2}, {0, 3}}));
                             }},
                            {{{2, 3, 4}, {2, 3, 5, 4}}, [](const Values& x) {
                               return one(dot_general(x[0], x[1], {{1, 0}, {1, 0}, {2}, {3}}));
                             }}});
  ConvOptions plain, strided, dilated, grouped, depthwise, everything, batch_grouped;
  strided.strides = {2, 3}, strided.padding = {{1, 0}, {2, 1}};
  dilated.rhs_dilation = {2, 1}, dilated.lhs_dilation = {1, 2}, dilated.padding = {{2, 2}, {-1, 1}};
  grouped.feature_groups = 2, grouped.padding = {{1, 1}, {1, 1}};
  depthwise.feature_groups = 4, depthwise.strides = {2, 2}, depthwise.padding = {{1, 1}, {1, 1}};
  everything.strides = {2, 1}, everything.lhs_dilation = {2, 1}, everything.rhs_dilation = {1, 2},
  everything.feature_groups = 2, everything.padding = {{1, 2}, {0, 2}};
  batch_grouped.batch_groups = 2, batch_grouped.padding = {{1, 1}, {0, 0}};
  e[&kOpConvolution] =
      rule({conv_case({2, 5, 6, 3}, {3, 2, 3, 4}, plain), conv_case({2, 7, 8, 3}, {3, 2, 3, 4}, strided),
            conv_case({2, 6, 5, 2}, {3, 3, 2, 3}, dilated), conv_case({1, 5, 5, 4}, {3, 3, 2, 6}, grouped),
            conv_case({2, 6, 6, 4}, {3, 3, 1, 8}, depthwise), conv_case({1, 5, 7, 4}, {3, 3, 2, 4}, everything),
            conv_case({4, 5, 5, 2}, {3, 3, 2, 6}, batch_grouped)});
  e[&kOpReduce] = rule({{{{3, 4, 2}},
                         [](const Values& x) {
                           return one(sum(x[0], {0, 2}));
                         }},
                        {{{3, 4, 2}}, [](const Values& x) { return one(reduce_max(x[0], {1})); }},
                        {{{3, 4, 2}}, [](const Values& x) { return one(reduce_min(x[0], {-1}, true)); }},
                        {{{3, 4, 2}}, [](const Values& x) {
                           return one(reduce(Reduce::kProduct, x[0], {0, 2}));
                         }}});
  WindowOptions dilated_window = window({1, 2, 3}, {1, 2, 1}, {{0, 0}, {1, 2}, {-1, 1}});
  dilated_window.base_dilations = {1, 2, 1}, dilated_window.window_dilations = {1, 1, 2};
  e[&kOpReduceWindow] =
      rule({{{{2, 5, 6}},
             [](const Values& x) {
               return one(reduce_window(Reduce::kSum, x[0], window({1, 3, 2}, {1, 2, 2}, {{0, 0}, {1, 1}, {0, 1}})));
             }},
            {{{2, 5, 8}}, [=](const Values& x) { return one(reduce_window(Reduce::kSum, x[0], dilated_window)); }},
            {{{2, 5, 6}},
             [](const Values& x) {
               return one(reduce_window(Reduce::kMax, x[0], window({1, 3, 2}, {1, 2, 1}, {{0, 0}, {1, 1}, {0, 0}})));
             }},
            {{{2, 5, 6}},
             [](const Values& x) {
               return one(reduce_window(Reduce::kMin, x[0], window({1, 2, 2}, {1, 2, 2}, {})));
             }},
            {{{3, 5}}, [](const Values& x) {  // the sums of each row's beginnings
               return one(reduce_window(Reduce::kSum, x[0], window({1, 5}, {1, 1}, {{0, 0}, {4, 0}})));
             }}});
  const WindowOptions pool = window({2, 2}, {2, 2}, {});
  e[&kOpSelectAndScatter] =
      rule({{{{4, 6}, {2, 3}}, [=](const Values& x) { return one(select_and_scatter(stop_gradient(x[0]), x[1], pool)); }},
            {{{2, 3}}, [=](const Values& x) {
               const Value fixed = sin(iota({kF64, {4, 6}}, 1) * 1.7 + iota({kF64, {4, 6}}, 0) * 2.9);
               return one(select_and_scatter(fixed, x[0], pool, Compare::kLe));
             }}});
  e[&kOpSelectAndGather] = {Entry::kRefused,
                            {{{{2, 3}}, [=](const Values& x) {
                                const Value fixed = sin(iota({kF64, {4, 6}}, 1) * 1.7 + iota({kF64, {4, 6}}, 0) * 2.9);
                                const Value y = select_and_scatter(fixed, x[0], pool);
                                return vjp({y}, {broadcast_to(sum_all(x[0]), y.dims())}, {x[0]});
                              }}}};
  e[&kOpSort] = rule({{{{3, 5}}, [](const Values& x) { return sort({x[0]}, 1); }},
                      {{{5, 3}, {5, 3}},
                       [](const Values& x) {
                         return sort({x[0], x[1]}, 0, true);
                       }},
                      {{{3, 5}}, [](const Values& x) { return one(top_k(x[0], 2).first); }}});
  return e;
}

std::map<const OpDef*, Entry> entries_control() {
  using Kind = RematPolicy::Kind;
  std::map<const OpDef*, Entry> e;
  e[&kOpWhile] = {Entry::kRefused,
                  {{{{3}}, [](const Values& x) {
                      return while_loop(
                          {x[0]}, [](const Values& s) { return compare(Compare::kLt, sum_all(s[0]), constant(100, kF64)); },
                          [](const Values& s) { return one(s[0] * s[0] + 1.0); });
                    }}}};
  e[&kOpOptimizationBarrier] = rule({{{{3}, {2}}, [](const Values& x) {
                                        return optimization_barrier({x[0] * x[0], sin(x[1])});
                                      }}});
  const auto cubes = [](const Values& x) { return Values{x[0] * x[0] * x[1], x[1] * x[1]}; };
  e[&kOpComposite] = rule({{{{3}, {3}}, [=](const Values& x) {
                              return composite_node({"cubes", NoAttributes{}, cubes}, {x[0], x[1]});
                            }}});
  e[&kOpCustomCall] = {Entry::kRefused, {{{{3}}, [](const Values& x) { return ffi_call("kernel", x, {x[0].type()}); }}}};
  // A kernel of host computes them, and its test has their gradients.
  e[&kOpSumOverProcesses] = {Entry::kRefused, {{{{3}}, [](const Values& x) {
                                                  return one(back(sum_over_processes({2, {}}, convert(x[0], DType::kF32))));
                                                }}}};
  e[&kOpGatherOverProcesses] = {Entry::kRefused, {{{{3}}, [](const Values& x) {
                                                     return one(gather_over_processes({2, constant(0, DType::kI32)}, x[0]));
                                                   }}}};
  e[&kOpScan] = rule({scan_case({Kind::kSaveNothing, {}}, false), scan_case({Kind::kSaveNothing, {}}, true),
                      scan_case({Kind::kSaveNamed, {"h"}}, false), scan_case({Kind::kSaveAll, {}}, false),
                      scan_case({Kind::kSaveAll, {}}, true), scan_case({Kind::kSaveNamed, {"h"}}, false, true),
                      scan_case({Kind::kSaveAll, {}}, true, true), scan_case({Kind::kSaveNamed, {"h"}}, true, true, true),
                      scan_case({Kind::kSaveNothing, {}}, false, true, true)});
  e[&kOpStopGradient] = {Entry::kStopped, {{{{3}}, [](const Values& x) { return one(stop_gradient(x[0])); }}}};
  e[&kOpShardingConstraint] = rule({{{{3}}, [](const Values& x) { return one(reshard(x[0] * x[0], {}, {})); }}});
  e[&kOpManualComputation] = {Entry::kRefused, {{{{4}}, [](const Values& x) { return one(on_two_devices(x[0])); }}}};
  e[&kOpCheckpointName] = rule({{{{3}}, [](const Values& x) { return one(checkpoint_name(x[0] * x[0], "square")); }}});
  e[&kOpCustomGradient] = rule(
      {{{{3}}, [](const Values& x) {
          return custom_gradient({x[0]}, {stop_gradient(x[0] * x[0])},
                                 [](const Values& in, const Values&, const Values& ct) { return one(ct[0] * 2.0 * in[0]); });
        }}});
  return e;
}

std::map<const OpDef*, Entry> all_entries() {
  std::map<const OpDef*, Entry> all = entries_elementwise();
  for (auto part : {entries_shape(), entries_products(), entries_control()}) all.merge(part);
  return all;
}

// ---- the check

std::vector<double> draw(Rng& rng, const Dims& dims, double low, double high) {
  std::vector<double> v(static_cast<size_t>(element_count(dims)));
  for (double& x : v) x = rng.uniform(low, high);
  return v;
}

// sum_j <w_j, f_j(x)> with fixed random weights: a scalar whose gradient uses every output.
Value weighted_sum(const Values& outputs) {
  Value total = constant(0, kF64);
  for (size_t j = 0; j < outputs.size(); ++j) {
    Rng rng(77, j);
    const std::vector<double> w = draw(rng, outputs[j].dims(), 0.5, 1.5);
    total = total + sum_all(outputs[j] * constant_array(outputs[j].type(), std::as_bytes(std::span(w))));
  }
  return total;
}

// One program: f(x), and its gradient's product with the direction; finite differences by running it at x ± h d.
void check_case(const std::string& name, const Case& c, Entry::Kind kind = Entry::kRule) {
  SCOPED_TRACE(name);
  Graph graph;
  Values parameters, directions;
  for (const Dims& d : c.shapes) parameters.push_back(graph.add_parameter({kF64, d}));
  for (const Dims& d : c.shapes) directions.push_back(graph.add_parameter({kF64, d}));
  {
    const GraphScope scope(graph);
    const Value loss = weighted_sum(c.function(parameters));
    const Values grads = gradient(loss, parameters);
    Value along = constant(0, kF64);
    for (size_t i = 0; i < grads.size(); ++i) along = along + sum_all(grads[i] * directions[i]);
    graph.results = {loss, along};
  }
  const pjrt::Executable program = ::tessera::testing::compile_cached(program_text(graph));
  Rng rng(hash_name(name));
  std::vector<std::vector<double>> x, d;
  for (const Dims& dims : c.shapes) x.push_back(draw(rng, dims, c.low, c.high));
  for (const Dims& dims : c.shapes) d.push_back(draw(rng, dims, -1, 1));
  const auto evaluate = [&](double h) {
    std::vector<pjrt::Buffer> buffers;
    for (size_t i = 0; i < x.size(); ++i) {
      std::vector<double> moved = x[i];
      for (size_t k = 0; k < moved.size(); ++k) moved[k] += h * d[i][k];
      buffers.push_back(::tessera::testing::cpu_client()->to_device(moved.data(), {kF64, c.shapes[i]}));
    }
    for (size_t i = 0; i < d.size(); ++i)
      buffers.push_back(::tessera::testing::cpu_client()->to_device(d[i].data(), {kF64, c.shapes[i]}));
    std::vector<pjrt::Buffer*> pointers;
    for (auto& b : buffers) pointers.push_back(&b);
    const std::vector<pjrt::Buffer> out = program.run(pointers);
    return std::pair{out[0].to_host<double>()[0], out[1].to_host<double>()[0]};
  };
  const double h = c.step;
  const double numeric = (evaluate(h).first - evaluate(-h).first) / (2 * h), analytic = evaluate(0).second;
  if (kind == Entry::kRule) {
    EXPECT_NEAR(analytic, numeric, c.tolerance * std::max(1.0, std::abs(numeric)));
  } else {
    EXPECT_EQ(analytic, 0);
  }
  if (kind == Entry::kZero) {
    EXPECT_EQ(numeric, 0);
  } else {
    EXPECT_GT(std::abs(numeric), 1e-3) << "the case does not depend on its inputs";
  }
}

class OpGradient : public ::testing::TestWithParam<const OpDef*> {};

TEST_P(OpGradient, AgreesWithFiniteDifferences) {
  const auto entries = all_entries();
  const auto it = entries.find(GetParam());
  ASSERT_NE(it, entries.end()) << GetParam()->name << " has no case in this file";
  ASSERT_FALSE(it->second.cases.empty());
  for (size_t i = 0; i < it->second.cases.size(); ++i) {
    const Case& c = it->second.cases[i];
    const std::string name = std::string(GetParam()->name) + " case " + std::to_string(i);
    if (it->second.kind == Entry::kRefused) {
      EXPECT_THROW(check_case(name, c), Error) << name;
    } else {
      check_case(name, c, it->second.kind);
    }
  }
}

std::string test_name(const ::testing::TestParamInfo<const OpDef*>& info) {
  static constexpr const char* kNames[] = {
#define OP(name) #name,
#include "ir/ops.def"
#undef OP
  };
  return kNames[info.index];
}

INSTANTIATE_TEST_SUITE_P(Table, OpGradient, ::testing::ValuesIn(op_table().begin(), op_table().end()), test_name);

// ---- composed functions and interplay

TEST(FunctionGradient, AgreesWithFiniteDifferences) {
  const std::vector<std::pair<const char*, Case>> cases{
      {"softmax", {{{3, 5}}, [](const Values& x) { return one(softmax(x[0])); }}},
      {"softmax over axis 0", {{{3, 5}}, [](const Values& x) { return one(softmax(x[0], 0)); }}},
      {"log_softmax", {{{3, 5}}, [](const Values& x) { return one(log_softmax(x[0])); }}},
      {"standardize", {{{3, 5}}, [](const Values& x) { return one(standardize(x[0], 1e-6)); }, -2, 2, 1e-2, 1e-2}},
      {"gelu_exact", unary(gelu_exact)},
      {"gelu_tanh", unary(gelu_tanh)},
      {"softplus", unary(softplus)},
      {"max_pool2d", {{{1, 6, 6, 2}}, [](const Values& x) { return one(max_pool2d(x[0], 3, 2, 1)); }}},
      {"a value used many times",
       {{{3}},
        [](const Values& x) {
          return Values{x[0] * x[0] + sin(x[0]) * x[0], x[0]};
        }}},
      {"scan in scan",
       {{{2, 3}, {3, 3}, {2, 4, 3}},
        [](const Values& x) {
          return scan(2, {x[0]}, {x[2]},
                      [&](const Values& c, const Values& s) {
                        const ScanResult inner =
                            scan(4, {c[0]}, {s[0]}, [&](const Values& d, const Values& t) { return scan_body(d, t, x[1]); });
                        return ScanResult{inner.carry, {sum_all(inner.ys[0])}};
                      })
              .carry;
        }}},
      {"scan with an integer carry",
       {{{3}, {5, 3}},
        [](const Values& x) {
          return Values{
              scan(5, {x[0], constant(0, DType::kI32)}, {x[1]}, [](const Values& c, const Values& s) {
                return ScanResult{{tanh(c[0] + s[0]) * (convert(c[1], kF64) + 1.0), c[1] + constant(1, DType::kI32)}, {}};
              }).carry[0]};
        },
        -0.3,
        0.3}},
      {"slice_of inside a scan",
       {{{3}, {5, 3}},
        [](const Values& x) {
          return scan(5, {x[0]}, {},
                      [&](const Values& c, const Values&) {
                        return ScanResult{{c[0] * current_graph().slice_of(x[1]) + c[0]}, {}};
                      })
              .carry;
        },
        0.1,
        0.5}}};
  for (const auto& [name, c] : cases) check_case(name, c);
}

// A block that begins as its residual alone has many zeros, so that a half would be felt.
TEST(FunctionGradient, OfReluAtZeroIsZero) {
  Graph graph;
  const Value x = graph.add_parameter({DType::kF32, {4}});
  const GraphScope scope(graph);
  graph.results = gradient(sum_all(relu(x)), {x});
  const std::vector<HostArray> results = testing::run_graph(graph, {testing::f32_array({4}, {-1, 0, 2, -0.0F})});
  EXPECT_EQ(results[0].floats(), (std::vector<float>{0, 0, 1, 0}));
}

// The gradient of the squares of rows [0, 2) and [2, 3), or [1, 3), of an array of three, and the program's text.
std::pair<std::vector<float>, std::string> gradient_of_slices(int64_t second) {
  Graph graph;
  const Value x = graph.add_parameter({DType::kF32, {3, 2}});
  const GraphScope scope(graph);
  const Value a = slice_axis(x, 0, 0, 2), b = slice_axis(x, 0, second, 3);
  graph.results = gradient(sum_all(a * a) + sum_all(b * b), {x});
  const std::vector<HostArray> results = testing::run_graph(graph, {testing::f32_array({3, 2}, {1, 2, 3, 4, 5, 6})});
  return {results[0].floats(), program_text(graph)};
}

TEST(Gradient, OfSlicesThatMakeUpAStackIsJoined) {
  const auto [values, text] = gradient_of_slices(2);
  EXPECT_EQ(values, (std::vector<float>{2, 4, 6, 8, 10, 12}));
  EXPECT_EQ(text.find("stablehlo.pad"), std::string::npos) << text;
  EXPECT_NE(text.find("stablehlo.concatenate"), std::string::npos);
}

TEST(Gradient, OfSlicesThatOverlapIsAdded) {
  const auto [values, text] = gradient_of_slices(1);
  EXPECT_EQ(values, (std::vector<float>{2, 4, 12, 16, 10, 12}));
}

TEST(Lower, PartsOfPartsAreParts) {
  Graph graph;
  const Value x = graph.add_parameter({DType::kF32, {2}});
  const GraphScope scope(graph);
  graph.results = {concatenate({concatenate({x, x}, 0), x}, 0)};
  const std::string text = program_text(graph);
  const size_t first = text.find("stablehlo.concatenate");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(text.find("stablehlo.concatenate", first + 1), std::string::npos) << text;
}

TEST(Gradient, NeedsAFloatScalar) {
  Graph graph;
  const Value x = graph.add_parameter({kF64, {3}});
  const GraphScope scope(graph);
  EXPECT_THROW(gradient(x, {x}), Error);
}

}  // namespace
}  // namespace tessera::ir
