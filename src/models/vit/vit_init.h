#pragma once
// The initial values of timm's and big_vision's ViT.

#include "models/vit/vit_options.h"
#include "nn/init.h"

namespace tessera::models {

struct ViTInit {
  nn::Init patch_kernel, patch_bias, positions, cls_token, dist_token, reg_token;
  nn::Init qkv, kv, dense, mlp_bias, latent, rep_kernel, head;
};

ViTInit vit_init(const ViTConfig& config);

}  // namespace tessera::models
