#pragma once
// Few-shot classification by linear least squares on a model's features: big_vision's fewshot_lsr.

#include <cstdint>
#include <string>
#include <vector>

#include "metrics/features.h"

namespace tessera::metrics {

// Rows of `shots` examples of each class, drawn without replacement: classes in order, and of each class the first ones of an
// order that depends on the seed alone, so that more shots contain fewer. Throws a data Error at `where`, which names the class
// at `classes[c]`, when a class has too few.
std::vector<int64_t> draw_shots(const std::vector<int32_t>& labels, const std::vector<std::string>& classes, int64_t shots,
                                uint64_t seed, const std::string& where = {});

// The classes that the least-squares classifier of `train` gives `test`, of equal ones the lowest. Features are standardised
// with train's mean and standard deviation + 1e-5 and get one more feature, 100, that stands for a bias which is hardly
// regularised; targets are +1 for the class and -1 for the others; weights are (X'X + l2 I)^-1 X'Y, computed in f64.
std::vector<int32_t> least_squares_classes(const LabelledFeatures& train, const Features& test, int64_t classes,
                                           double l2 = 1024);

}  // namespace tessera::metrics
