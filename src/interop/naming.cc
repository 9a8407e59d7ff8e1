#include "interop/naming.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "base/error.h"
#include "base/printable.h"
#include "interop/array_layouts.h"

namespace tessera::interop {
namespace {

// A layer (of each block, where its name has {}), in timm's naming and in theirs. Several of theirs are timm's one below the
// other.
struct Row {
  const char* timm;
  std::vector<const char*> theirs;
  Form form;
};

// The blocks of a ViT, below Transformer/, and of a text tower, below Encoder_0/.
#define BV_ATTENTION "MultiHeadDotProductAttention_0/"
#define BV_BLOCK "encoderblock_{}/"
const std::vector<Row> kBigVisionBlocks = {
    {"blocks.{}.norm1", {BV_BLOCK "LayerNorm_0"}, Form::kNorm},
    {"blocks.{}.norm2", {BV_BLOCK "LayerNorm_1"}, Form::kNorm},
    {"blocks.{}.attn.qkv",
     {BV_BLOCK BV_ATTENTION "query", BV_BLOCK BV_ATTENTION "key", BV_BLOCK BV_ATTENTION "value"},
     Form::kHeads},
    {"blocks.{}.attn.proj", {BV_BLOCK BV_ATTENTION "out"}, Form::kOut},
    {"blocks.{}.mlp.fc1", {BV_BLOCK "MlpBlock_0/Dense_0"}, Form::kDense},
    {"blocks.{}.mlp.fc2", {BV_BLOCK "MlpBlock_0/Dense_1"}, Form::kDense},
    {"norm", {"encoder_norm"}, Form::kNorm},
};
#undef BV_BLOCK

// What comes before and after them.
const std::vector<Row> kBigVisionEnds = {
    {"patch_embed.proj", {"embedding"}, Form::kPatches},
    {"embed.embedding", {"Embed_0/embedding"}, Form::kArray},
    {"pos_embed", {"pos_embedding"}, Form::kArray},
    {"cls_token", {"cls"}, Form::kArray},
    {"attn_pool.latent", {"MAPHead_0/probe"}, Form::kArray},
    {"attn_pool.q", {"MAPHead_0/" BV_ATTENTION "query"}, Form::kHeads},
    {"attn_pool.kv", {"MAPHead_0/" BV_ATTENTION "key", "MAPHead_0/" BV_ATTENTION "value"}, Form::kHeads},
    {"attn_pool.proj", {"MAPHead_0/" BV_ATTENTION "out"}, Form::kOut},
    {"attn_pool.norm", {"MAPHead_0/LayerNorm_0"}, Form::kNorm},
    {"attn_pool.mlp.fc1", {"MAPHead_0/MlpBlock_0/Dense_0"}, Form::kDense},
    {"attn_pool.mlp.fc2", {"MAPHead_0/MlpBlock_0/Dense_1"}, Form::kDense},
    {"pre_logits", {"pre_logits"}, Form::kDense},
    {"head", {"head"}, Form::kDense},
};
#undef BV_ATTENTION

// Of two towers: the logarithm of the temperature, and the bias.
const std::vector<Row> kBigVisionSimilarity = {{"t", {"t"}, Form::kArray}, {"b", {"b"}, Form::kArray}};

#define BV_BLOCK "decoder/EncDecBlock{}/"
const std::vector<Row> kBigVisionDecoder = {
    {"pos_embed", {"pos_embedding_decoder"}, Form::kArray},
    {"decoder.embed.embedding", {"decoder/EmbedTargets/embedding"}, Form::kArray},
    {"decoder.blocks.{}.norm1", {BV_BLOCK "LayerNorm1"}, Form::kNorm},
    {"decoder.blocks.{}.norm2", {BV_BLOCK "LayerNorm2"}, Form::kNorm},
    {"decoder.blocks.{}.norm3", {BV_BLOCK "LayerNorm3"}, Form::kNorm},
    {"decoder.blocks.{}.attn.qkv",
     {BV_BLOCK "SelfAttn/query", BV_BLOCK "SelfAttn/key", BV_BLOCK "SelfAttn/value"},
     Form::kHeads},
    {"decoder.blocks.{}.attn.proj", {BV_BLOCK "SelfAttn/out"}, Form::kOut},
    {"decoder.blocks.{}.cross.q", {BV_BLOCK "CrossAttn/query"}, Form::kHeads},
    {"decoder.blocks.{}.cross.kv", {BV_BLOCK "CrossAttn/key", BV_BLOCK "CrossAttn/value"}, Form::kHeads},
    {"decoder.blocks.{}.cross.proj", {BV_BLOCK "CrossAttn/out"}, Form::kOut},
    {"decoder.blocks.{}.mlp.fc1", {BV_BLOCK "MLP/Dense_0"}, Form::kDense},
    {"decoder.blocks.{}.mlp.fc2", {BV_BLOCK "MLP/Dense_1"}, Form::kDense},
    {"decoder.norm", {"decoder/LayerNorm"}, Form::kNorm},
    {"decoder.logits", {"decoder/LogitsDense"}, Form::kDense},
};
#undef BV_BLOCK

#define HF_BLOCK "vit.encoder.layer.{}."
const std::vector<Row> kHuggingFaceViT = {
    {"cls_token", {"vit.embeddings.cls_token"}, Form::kArray},
    {"pos_embed", {"vit.embeddings.position_embeddings"}, Form::kArray},
    {"patch_embed.proj", {"vit.embeddings.patch_embeddings.projection"}, Form::kSame},
    {"blocks.{}.norm1", {HF_BLOCK "layernorm_before"}, Form::kSame},
    {"blocks.{}.norm2", {HF_BLOCK "layernorm_after"}, Form::kSame},
    {"blocks.{}.attn.qkv",
     {HF_BLOCK "attention.attention.query", HF_BLOCK "attention.attention.key", HF_BLOCK "attention.attention.value"},
     Form::kSame},
    {"blocks.{}.attn.proj", {HF_BLOCK "attention.output.dense"}, Form::kSame},
    {"blocks.{}.mlp.fc1", {HF_BLOCK "intermediate.dense"}, Form::kSame},
    {"blocks.{}.mlp.fc2", {HF_BLOCK "output.dense"}, Form::kSame},
    {"norm", {"vit.layernorm"}, Form::kSame},
    {"head", {"classifier"}, Form::kSame},
};
#undef HF_BLOCK

// Rows, and the scopes below which both sides have them.
struct Table {
  const std::vector<Row>* rows;
  std::string timm_scope, their_scope;
  int64_t heads;
};

bool any_below(const models::Arrays& arrays, const std::string& scope) {
  const auto found = arrays.lower_bound(scope);
  return found != arrays.end() && found->first.starts_with(scope);
}

void add_tower(std::vector<Table>& tables, const std::string& timm_scope, const std::string& their_scope,
               const std::string& their_blocks, int64_t heads) {
  tables.push_back({&kBigVisionBlocks, timm_scope, their_scope + their_blocks, heads});
  tables.push_back({&kBigVisionEnds, timm_scope, their_scope, heads});
}

// big_vision's models, as the names of their arrays show them.
enum class Kind { kViT, kCaptioner, kTwoTower };

// `separator`: between scopes of the arrays' names.
Kind kind_of(const models::Arrays& arrays, const char* separator) {
  if (any_below(arrays, std::string("decoder") + separator)) return Kind::kCaptioner;
  return any_below(arrays, std::string("txt") + separator) ? Kind::kTwoTower : Kind::kViT;
}

std::vector<Table> tables_of(Naming naming, Kind kind, const Heads& heads) {
  if (naming == Naming::kHuggingFace) return {{&kHuggingFaceViT, "", "", 0}};
  std::vector<Table> tables;
  const char* const kBlocks = "Transformer/";
  switch (kind) {
    case Kind::kViT: add_tower(tables, "", "", kBlocks, heads.image); break;
    case Kind::kCaptioner:
      add_tower(tables, "encoder.", "encoder/", kBlocks, heads.image);
      tables.push_back({&kBigVisionDecoder, "", "", heads.text});
      break;
    case Kind::kTwoTower:
      add_tower(tables, "img.", "img/", kBlocks, heads.image);
      add_tower(tables, "txt.", "txt/", "Encoder_0/", heads.text);
      tables.push_back({&kBigVisionSimilarity, "", "", 0});
  }
  return tables;
}

// Calls fn(name with its block's number) for each block that has an entry in `arrays`; once where the name has no {}.
template <class Fn>
void each_block(const models::Arrays& arrays, const std::string& name, Fn fn) {
  const size_t at = name.find("{}");
  if (at == std::string::npos) return fn(std::optional<int64_t>());
  for (int64_t i = 0;; ++i) {
    // With the character behind the number: block 1 is not block 10.
    if (!any_below(arrays, name.substr(0, at) + std::to_string(i) + name[at + 2])) return;
    fn(std::optional<int64_t>(i));
  }
}

std::string numbered(std::string name, const std::optional<int64_t>& block) {
  if (block) name.replace(name.find("{}"), 2, std::to_string(*block));
  return name;
}

// The array, out of the map; nothing when it is not there.
std::optional<models::Array> take(models::Arrays& arrays, const std::string& name) {
  auto node = arrays.extract(name);
  return node.empty() ? std::nullopt : std::optional(std::move(node.mapped()));
}

// Whether one may stand below the other: they differ in the first dimension at most.
bool may_be_joined(const models::Array& a, const models::Array& b) {
  const Dims &above = a.type.dims, &below = b.type.dims;
  return a.type.dtype == b.type.dtype && !above.empty() && above.size() == below.size() &&
         std::equal(above.begin() + 1, above.end(), below.begin() + 1);
}

void row_to_timm(const Row& row, const Table& table, const std::string& where, models::Arrays& in, models::Arrays& out) {
  each_block(in, table.their_scope + row.theirs[0], [&](const std::optional<int64_t>& block) {
    for (const Leaf& leaf : leaves(row.form)) {
      std::vector<models::Array> parts;
      for (const char* theirs : row.theirs) {
        const std::string name = numbered(table.their_scope + theirs, block) + leaf.theirs;
        std::optional<models::Array> part = take(in, name);
        if (!part) continue;
        const size_t rank = library_rank(row.form, leaf);
        if (rank != 0 && part->type.dims.size() != rank) {
          throw data_error(fmt::format("the array `{}` is {}, and has {} dimensions in the library whose names it has", name,
                                       to_string(part->type), rank),
                           where);
        }
        parts.push_back(to_timm_layout(std::move(*part), row.form, leaf));
        if (row.theirs.size() > 1 && !may_be_joined(parts.front(), parts.back())) {
          throw data_error(fmt::format("the array `{}` is {}, which cannot stand below the others of its layer", one_line(name),
                                       to_string(parts.back().type)),
                           where);
        }
      }
      if (!parts.empty()) out[numbered(table.timm_scope + row.timm, block) + leaf.timm] = join_rows(parts);
    }
  });
}

void row_from_timm(const Row& row, const Table& table, models::Arrays& in, models::Arrays& out) {
  each_block(in, table.timm_scope + row.timm, [&](const std::optional<int64_t>& block) {
    for (const Leaf& leaf : leaves(row.form)) {
      const std::optional<models::Array> whole = take(in, numbered(table.timm_scope + row.timm, block) + leaf.timm);
      if (!whole) continue;
      const std::vector<models::Array> parts = split_rows(*whole, row.theirs.size());
      for (size_t p = 0; p < parts.size(); ++p) {
        out[numbered(table.their_scope + row.theirs[p], block) + leaf.theirs] =
            from_timm_layout(parts[p], row.form, leaf, table.heads);
      }
    }
  });
}

models::Arrays as_f32(const models::ArrayViews& arrays) {
  models::Arrays out;
  for (const auto& [name, array] : arrays) {
    if (!is_float(array.type.dtype)) continue;
    if (array.data.empty()) {
      out[name] = {{DType::kF32, array.type.dims}, {}};
    } else {
      out[name] = models::array_f32(array.type.dims, models::to_floats(array));
    }
  }
  return out;
}

models::Arrays renamed(models::Arrays&& arrays, const std::function<std::string(const std::string&)>& rename) {
  models::Arrays out;
  for (auto& [name, array] : arrays) out[rename(name)] = std::move(array);
  return out;
}

// big_vision's of before 2022.
std::string without_old_parts(std::string name) {
  constexpr std::pair<std::string_view, std::string_view> kOld[] = {
      {"/LayerNorm_2/", "/LayerNorm_1/"},
      {"/MultiHeadDotProductAttention_1/", "/MultiHeadDotProductAttention_0/"},
      {"/MlpBlock_3/", "/MlpBlock_0/"},
      {"Transformer/posembed_input/pos_embedding", "pos_embedding"}};
  for (const auto& [from, to] : kOld) {
    if (const size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
  }
  return name;
}

// Names of stacked blocks, the dimension that counts them, and what comes before the number of a single one.
struct Stack {
  std::string_view scope;
  size_t axis;
  const char* number;
};
constexpr Stack kStacks[] = {{"/encoderblock/", 0, "_{}"}, {"decoder/EncDecBlock/", 1, "{}"}};
constexpr int64_t kMaxArrays = 100000;  // more than any model has

// Block `index` of an array whose dimension `axis` counts them.
models::Array one_block(const models::Array& stack, size_t axis, int64_t index) {
  const auto at = stack.type.dims.begin() + static_cast<ptrdiff_t>(axis);
  const int64_t outer = element_count(Dims(stack.type.dims.begin(), at)), count = *at;
  const auto bytes = static_cast<ptrdiff_t>(static_cast<int64_t>(stack.data.size()) / (outer * count));
  models::Array block{stack.type, {}};
  block.type.dims.erase(block.type.dims.begin() + static_cast<ptrdiff_t>(axis));
  if (stack.data.empty()) return block;
  for (int64_t o = 0; o < outer; ++o) {
    const auto begin = stack.data.begin() + (o * count + index) * bytes;
    block.data.insert(block.data.end(), begin, begin + bytes);
  }
  return block;
}

// Stacked blocks as single ones: …/encoderblock/… -> …/encoderblock_0/…, …
models::Arrays unstacked(models::Arrays&& arrays, const std::string& where) {
  models::Arrays out;
  for (auto& [name, array] : arrays) {
    const auto stack =
        std::ranges::find_if(kStacks, [&name = name](const Stack& s) { return name.find(s.scope) != std::string::npos; });
    if (stack == std::end(kStacks) || array.type.dims.size() <= stack->axis || element_count(array.type.dims) == 0) {
      out[name] = std::move(array);
      continue;
    }
    const int64_t count = array.type.dims[stack->axis];
    if (count > kMaxArrays - static_cast<int64_t>(out.size())) {
      throw data_error(fmt::format("the array `{}` is of {} blocks, more than any model has", one_line(name), count), where);
    }
    for (int64_t i = 0; i < count; ++i) {
      std::string single = name;
      single.insert(name.find(stack->scope) + stack->scope.size() - 1, fmt::format(fmt::runtime(stack->number), i));
      out[single] = one_block(array, stack->axis, i);
    }
  }
  return out;
}

}  // namespace

Naming naming_of(const models::ArrayViews& arrays) {
  for (const char* scope : {"encoder/", "img/", ""}) {
    if (arrays.contains(std::string(scope) + "embedding/kernel")) return Naming::kBigVision;
  }
  for (const char* scope : {"vit.", ""}) {
    if (arrays.contains(std::string(scope) + "embeddings.patch_embeddings.projection.weight")) return Naming::kHuggingFace;
  }
  return Naming::kTimm;
}

models::Arrays to_timm_naming(const models::ArrayViews& arrays, Naming naming, const std::string& where) {
  models::Arrays in = as_f32(arrays), out;
  if (naming == Naming::kTimm) return in;
  if (naming == Naming::kBigVision) in = unstacked(renamed(std::move(in), without_old_parts), where);
  if (naming == Naming::kHuggingFace && !any_below(in, "vit.")) {  // the bare ViTModel
    in = renamed(std::move(in), [](const std::string& name) { return "vit." + name; });
  }
  for (const Table& table : tables_of(naming, kind_of(in, "/"), {})) {
    for (const Row& row : *table.rows) row_to_timm(row, table, where, in, out);
  }
  out.merge(in);
  return out;
}

models::Arrays from_timm_naming(const models::Arrays& arrays, Naming naming, const Heads& heads) {
  if (naming == Naming::kTimm) return arrays;
  models::Arrays in = arrays, out;
  for (const Table& table : tables_of(naming, kind_of(in, "."), heads)) {
    for (const Row& row : *table.rows) row_from_timm(row, table, in, out);
  }
  if (!in.empty()) {
    throw usage_error(fmt::format("{} has no counterpart of `{}`",
                                  naming == Naming::kBigVision ? "big_vision's model" : "Hugging Face's ViT",
                                  in.begin()->first));
  }
  return out;
}

}  // namespace tessera::interop
