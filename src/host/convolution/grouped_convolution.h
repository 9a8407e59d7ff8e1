#pragma once
// Convolutions in groups: channels and features are cut into as many equal parts, and each part of the features sees its part of the
// channels alone. Neighbouring groups are taken together as one dense convolution (convolution.h), whose kernel is zero between
// groups, so that vectors are full. Sums are f32, and do not depend on the number of threads.

#include "host/convolution/convolution.h"
#include "host/product.h"
#include "host/units/parallel_for.h"

namespace tessera::host {

// The kernel is [window, window, channels / groups, features]; `groups` divides channels and features.
struct GroupedConvolution {
  Convolution all;
  int64_t groups = 1;
};

// As the functions of convolution.h.
void grouped_convolution(const GroupedConvolution& c, const void* x, const void* kernel, void* y, const ParallelFor& parallel);
void grouped_convolution_input_gradient(const GroupedConvolution& c, const void* dy, const void* kernel, void* dx,
                                        const ParallelFor& parallel);
void grouped_convolution_kernel_gradient(const GroupedConvolution& c, const void* x, const void* dy, Destination dkernel,
                                         const ParallelFor& parallel);

}  // namespace tessera::host
