#pragma once
// Histograms of arrays, counted on the device.

#include <string>
#include <vector>

#include "ir/ops.h"
#include "monitor/record.h"
#include "optim/optimizer.h"
#include "state/state.h"

namespace tessera::train {

inline constexpr int64_t kHistogramParts = 30;  // TensorFlow 2's
// Least, greatest, sum, sum of squares; then for each part but the last how many numbers lie below its end.
inline constexpr int64_t kHistogramColumns = 4 + kHistogramParts - 1;

// [1, kHistogramColumns] f32 of an array, f32. Of more than 2^24 numbers a count may be off by one in 2^24.
ir::Value histogram_row(ir::Value x);

// What the rows of histogram_program (train/step/step.h) say: params/<name>, updates/<name>, gradients/<name> of each trained
// parameter.
std::vector<monitor::Histogram> read_histograms(const state::StateLayout& layout, const optim::Optimizer& optimizer,
                                                const std::vector<float>& rows);

}  // namespace tessera::train
