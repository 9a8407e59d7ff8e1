#pragma once
// The order in which arrays of devices and processes are added up: neighbours in pairs, then neighbouring pairs, and so on,
// ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)). Of a number that is no power of two the last ones wait for a partner: (0 + 1) + 2.
// Aligned runs of 2^k arrays are sums of their own in it. So it does not matter which of them are added up in one process.

#include <cstddef>
#include <span>

namespace tessera::group {

// out[i] = the sum of parts[…][i]. At least one part; all are as long as `out`, which may be one of them.
void pairwise_sum(std::span<const float* const> parts, std::span<float> out);

}  // namespace tessera::group
