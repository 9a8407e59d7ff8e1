#pragma once
// Convolutions of 3 x 3 windows that move by one, with fewer multiplications: 16 for each 2 x 2 results, where the definition takes
// 36. F(2 x 2, 3 x 3) of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015), whose names for matrices are
// used here. A tile is 4 x 4 pixels: what the windows of 2 x 2 places see.
//
// Sums are f32, of transformed numbers. Of normal numbers the error was 0.5 to 0.6 of that of sums by the definition, which have
// nine times as many terms (64 to 512 channels). Where a picture has a number that is not finite, or so large that four of them
// overflow, the other places of its tile see it too.

#include "host/convolution/convolution.h"
#include "host/units/parallel_for.h"

namespace tessera::host {

// Whether the convolution is one, of f32 numbers or of bf16 that this processor multiplies as f32, and large enough for that to be
// faster.
bool takes_winograd(const Convolution& c);

// As the functions of convolution.h.
void winograd(const Convolution& c, const void* x, Weights kernel, void* y, const ParallelFor& parallel, const NormAfter* norm);
int64_t packed_winograd_bytes(const Convolution& c);
void pack_winograd(const Convolution& c, const void* kernel, uint8_t* to, const ParallelFor& parallel);
void winograd_input_gradient(const Convolution& c, const void* dy, const void* kernel, void* dx, const ParallelFor& parallel);
void winograd_kernel_gradient(const Convolution& c, const void* x, const void* dy, Destination dkernel,
                              const ParallelFor& parallel);

}  // namespace tessera::host
