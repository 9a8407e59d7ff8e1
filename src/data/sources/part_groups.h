#pragma once
// Samples that belong together (photographs of one patient, frames of one film) and have to lie in one part of a source.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/source.h"

namespace tessera::data {

struct Groups {
  std::vector<int32_t> of_samples;  // numbers from 0
  std::vector<std::string> names;
};

// `by` is a column of the table that lists the samples (csv, jsonl), or a pattern (RE2) that matches whole names of samples and
// has the group's name in its first parentheses. Throws a usage Error for another `by`, and a data Error that names a sample
// which has no group; `where` is the recipe key.
Groups read_groups(const Source& source, const std::string& by, std::string_view where);

// Spreads groups over parts so that each class lies in them by the parts' shares (which add up to 1), as nearly as whole groups
// can: scikit-learn's StratifiedGroupKFold, for parts that may differ in size. From the groups whose samples are of the fewest
// classes on, each goes where the shares of classes then differ least from part to part. Groups that are alike in that are
// ordered by a hash of their names and `seed`. labels: of the samples, below `classes`; negative, or none at all: without a class.
// Returns the part of each group.
std::vector<size_t> spread_groups(const Groups& groups, std::span<const int32_t> labels, size_t classes,
                                  std::span<const double> shares, int64_t seed);

}  // namespace tessera::data
