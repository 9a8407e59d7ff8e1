#include "models/foreign_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"

namespace tessera::models {
namespace {

constexpr std::string_view kStackedBlocks = "Transformer/encoderblock/";

std::string block_scope(int64_t i) { return fmt::format("Transformer/encoderblock_{}/", i); }

// [rows, columns] -> [columns, rows].
std::vector<float> transposed(const std::vector<float>& in, int64_t rows, int64_t columns) {
  std::vector<float> out(in.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) out[static_cast<size_t>(c * rows + r)] = in[static_cast<size_t>(r * columns + c)];
  }
  return out;
}

int64_t product(const Dims& dims, size_t begin, size_t end) {
  return element_count(Dims(dims.begin() + static_cast<ptrdiff_t>(begin), dims.begin() + static_cast<ptrdiff_t>(end)));
}

// Moves arrays from one map to the other, name by name; what is left over is nobody's.
class Translation {
 public:
  Translation(Arrays in, std::string where) : in_(std::move(in)), where_(std::move(where)) {}

  bool has(const std::string& name) const { return in_.contains(name); }
  bool any_in(const std::string& scope) const {
    const auto found = in_.lower_bound(scope);
    return found != in_.end() && found->first.starts_with(scope);
  }

  // The array, out of the map; nothing when it is not there. `ranks`: how many dimensions it may have.
  std::optional<Array> take(const std::string& name, std::initializer_list<size_t> ranks = {}) {
    const auto found = in_.find(name);
    if (found == in_.end()) return {};
    Array array = std::move(found->second);
    in_.erase(found);
    if (ranks.size() > 0 && std::find(ranks.begin(), ranks.end(), array.type.dims.size()) == ranks.end()) {
      throw data_error(fmt::format("the array `{}` is {}, which no ViT has there", name, to_string(array.type)), where_);
    }
    return array;
  }

  void put(const std::string& name, Dims dims, const std::vector<float>& values) {
    out_[name] = array_f32(std::move(dims), values);
  }
  void put(const std::string& name, Array array) { out_[name] = std::move(array); }

  // The same array under another name.
  void rename(const std::string& from, const std::string& to) {
    if (std::optional<Array> array = take(from)) put(to, std::move(*array));
  }

  const std::string& where() const { return where_; }
  Arrays finish() && {
    out_.merge(in_);
    return std::move(out_);
  }
  const Arrays& left() const { return in_; }

 private:
  Arrays in_, out_;
  std::string where_;
};

std::vector<float> floats(const Array& array) { return to_floats({array.type, array.data}); }

Arrays as_f32(const ArrayViews& arrays) {
  Arrays out;
  for (const auto& [name, array] : arrays) {
    if (is_float(array.type.dtype)) out[name] = array_f32(array.type.dims, to_floats(array));
  }
  return out;
}

// --- big_vision -> timm

void norm_from_flax(Translation& t, const std::string& from, const std::string& to) {
  t.rename(from + "/scale", to + ".weight");
  t.rename(from + "/bias", to + ".bias");
}

// A kernel [inputs…, outputs…], of which the first `inputs` dimensions are summed over, as [out, in].
Array dense_weight(const Array& kernel, size_t inputs) {
  const Dims& dims = kernel.type.dims;
  const int64_t in = product(dims, 0, inputs), out = product(dims, inputs, dims.size());
  return array_f32({out, in}, transposed(floats(kernel), in, out));
}

void dense_from_flax(Translation& t, const std::string& from, const std::string& to) {
  if (const auto kernel = t.take(from + "/kernel", {2})) t.put(to + ".weight", dense_weight(*kernel, 1));
  t.rename(from + "/bias", to + ".bias");
}

// Several dense layers of the same input as one: their weights and biases one below the other.
void join_dense(Translation& t, const std::string& from, const std::vector<std::string>& parts, const std::string& to) {
  std::vector<float> weight, bias;
  int64_t in = 0;
  for (const std::string& part : parts) {
    if (const auto kernel = t.take(from + part + "/kernel", {3})) {
      const Array one = dense_weight(*kernel, 1);
      in = one.type.dims[1];
      const std::vector<float> values = floats(one);
      weight.insert(weight.end(), values.begin(), values.end());
    }
    if (const auto one = t.take(from + part + "/bias", {2})) {
      const std::vector<float> values = floats(*one);
      bias.insert(bias.end(), values.begin(), values.end());
    }
  }
  if (in > 0) t.put(to + ".weight", {static_cast<int64_t>(weight.size()) / in, in}, weight);
  if (!bias.empty()) t.put(to + ".bias", {static_cast<int64_t>(bias.size())}, bias);
}

void attention_out_from_flax(Translation& t, const std::string& from, const std::string& to) {
  if (const auto kernel = t.take(from + "/kernel", {3})) t.put(to + ".weight", dense_weight(*kernel, 2));
  t.rename(from + "/bias", to + ".bias");
}

void unstack_blocks(Arrays& arrays) {
  Arrays single;
  for (auto found = arrays.lower_bound(std::string(kStackedBlocks));
       found != arrays.end() && found->first.starts_with(kStackedBlocks); found = arrays.erase(found)) {
    const Dims& dims = found->second.type.dims;
    if (dims.empty() || dims[0] == 0) continue;
    const Dims rest(dims.begin() + 1, dims.end());
    const size_t bytes = found->second.data.size() / static_cast<size_t>(dims[0]);
    for (int64_t i = 0; i < dims[0]; ++i) {
      const auto begin = found->second.data.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(i) * bytes);
      single[block_scope(i) + found->first.substr(kStackedBlocks.size())] = {{DType::kF32, rest},
                                                                             {begin, begin + static_cast<ptrdiff_t>(bytes)}};
    }
  }
  arrays.merge(single);
}

