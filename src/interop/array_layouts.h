#pragma once
// How one layer's arrays lie in other libraries' files: flax's (big_vision) and Hugging Face's, against timm's.
//
//   form      timm's                  theirs
//   kArray    the array itself        the same
//   kSame     .weight .bias           the same
//   kNorm     .weight .bias           /scale /bias
//   kDense    .weight [out, in]       /kernel [in, out]
//   kHeads    .weight [out, in]       /kernel [in, H, out / H], /bias [H, out / H]: queries, keys, values of H heads
//   kOut      .weight [out, in]       /kernel [H, in / H, out]: what puts heads together
//   kPatches  .weight [D, C, P, P]    /kernel [P, P, C, D]

#include <span>
#include <string>

#include "models/weights.h"

namespace tessera::interop {

enum class Form { kArray, kSame, kNorm, kDense, kHeads, kOut, kPatches };

// What an array of a layer is called behind the layer's name.
struct Leaf {
  const char *timm, *theirs;
  bool weight;  // else a bias
};
std::span<const Leaf> leaves(Form form);

// How many dimensions their array has; 0: whatever timm's has.
size_t library_rank(Form form, const Leaf& leaf);

// f32 arrays of that rank, in the other layout; to_timm_layout also takes one without its data, for the type alone.
models::Array to_timm_layout(models::Array theirs, Form form, const Leaf& leaf);
models::Array from_timm_layout(models::Array timms, Form form, const Leaf& leaf, int64_t heads);

// The parts one below the other (along the first dimension), and back: `count` equal ones.
models::Array join_rows(const std::vector<models::Array>& parts);
std::vector<models::Array> split_rows(const models::Array& whole, size_t count);

}  // namespace tessera::interop
