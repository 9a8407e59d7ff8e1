#pragma once
// <workdir>/first_batch.png: the first images of training as the model is given them, where the device mixes or erases them, side
// by side (image::tiled). Other runs have none: what the host makes of an image says it all.

#include "image/image.h"
#include "train/workdir/workdir.h"

namespace tessera::train {

inline constexpr const char* kFirstBatch = "first_batch.png";

// Where it can't be written, a warning says so.
void write_first_batch(const Workdir& workdir, const image::Image& sheet);

}  // namespace tessera::train
