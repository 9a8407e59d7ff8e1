#pragma once
// Test-time augmentation: an image is shown several times, each time changed, and the logits are averaged.

#include <cstdint>
#include <string>
#include <vector>

#include "config/section.h"
#include "ir/graph.h"
#include "models/model.h"
#include "nn/scope.h"

namespace tessera::evaluators {

// kFlip: as it is, and mirrored left to right. kFiveCrops and kTenCrops: torchvision's FiveCrop and TenCrop, of the model's size out
// of a larger image.
enum class Tta { kNone, kFlip, kFiveCrops, kTenCrops };

inline constexpr const char* kTtaHelp =
    "test-time augmentation, the mean of the logits of several views: none; flip, an image and its mirror image; five_crops, "
    "the "
    "corners and the centre of images that data.pp makes larger than the model's; ten_crops, these and their mirror images";

inline bool cuts_crops(Tta tta) { return tta == Tta::kFiveCrops || tta == Tta::kTenCrops; }

// A part of an image that the model sees.
struct View {
  int64_t top = 0, left = 0;
  bool mirrored = false;  // left to right, after it is cut
  bool operator==(const View&) const = default;
};
// Of images of so many rows and columns, for a model that takes `rows` x `columns`; in torchvision's order.
std::vector<View> tta_views(Tta tta, int64_t height, int64_t width, int64_t rows, int64_t columns);

// The one that the key `tta` of `section` names; a usage Error for another word.
Tta read_tta(const config::Section& section, const std::string& text);

// A classifier's logits [B, classes] for images [B, H, W, C]. Without crops these are of the model's size.
ir::Value averaged_logits(const models::Model& model, const nn::Scope& scope, ir::Value images, Tta tta);

}  // namespace tessera::evaluators
