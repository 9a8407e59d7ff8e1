#include "train/step/cudnn_trials.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/text/text.h"
#include "ir/functions.h"
#include "ir/grad.h"
#include "ir/ops.h"
#include "ir/program/program.h"
#include "ir/random.h"
#include "train/step/compile.h"

namespace tessera::train {
namespace {

using ir::Value;
using ir::Values;

constexpr const char* kName = "attention_trial";
constexpr int64_t kExamples = 2;

// In [-scale, scale): at random, since attention averages a pattern away, and what is left of it would be rounding alone.
Value numbers(const std::string& name, int64_t tokens, const ir::AttentionSizes& sizes, double scale) {
  const Value key = ir::fold_in(ir::make_key(0), name);
  return ir::convert(ir::random_uniform(key, {kExamples, tokens, sizes.heads, sizes.width}, -scale, scale), DType::kBF16);
}

Value plain_attention(Value q, Value k, Value v) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.dim(3)));
  const Value scores = scale * ir::dot_general(q, k, {{0, 2}, {0, 2}, {3}, {3}});  // [batch, heads, queries, keys]
  return ir::transpose(ir::dot_general(ir::softmax(scores), v, {{0, 1}, {0, 2}, {3}, {1}}), {0, 2, 1, 3});
}

// No finite number where there is one that isn't: a maximum may pass over it.
Value largest(Value x) {
  const Value size = ir::abs(x), total = ir::sum_all(size);
  return ir::select(ir::is_finite(total), ir::reduce_max(size, {0, 1, 2, 3}), total);
}

// Of one call and its gradient: what trial_graph() says of its results. `block` names its numbers.
Values differences(const std::string& block, const ir::AttentionSizes& sizes) {
  const Value q = numbers(block + "q", sizes.queries, sizes, 4), k = numbers(block + "k", sizes.keys, sizes, 1);
  const Value v = numbers(block + "v", sizes.keys, sizes, 1), cotangent = numbers(block + "cotangent", sizes.queries, sizes, 1);
  Values found = ir::cudnn_attention_gradient(q, k, v, cotangent);
  found.insert(found.begin(), ir::cudnn_attention(q, k, v));

  Values wide;
  for (const Value x : {q, k, v}) wide.push_back(ir::widen(x));
  const Value plain = plain_attention(wide[0], wide[1], wide[2]);
  Values wanted = ir::vjp({plain}, {ir::widen(cotangent)}, wide);
  wanted.insert(wanted.begin(), plain);
  Values results;
  for (size_t i = 0; i < wanted.size(); ++i) {
    results.push_back(largest(ir::widen(found[i]) - wanted[i]));
    results.push_back(largest(wanted[i]));
  }
  return results;
}

}  // namespace

std::unique_ptr<ir::Graph> trial_graph(const ir::AttentionSizes& sizes) {
  auto graph = std::make_unique<ir::Graph>();
  const ir::GraphScope scope(*graph);
  for (const char* block : {"first ", "second "}) {
    for (const Value result : differences(block, sizes)) graph->results.push_back(result);
  }
  return graph;
}

std::string trial_problem(const std::vector<float>& results) {
  // bf16 rounds by 2^-9 of a number at most, and a few such roundings add up: 2^-8 of the largest number in trials of many sizes.
  // A call that means something else is off by as much as there is.
  constexpr float kMaxOff = 1.0F / 32;
  for (size_t i = 0; i + 1 < results.size(); i += 2) {
    const bool close = results[i] <= kMaxOff * results[i + 1];  // not so where one is no number
    if (!close) return fmt::format("its results are off by {:.3g} of {:.3g}", results[i], results[i + 1]);
  }
  return {};
}

const std::string& CudnnTrials::failure(const ir::AttentionSizes& sizes) const {
  const auto [entry, is_new] = tried_->try_emplace(sizes);
  std::string& failure = entry->second;
  if (!is_new) return failure;
  try {
    const Program program{.name = kName, .text = ir::program_text(*trial_graph(sizes), {.name = kName}), .calls_cudnn = true};
    pjrt::CompileOptions options = compile_options(*client_, program);
    options.device_ids = {client_->devices()[client_->own_devices().at(0)].id};
    std::vector<float> results;
    for (const pjrt::Buffer& buffer : pjrt::compile_cached(*client_, program.text, options, cache_).run({})) {
      results.push_back(buffer.to_host<float>().at(0));
    }
    failure = trial_problem(results);
  } catch (const Error& error) {
    failure = split(error.message(), '\n')[0];
  }
  if (!failure.empty()) {
    log_note(fmt::format("attention (heads {} x {}, {} queries, {} keys) is not left to cuDNN: {}", sizes.heads, sizes.width,
                         sizes.queries, sizes.keys, failure));
  }
  return failure;
}

}  // namespace tessera::train
