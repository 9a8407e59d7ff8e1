#pragma once
// Weights of ViTs as other libraries name and lay them out, <-> the arrays of timm's files, from which timm_names.h goes on.
//
//   timm's                          big_vision's (flax)                              Hugging Face's
//   patch_embed.proj.weight         embedding/kernel [P, P, C, D]                    embeddings.patch_embeddings.projection
//   pos_embed                       pos_embedding                                    embeddings.position_embeddings
//   cls_token                       cls                                              embeddings.cls_token
//   blocks.i.norm1, norm2           Transformer/encoderblock_i/LayerNorm_0, _1       encoder.layer.i.layernorm_before, _after
//   blocks.i.attn.qkv [3 D, D]      …/MultiHeadDotProductAttention_0/query, key,     ….attention.attention.query, key, value
//                                   value [D, H, D / H]
//   blocks.i.attn.proj              …/out [H, D / H, D]                              ….attention.output.dense
//   blocks.i.mlp.fc1, fc2           …/MlpBlock_0/Dense_0, _1                         ….intermediate.dense, ….output.dense
//   norm                            Transformer/encoder_norm                         layernorm
//   attn_pool.latent, q, kv, …      MAPHead_0/probe, …                               -
//   pre_logits, head                pre_logits, head                                 -, classifier
//
// big_vision's blocks may be stacked (Transformer/encoderblock/…, [depth, …]). Its checkpoints of before 2022 (AugReg) are read
// too: LayerNorm_2, MultiHeadDotProductAttention_1, MlpBlock_3, Transformer/posembed_input/pos_embedding.

#include "models/weights.h"

namespace tessera::models {

enum class Naming { kTimm, kBigVision, kHuggingFace };

// By the names alone; kTimm when they are neither of the others'.
Naming naming_of(const ArrayViews& arrays);

// timm's arrays, f32, from those of `naming`. Arrays that a ViT of theirs does not have keep their names, for import_timm to
// list. Throws a data error at `where` for an array whose rank is not what its name asks for, and for heads that don't fit.
Arrays to_timm_naming(const ArrayViews& arrays, Naming naming, const std::string& where);

// The other way. `heads`: of attention. Throws a usage error for an array that has no counterpart there.
Arrays from_timm_naming(const Arrays& arrays, Naming naming, int64_t heads);

}  // namespace tessera::models
