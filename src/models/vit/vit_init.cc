#include "models/vit/vit_init.h"

#include <cmath>

namespace tessera::models {
namespace init = nn::init;

ViTInit vit_init(const ViTConfig& config) {
  const double width = static_cast<double>(config.width);
  const double patch = static_cast<double>(config.patch * config.patch * config.input.channels);
  ViTInit v;
  // timm's trunc_normal_(std=.02) cuts at +-2, a hundred standard deviations: a plain normal.
  v.positions = v.dist_token = init::normal(0.02);
  v.cls_token = v.reg_token = init::normal(1e-6);
  v.latent = init::truncated_normal(1 / std::sqrt(width));
  v.rep_kernel = init::lecun_normal();
  if (config.init == InitScheme::kTimm) {
    // The patch convolution keeps torch's own default, uniform in +-1 / sqrt(fan_in), bias included.
    v.patch_kernel = v.patch_bias = init::uniform(1 / std::sqrt(patch));
    v.qkv = v.kv = v.dense = init::normal(0.02);
    v.mlp_bias = init::zeros();
  } else {
    v.patch_kernel = init::lecun_normal();
    v.patch_bias = init::zeros();
    v.qkv = v.kv = v.dense = init::xavier_uniform();
    v.mlp_bias = init::normal(1e-6);
  }
  if (config.init == InitScheme::kBigVision) {
    v.positions = init::normal(1 / std::sqrt(width));
    v.cls_token = init::zeros();
    v.qkv = init::xavier_uniform(3);
    v.kv = init::xavier_uniform(2);
    v.latent = init::xavier_uniform();
  }
  v.head = config.head_zeros ? init::zeros() : init::normal(0.02);
  return v;
}

}  // namespace tessera::models
