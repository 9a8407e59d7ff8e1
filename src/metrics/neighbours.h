#pragma once
// Classification by the k nearest neighbours among training features.

#include <cstdint>
#include <vector>

#include "metrics/features.h"

namespace tessera::metrics {

struct NeighbourOptions {
  int64_t k = 20;
  // Neighbours vote with exp(cosine similarity / temperature), as in DINO's evaluation; 0: each with 1.
  double temperature = 0.07;
};

// The class with the most votes of each test row's k nearest training rows by cosine similarity; of equal votes the lowest
// class, of equally near rows the first. k is cut at the number of training rows. Similarities are f32, votes f64.
std::vector<int32_t> neighbour_classes(const LabelledFeatures& train, const Features& test, int64_t classes,
                                       const NeighbourOptions& options);

}  // namespace tessera::metrics
