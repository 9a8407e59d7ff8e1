#pragma once
// Several right classes an image: "Are we done with ImageNet?" (Beyer et al. 2020).

#include <cstdint>
#include <string>
#include <vector>

#include "evaluators/evaluator.h"

namespace tessera::evaluators {

// The right classes of each sample of the source; none where an image does not count. The file is JSON:
//   [[classes], …]          of images ILSVRC2012_val_00000001, 2, …, where samples are named so (real.json of google-research/
//                           reassessed-imagenet); else of the samples in order: as many as there are
//   {"name": [classes], …}  by the last part of a sample's name; samples that it does not name don't count
// Usage Errors at `real` of the section for a file that is neither, for classes that are none of the data's and for a file that
// names no sample.
std::vector<std::vector<int32_t>> read_real_labels(const std::string& path, const config::Section& section,
                                                   const EvaluatorData& available);

}  // namespace tessera::evaluators