Arrays from_big_vision(Arrays arrays, const std::string& where) {
  unstack_blocks(arrays);
  Translation t(std::move(arrays), where);
  if (const auto kernel = t.take("embedding/kernel", {4})) {
    const Dims& d = kernel->type.dims;
    // [P, P, C, D] -> [D, C, P, P]: first [D, P P C], then C before the pixels.
    const std::vector<float> rows = transposed(floats(*kernel), d[0] * d[1] * d[2], d[3]);
    std::vector<float> weight;
    const auto one = static_cast<ptrdiff_t>(d[0] * d[1] * d[2]);
    for (int64_t o = 0; o < d[3]; ++o) {
      const auto begin = rows.begin() + o * one;
      const std::vector<float> row = transposed({begin, begin + one}, d[0] * d[1], d[2]);
      weight.insert(weight.end(), row.begin(), row.end());
    }
    t.put("patch_embed.proj.weight", {d[3], d[2], d[0], d[1]}, weight);
  }
  t.rename("embedding/bias", "patch_embed.proj.bias");
  t.rename("pos_embedding", "pos_embed");
  t.rename("Transformer/posembed_input/pos_embedding", "pos_embed");
  t.rename("cls", "cls_token");
  for (int64_t i = 0; t.any_in(block_scope(i)); ++i) {
    const std::string from = block_scope(i), to = fmt::format("blocks.{}.", i);
    const bool old = t.any_in(from + "MlpBlock_3/");
    const std::string attention = from + (old ? "MultiHeadDotProductAttention_1" : "MultiHeadDotProductAttention_0");
    const std::string mlp = from + (old ? "MlpBlock_3" : "MlpBlock_0");
    norm_from_flax(t, from + "LayerNorm_0", to + "norm1");
    norm_from_flax(t, from + (old ? "LayerNorm_2" : "LayerNorm_1"), to + "norm2");
    join_dense(t, attention, {"/query", "/key", "/value"}, to + "attn.qkv");
    attention_out_from_flax(t, attention + "/out", to + "attn.proj");
    dense_from_flax(t, mlp + "/Dense_0", to + "mlp.fc1");
    dense_from_flax(t, mlp + "/Dense_1", to + "mlp.fc2");
  }
  norm_from_flax(t, "Transformer/encoder_norm", "norm");
  t.rename("MAPHead_0/probe", "attn_pool.latent");
  join_dense(t, "MAPHead_0/MultiHeadDotProductAttention_0", {"/query"}, "attn_pool.q");
  join_dense(t, "MAPHead_0/MultiHeadDotProductAttention_0", {"/key", "/value"}, "attn_pool.kv");
  attention_out_from_flax(t, "MAPHead_0/MultiHeadDotProductAttention_0/out", "attn_pool.proj");
  norm_from_flax(t, "MAPHead_0/LayerNorm_0", "attn_pool.norm");
  dense_from_flax(t, "MAPHead_0/MlpBlock_0/Dense_0", "attn_pool.mlp.fc1");
  dense_from_flax(t, "MAPHead_0/MlpBlock_0/Dense_1", "attn_pool.mlp.fc2");
  dense_from_flax(t, "pre_logits", "pre_logits");
  dense_from_flax(t, "head", "head");
  return std::move(t).finish();
}

// --- timm -> big_vision

void norm_to_flax(Translation& t, const std::string& from, const std::string& to) {
  t.rename(from + ".weight", to + "/scale");
  t.rename(from + ".bias", to + "/bias");
}

void dense_to_flax(Translation& t, const std::string& from, const std::string& to) {
  if (const auto weight = t.take(from + ".weight", {2})) {
    const int64_t out = weight->type.dims[0], in = weight->type.dims[1];
    t.put(to + "/kernel", {in, out}, transposed(floats(*weight), out, in));
  }
  t.rename(from + ".bias", to + "/bias");
}

