#pragma once
// Images and texts that find each other by the dot product of their features: big_vision's image_text_retrieval and
// discriminative_classifier.

#include <array>
#include <cstdint>
#include <vector>

#include "metrics/features.h"

namespace tessera::metrics {

inline constexpr std::array<int64_t, 3> kRecallAt = {1, 5, 10};

// Shares in [0, 1], at kRecallAt.
struct Recalls {
  std::array<double, 3> image_to_text{};  // images that find one of their own texts among the nearest k
  std::array<double, 3> text_to_image{};  // texts that find their image among the nearest k
};

// image_of[t]: the row of images that text t belongs to. Of equally near ones the first counts as nearer.
Recalls retrieval_recalls(const Features& images, const Features& texts, const std::vector<int64_t>& image_of);

// One row a class: the mean of its texts' features, scaled to length 1 (to length / (1e-8 + length), as the original). A class
// without a text is our mistake.
Features class_embeddings(const Features& texts, const std::vector<int32_t>& class_of_text, int64_t classes);

// For each image the class with the largest dot product, of equal ones the lowest.
std::vector<int32_t> nearest_classes(const Features& images, const Features& embeddings);

}  // namespace tessera::metrics
