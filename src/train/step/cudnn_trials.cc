#include "train/step/cudnn_trials.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "ir/functions.h"
#include "ir/grad.h"
#include "ir/ops.h"
#include "ir/program/emit.h"
#include "ir/program/program.h"
#include "train/step/compile.h"

namespace tessera::train {
namespace {

using ir::Value;
using ir::Values;

constexpr const char* kName = "attention_trial";
constexpr int64_t kExamples = 2;

// Numbers of [-scale, scale] without a pattern that attention would average away.
Value numbers(int64_t tokens, const ir::AttentionSizes& sizes, double step, double scale) {
  const Dims dims = {kExamples, tokens, sizes.heads, sizes.width};
  const Value place = ir::convert(ir::iota({DType::kI32, {element_count(dims)}}, 0), DType::kF32);
  return ir::convert(ir::reshape(scale * ir::sin(step * place), dims), DType::kBF16);
}

Value plain_attention(Value q, Value k, Value v) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.dim(3)));
  const Value scores = scale * ir::dot_general(q, k, {{0, 2}, {0, 2}, {3}, {3}});  // [batch, heads, queries, keys]
  return ir::transpose(ir::dot_general(ir::softmax(scores), v, {{0, 1}, {0, 2}, {3}, {1}}), {0, 2, 1, 3});
}

Value largest(Value x) { return ir::reduce_max(ir::abs(x), {0, 1, 2, 3}); }

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::string trial_program(const ir::AttentionSizes& sizes) {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  const Value q = numbers(sizes.queries, sizes, 0.7, 4), k = numbers(sizes.keys, sizes, 1.3, 1);
  const Value v = numbers(sizes.keys, sizes, 2.1, 1), cotangent = numbers(sizes.queries, sizes, 2.9, 1);
  Values found = ir::cudnn_attention_gradient(q, k, v, cotangent);
  found.insert(found.begin(), ir::cudnn_attention(q, k, v));

  Values wide;
  for (const Value x : {q, k, v}) wide.push_back(ir::widen(x));
  const Value plain = plain_attention(wide[0], wide[1], wide[2]);
  Values wanted = ir::vjp({plain}, {ir::widen(cotangent)}, wide);
  wanted.insert(wanted.begin(), plain);
  for (size_t i = 0; i < wanted.size(); ++i) {
    graph.results.push_back(largest(ir::widen(found[i]) - wanted[i]));
    graph.results.push_back(largest(wanted[i]));
  }
  return ir::program_text(graph, {.name = kName});
}

const std::string& CudnnTrials::failure(const ir::AttentionSizes& sizes) const {
  // bf16 keeps 8 bits, and what is summed up partly cancels out; a call that means something else is off by as much as there is.
  constexpr float kMostOff = 0.1F;
  const auto [entry, is_new] = tried_->try_emplace(sizes);
  std::string& failure = entry->second;
  if (!is_new) return failure;
  try {
    const Program program{.name = kName, .text = trial_program(sizes), .calls_cudnn = true};
    pjrt::CompileOptions options = compile_options(*client_, program);
    for (size_t d = 0; d < client_->devices().size(); ++d) {
      if (client_->is_own(d)) {
        options.device_ids = {client_->devices()[d].id};
        break;
      }
    }
    std::vector<float> results;
    for (const pjrt::Buffer& buffer : pjrt::compile_cached(*client_, program.text, options, cache_).run({})) {
      results.push_back(buffer.to_host<float>().at(0));
    }
    for (size_t i = 0; i + 1 < results.size(); i += 2) {
      const bool close = results[i] <= kMostOff * results[i + 1];  // not so where one is no number
      if (!close) failure = fmt::format("its results are off by {:.3g} of {:.3g}", results[i], results[i + 1]);
    }
  } catch (const Error& error) {
    failure = first_line(error.message());
  }
  if (!failure.empty()) {
    log_note(fmt::format("cuDNN does not compute the attention of {} x {} tokens and {} heads of width {}: {}", sizes.queries,
                         sizes.keys, sizes.heads, sizes.width, failure));
  }
  return failure;
}

}  // namespace tessera::train
