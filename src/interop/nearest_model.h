#pragma once
// Which of the named models (families() in family.h) a file of timm's names holds.

#include <optional>
#include <string>

#include "models/weights.h"

namespace tessera::interop {

struct NearestModel {
  std::string family, variant;  // of a recipe's model section
  size_t same = 0, arrays = 0;  // of the variant's arrays, those that the file has with their shape (the classifier's: any)
};

// The variant that shares the most with the file (names and shapes, of all that either has); nothing where none shares half.
// Looks only at families whose first kernel the file has. Traces their variants: up to a second.
std::optional<NearestModel> nearest_model(const models::ArrayViews& file);

}  // namespace tessera::interop
