#pragma once
// Test-time augmentation: an image is shown several times, each time changed, and the logits are averaged.

#include <string>

#include "config/section.h"
#include "ir/graph.h"
#include "models/model.h"
#include "nn/scope.h"

namespace tessera::evaluators {

enum class Tta { kNone, kFlip };  // kFlip: as it is, and mirrored left to right

inline constexpr const char* kTtaHelp =
    "test-time augmentation: none, or flip, the mean of the logits of an image and its mirror image";

// The one that the key `tta` of `section` names; a usage Error for another word.
Tta read_tta(const config::Section& section, const std::string& text);

// A classifier's logits [B, classes] for images [B, H, W, C].
ir::Value averaged_logits(const models::Model& model, const nn::Scope& scope, ir::Value images, Tta tta);

}  // namespace tessera::evaluators
