#pragma once
// Numbers of each class, by which a loss weighs what errors on it cost.

#include <vector>

#include "config/section.h"
#include "ir/graph.h"
#include "objectives/batch.h"

namespace tessera::objectives {

inline constexpr const char* kClassWeightsHelp =
    "of each class: a list of numbers; a JSON file with such a list or {\"class\": number}; or balanced, scikit-learn's "
    "n / (classes * count)";

// class_weights of `section`: as they are written, of a JSON file (a list in the order of the classes, or an object by their
// names), or balanced: n / (classes * count), n all labels of the training data and count those of the class, as scikit-learn's
// compute_class_weight. Usage Errors for a list of another length, a number below 0 or a class without a number; data Errors
// for a class without examples, and where nobody can tell how many there are.
std::vector<float> read_class_weights(const config::Section& section, const config::NumbersOrText& value,
                                      const DataInputs& available);

// pos_weight: the same, but that one number is of every class, numbers must be above 0, and balanced is (n - count) / count, n
// the number of images, as the documentation of torch's BCEWithLogitsLoss has it.
std::vector<float> read_pos_weight(const config::Section& section, const config::NumbersOrText& value,
                                   const DataInputs& available);

// As a constant of the graph, f32 [1, classes].
ir::Value row_of(const std::vector<float>& numbers);

}  // namespace tessera::objectives
