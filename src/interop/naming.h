#pragma once
// Weights as other libraries name and lay them out, <-> arrays of timm's layout, from which timm_names.h goes on. One table for
// each library, read in both directions (naming.cc; layouts: array_layouts.h).
//
//   timm's ViT                      big_vision's (flax)                              Hugging Face's ViT
//   patch_embed.proj.weight         embedding/kernel                                 embeddings.patch_embeddings.projection
//   pos_embed                       pos_embedding                                    embeddings.position_embeddings
//   cls_token                       cls                                              embeddings.cls_token
//   blocks.i.norm1, norm2           Transformer/encoderblock_i/LayerNorm_0, _1       encoder.layer.i.layernorm_before, _after
//   blocks.i.attn.qkv               …/MultiHeadDotProductAttention_0/query, key,     ….attention.attention.query, key, value
//                                   value
//   blocks.i.attn.proj              …/out                                            ….attention.output.dense
//   blocks.i.mlp.fc1, fc2           …/MlpBlock_0/Dense_0, _1                         ….intermediate.dense, ….output.dense
//   norm                            Transformer/encoder_norm                         layernorm
//   attn_pool.latent, q, kv, …      MAPHead_0/probe, …                               -
//   pre_logits, head                pre_logits, head                                 -, classifier
//
// big_vision's CapPa is its ViT below encoder/, and a decoder whose names stand in cappa.h; its two towers are its ViT below
// img/ and a text tower below txt/ (text_transformer.h), with t and b.
//
// big_vision's blocks may be stacked (…/encoderblock/…, [depth, …]; decoder/EncDecBlock/…, [d, depth, …]). Its
// checkpoints of before 2022 (AugReg) are read too: LayerNorm_2, MultiHeadDotProductAttention_1, MlpBlock_3,
// Transformer/posembed_input/pos_embedding.

#include "models/weights.h"

namespace tessera::interop {

enum class Naming { kTimm, kBigVision, kHuggingFace };

// Attention heads, for which big_vision's arrays have a dimension: of what reads images (a ViT, CapPa's encoder, a tower), and
// of what reads texts.
struct Heads {
  int64_t image = 0, text = 0;
};

// By the names alone; kTimm when they are neither of the others'.
Naming naming_of(const models::ArrayViews& arrays);

// timm's arrays, f32, from those of `naming`. Of arrays that have a type and no data, such again. Arrays that a model of
// theirs does not have keep their names, for import_timm to list. Throws a data error at `where` for an array whose rank is
// not what its name asks for.
models::Arrays to_timm_naming(const models::ArrayViews& arrays, Naming naming, const std::string& where);

// The other way. Throws a usage error for an array that has no counterpart there.
models::Arrays from_timm_naming(const models::Arrays& arrays, Naming naming, const Heads& heads);

}  // namespace tessera::interop