void split_dense(Translation& t, const std::string& from, const std::string& to, const std::vector<std::string>& parts,
                 int64_t heads) {
  const auto count = static_cast<int64_t>(parts.size());
  const auto weight = t.take(from + ".weight", {2});
  const auto bias = t.take(from + ".bias", {1});
  for (int64_t p = 0; p < count; ++p) {
    const std::string name = to + parts[static_cast<size_t>(p)];
    const auto part = [&](const Array& array) {
      const std::vector<float> all = floats(array);
      const auto one = static_cast<ptrdiff_t>(all.size()) / count;
      return std::vector<float>(all.begin() + p * one, all.begin() + (p + 1) * one);
    };
    if (weight) {
      const int64_t out = weight->type.dims[0] / count, in = weight->type.dims[1];
      t.put(name + "/kernel", {in, heads, out / heads}, transposed(part(*weight), out, in));
    }
    if (bias) t.put(name + "/bias", {heads, bias->type.dims[0] / count / heads}, part(*bias));
  }
}

void attention_out_to_flax(Translation& t, const std::string& from, const std::string& to, int64_t heads) {
  if (const auto weight = t.take(from + ".weight", {2})) {
    const int64_t out = weight->type.dims[0], in = weight->type.dims[1];
    t.put(to + "/kernel", {heads, in / heads, out}, transposed(floats(*weight), out, in));
  }
  t.rename(from + ".bias", to + "/bias");
}

