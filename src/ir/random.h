#pragma once
// Randomness on the device as a function of (key, position): Threefry-2x32, 20 rounds (Salmon et al., SC'11), written in
// elementwise ops over an iota. The numbers do not depend on mesh, device or compiler, which stablehlo.rng_bit_generator does
// not promise. A key is u32[2].

#include <string_view>

#include "ir/ops.h"

namespace tessera::ir {

Value make_key(uint64_t seed);                    // a constant
Value fold_in(Value key, uint64_t data);          // a new key from a key and a number known while tracing
Value fold_in(Value key, std::string_view name);  // … from a name
Value fold_in(Value key, Value counter);          // … from an integer scalar on the device (a step, a layer index)

// `first_row`: a u32 scalar, where the array is rows of a longer one: the number of the first of them. None is 0.
Value random_bits(Value key, const Dims& dims, Value first_row = {});  // u32
Value random_uniform(Value key, const Dims& dims, double low = 0, double high = 1,
                     Value first_row = {});                              // f32 in [low, high), 24 random bits
Value random_normal(Value key, const Dims& dims, Value first_row = {});  // f32, by erf_inv
// Standard normal cut to [low, high] (in standard deviations), f32, not rescaled: as torch's trunc_normal_ and JAX's
// truncated_normal.
Value random_truncated_normal(Value key, const Dims& dims, double low = -2, double high = 2);
Value erf_inv(Value x);                                                                  // f32 polynomial (Giles 2010), |x| < 1
Value bernoulli(Value key, double probability, const Dims& dims, Value first_row = {});  // bool

}  // namespace tessera::ir
