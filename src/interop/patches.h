#pragma once
// Kernels of patch embeddings moved to another patch size (FlexiViT, Beyer et al. 2023, section 3.4): with B the matrix that
// resizes a patch, a kernel w becomes pinv(B^T) w, so that resized patches give the tokens that the old ones gave.

#include <cstdint>
#include <vector>

#include "interop/positions.h"

namespace tessera::interop {

// kernel [old_side, old_side, depth] -> [new_side, new_side, depth], row-major. B resizes, in both directions:
//   kBicubic   as torch's interpolate(mode="bicubic", antialias=True): timm's resample_patch_embed
//   kBilinear  as tf.image.resize(method="bilinear"), pixel centres at (i + 0.5), not widened: big_vision's resample_patchemb
std::vector<float> resample_patches(const std::vector<float>& kernel, int64_t old_side, int64_t new_side, int64_t depth,
                                    Resample how);

// kernel [pixels, 3, features] -> [pixels, channels, features] as timm's adapt_input_conv: the sum for one channel; else the
// three of RGB in turn, times 3 / channels.
std::vector<float> adapt_channels(const std::vector<float>& kernel, int64_t pixels, int64_t channels, int64_t features);

}  // namespace tessera::interop
