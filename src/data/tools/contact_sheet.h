#pragma once
// `tessera data show`: a grid of samples as the model will see them, each with its class name or first text below.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/source.h"
#include "data/transform/pp.h"

namespace tessera::data {

// One sample of a sheet; borrowed, for the time of the call.
struct ShownSample {
  int64_t index = 0;  // in the source
  SampleKey key;      // of its draws
  const Sample* sample = nullptr;
  const PpTrace* trace = nullptr;
  std::vector<image::Box> erased;    // in pixels of the result
  std::optional<std::string> error;  // why it cannot be read or decoded; there is no trace then
};

struct ContactSheetOptions {
  int64_t count = 32;
  int columns = 8;
  uint64_t seed = 0;
  int64_t start = 0;     // first position in the training order (order.h)
  bool shuffled = true;  // false: the source's order, as in an evaluation
  // Each image beside the picture it was made of, which has a frame round the part that was taken; what the device will erase
  // is framed in the image.
  bool before = false;
  std::function<void(const ShownSample&)> shown;  // told of each sample, in order
};

// Images smaller than 96 pixels are enlarged by a whole number. A file that cannot be read is a grey square with a cross.
image::Image contact_sheet(const Source& source, const Pp& pp, const ContactSheetOptions& options);

}  // namespace tessera::data
