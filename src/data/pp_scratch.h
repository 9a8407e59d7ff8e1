#pragma once
// The inside of a PpScratch.

#include <array>

#include "data/pp.h"
#include "data/resize.h"

namespace tessera::data {

struct PpScratch::State {
  Decoder decoder;
  Resizer resizer;
  Image decoded;
  std::array<Image, 2> images;  // between two resizes
};

}  // namespace tessera::data