Arrays to_big_vision(Translation t, int64_t heads) {
  if (const auto weight = t.take("patch_embed.proj.weight", {4})) {
    const Dims& d = weight->type.dims;
    const std::vector<float> all = floats(*weight);
    const auto one = static_cast<ptrdiff_t>(d[1] * d[2] * d[3]);
    std::vector<float> rows;  // [D, P P C]
    for (int64_t o = 0; o < d[0]; ++o) {
      const std::vector<float> row = transposed({all.begin() + o * one, all.begin() + (o + 1) * one}, d[1], d[2] * d[3]);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    t.put("embedding/kernel", {d[2], d[3], d[1], d[0]}, transposed(rows, d[0], one));
  }
  t.rename("patch_embed.proj.bias", "embedding/bias");
  t.rename("pos_embed", "pos_embedding");
  t.rename("cls_token", "cls");
  for (int64_t i = 0; t.any_in(fmt::format("blocks.{}.", i)); ++i) {
    const std::string from = fmt::format("blocks.{}.", i), to = block_scope(i);
    norm_to_flax(t, from + "norm1", to + "LayerNorm_0");
    norm_to_flax(t, from + "norm2", to + "LayerNorm_1");
    split_dense(t, from + "attn.qkv", to + "MultiHeadDotProductAttention_0", {"/query", "/key", "/value"}, heads);
    attention_out_to_flax(t, from + "attn.proj", to + "MultiHeadDotProductAttention_0/out", heads);
    dense_to_flax(t, from + "mlp.fc1", to + "MlpBlock_0/Dense_0");
    dense_to_flax(t, from + "mlp.fc2", to + "MlpBlock_0/Dense_1");
  }
  norm_to_flax(t, "norm", "Transformer/encoder_norm");
  t.rename("attn_pool.latent", "MAPHead_0/probe");
  split_dense(t, "attn_pool.q", "MAPHead_0/MultiHeadDotProductAttention_0", {"/query"}, heads);
  split_dense(t, "attn_pool.kv", "MAPHead_0/MultiHeadDotProductAttention_0", {"/key", "/value"}, heads);
  attention_out_to_flax(t, "attn_pool.proj", "MAPHead_0/MultiHeadDotProductAttention_0/out", heads);
  norm_to_flax(t, "attn_pool.norm", "MAPHead_0/LayerNorm_0");
  dense_to_flax(t, "attn_pool.mlp.fc1", "MAPHead_0/MlpBlock_0/Dense_0");
  dense_to_flax(t, "attn_pool.mlp.fc2", "MAPHead_0/MlpBlock_0/Dense_1");
  dense_to_flax(t, "pre_logits", "pre_logits");
  dense_to_flax(t, "head", "head");
  if (!t.left().empty()) {
    throw usage_error(fmt::format("big_vision's ViT has no counterpart of `{}`", t.left().begin()->first));
  }
  return std::move(t).finish();
}

// --- Hugging Face's ViTForImageClassification <-> timm

constexpr std::string_view kHuggingFaceModel = "vit.";

// Name parts that differ, a block's then the model's, ours first.
constexpr std::pair<const char*, const char*> kBlockParts[] = {
    {"norm1", "layernorm_before"},     {"norm2", "layernorm_after"}, {"attn.proj", "attention.output.dense"},
    {"mlp.fc1", "intermediate.dense"}, {"mlp.fc2", "output.dense"},
};
constexpr std::pair<const char*, const char*> kModelNames[] = {
    {"cls_token", "vit.embeddings.cls_token"},
    {"pos_embed", "vit.embeddings.position_embeddings"},
    {"patch_embed.proj.weight", "vit.embeddings.patch_embeddings.projection.weight"},
    {"patch_embed.proj.bias", "vit.embeddings.patch_embeddings.projection.bias"},
    {"norm.weight", "vit.layernorm.weight"},
    {"norm.bias", "vit.layernorm.bias"},
    {"head.weight", "classifier.weight"},
    {"head.bias", "classifier.bias"},
};
constexpr const char* kQkv[] = {"query", "key", "value"};

Arrays from_hugging_face(Arrays arrays, const std::string& where) {
  if (!arrays.contains("vit.embeddings.position_embeddings")) {  // the bare ViTModel
    Arrays named;
    for (auto& [name, array] : arrays) named[std::string(kHuggingFaceModel) + name] = std::move(array);
    arrays = std::move(named);
  }
  Translation t(std::move(arrays), where);
  for (const auto& [ours, theirs] : kModelNames) t.rename(theirs, ours);
  for (int64_t i = 0; t.any_in(fmt::format("vit.encoder.layer.{}.", i)); ++i) {
    const std::string from = fmt::format("vit.encoder.layer.{}.", i), to = fmt::format("blocks.{}.", i);
    for (const char* leaf : {".weight", ".bias"}) {
      for (const auto& [ours, theirs] : kBlockParts) t.rename(from + theirs + leaf, to + ours + leaf);
      std::vector<float> all;
      Dims dims;
      for (const char* part : kQkv) {
        const auto one = t.take(from + "attention.attention." + part + leaf, {1, 2});
        if (!one) continue;
        const std::vector<float> values = floats(*one);
        all.insert(all.end(), values.begin(), values.end());
        dims = one->type.dims;
      }
      if (all.empty()) continue;
      dims[0] = static_cast<int64_t>(all.size()) / (dims.size() == 2 ? dims[1] : 1);
      t.put(to + "attn.qkv" + leaf, dims, all);
    }
  }
  return std::move(t).finish();
}

Arrays to_hugging_face(Translation t) {
  for (const auto& [ours, theirs] : kModelNames) t.rename(ours, theirs);
  for (int64_t i = 0; t.any_in(fmt::format("blocks.{}.", i)); ++i) {
    const std::string from = fmt::format("blocks.{}.", i), to = fmt::format("vit.encoder.layer.{}.", i);
    for (const char* leaf : {".weight", ".bias"}) {
      for (const auto& [ours, theirs] : kBlockParts) t.rename(from + ours + leaf, to + theirs + leaf);
      const auto qkv = t.take(from + "attn.qkv" + leaf, {1, 2});
      if (!qkv) continue;
      const std::vector<float> all = floats(*qkv);
      const auto one = static_cast<ptrdiff_t>(all.size() / 3);
      Dims dims = qkv->type.dims;
      dims[0] /= 3;
      for (ptrdiff_t p = 0; p < 3; ++p) {
        t.put(to + "attention.attention." + kQkv[p] + leaf, dims, {all.begin() + p * one, all.begin() + (p + 1) * one});
      }
    }
  }
  if (!t.left().empty()) {
    throw usage_error(fmt::format("Hugging Face's ViT has no counterpart of `{}`", t.left().begin()->first));
  }
  return std::move(t).finish();
}

}  // namespace

Naming naming_of(const ArrayViews& arrays) {
  if (arrays.contains("embedding/kernel")) return Naming::kBigVision;
  for (const char* scope : {"vit.", ""}) {
    if (arrays.contains(std::string(scope) + "embeddings.patch_embeddings.projection.weight")) return Naming::kHuggingFace;
  }
  return Naming::kTimm;
}

Arrays to_timm_naming(const ArrayViews& arrays, Naming naming, const std::string& where) {
  if (naming == Naming::kBigVision) return from_big_vision(as_f32(arrays), where);
  if (naming == Naming::kHuggingFace) return from_hugging_face(as_f32(arrays), where);
  return as_f32(arrays);
}

Arrays from_timm_naming(const Arrays& arrays, Naming naming, int64_t heads) {
  if (naming == Naming::kBigVision) return to_big_vision({arrays, ""}, heads);
  if (naming == Naming::kHuggingFace) return to_hugging_face({arrays, ""});
  return arrays;
}

}  // namespace tessera::models
