#include "ir/program/gpu_target.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/composite.h"
#include "ir/composites.h"
#include "ir/functions.h"
#include "ir/manual.h"
#include "ir/op_entries.h"
#include "ir/ops.h"
#include "ir/passes/rewrite.h"

namespace tessera::ir {
namespace {

constexpr const char *kMaxPool = "max_pool", *kMaxPoolGradient = "max_pool_gradient";
constexpr const char *kAttention = "attention", *kAttentionGradient = "attention_gradient", *kSelfAttention = "self_attention",
                     *kSelfAttentionGradient = "self_attention_gradient";

bool is_max_pool(const std::string& name) { return name == kMaxPool || name == kMaxPoolGradient; }
bool is_attention(const std::string& name) { return name == kAttention || name == kAttentionGradient; }
bool is_self_attention(const std::string& name) { return name == kSelfAttention || name == kSelfAttentionGradient; }

struct Attention {
  int64_t batch = 1;
  AttentionSizes sizes;
};

// Nothing for other composites.
std::optional<Attention> attention_of(const Composite& composite, const std::vector<TensorType>& operands) {
  const Dims& first = operands.at(0).dims;
  if (is_attention(composite.name())) return Attention{first[0], {first[1], operands.at(1).dims[1], first[2], first[3]}};
  if (!is_self_attention(composite.name())) return std::nullopt;
  const auto [heads, tokens] = composite.attributes<SelfAttention>();
  return Attention{first[0] / tokens, {tokens, tokens, heads, first[1] / (3 * heads)}};
}

// On one device.
Values call_cudnn(const Composite& composite, const Values& x) {
  const std::string& name = composite.name();
  if (name == kAttention) return {cudnn_attention(x[0], x[1], x[2])};
  if (name == kAttentionGradient) return cudnn_attention_gradient(x[0], x[1], x[2], x[3]);
  const auto& a = composite.attributes<SelfAttention>();
  const Values parts = split_heads(x[0], a.tokens, 3, a.heads);
  if (name == kSelfAttention) return {merge_heads(cudnn_attention(parts[0], parts[1], parts[2]))};
  const Value cotangent = reshape(x[1], parts[0].dims());
  Values gradients = cudnn_attention_gradient(parts[0], parts[1], parts[2], cotangent);
  for (Value& gradient : gradients) gradient = merge_heads(gradient);
  return {concatenate(gradients, 1)};
}

}  // namespace

bool GpuTarget::takes(const Composite& composite, const std::vector<TensorType>& operands) const {
  // XLA's select_and_scatter writes five arrays of indices first.
  if (is_max_pool(composite.name())) return composite.attributes<Window>().window <= kMaxPoolWindow;
  if (!cudnn_works_ || (mesh_ && mesh_->size("tensor") > 1)) return false;
  const std::optional<Attention> attention = attention_of(composite, operands);
  if (!attention || !is_cudnn_width(attention->sizes.width)) return false;
  const bool bf16 = std::ranges::all_of(operands, [](const TensorType& type) { return type.dtype == DType::kBF16; });
  return bf16 && attention->batch % (mesh_ ? mesh::batch_parts(*mesh_) : 1) == 0 && cudnn_works_(attention->sizes);
}

std::unique_ptr<Graph> GpuTarget::select_kernels(const Graph& lowered) const {
  return rewrite(lowered, [&](const Node& node, const Values& operands) -> std::optional<Values> {
    if (node.op != &kOpComposite) return std::nullopt;
    const auto& composite = *node.attr<std::shared_ptr<const Composite>>("_composite");
    if (composite.name() == kMaxPool) return composite.decompose(operands);
    if (composite.name() == kMaxPoolGradient) {
      const auto& w = composite.attributes<Window>();
      return Values{max_pool2d_gradient(operands[0], operands[1], w.window, w.stride, w.padding)};
    }
    const auto call = [&](const Values& local) { return call_cudnn(composite, local); };
    return mesh_ ? shard_map(*mesh_, operands, std::vector<int64_t>(operands.size(), 0), call) : call(operands);
  });
}

std::unique_ptr<Graph> GpuTarget::prepare(const Graph&, size_t) const {
  TESSERA_CHECK(false, "a GPU calls no kernels of ours");
}

}  // namespace tessera::ir
