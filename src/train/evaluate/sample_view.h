#pragma once
// Samples of a data section as the model is given them, for people to look at.

#include <cstdint>
#include <string>

#include "image/image.h"
#include "recipe/data_options.h"

namespace tessera::train {

// Of one sample.
struct SampleView {
  std::string id;       // its name in the source: the path of a file
  std::string caption;  // its class or first text; may be empty
  image::Image pixels;  // what the chain makes of it, made smaller where a side is too long; empty where there is a problem
  std::string problem;  // why it can't be shown
};

class SampleViewer {
 public:
  // No side of a picture is longer than `side` pixels.
  SampleViewer(recipe::Data opened, int side);

  const recipe::Data& data() const { return data_; }
  // `key`: by which the chain draws. Throws what the source does.
  SampleView view(size_t set, int64_t index, data::SampleKey key);

 private:
  std::optional<std::string> fill(size_t set, int64_t index, const data::SampleKey& key, image::Image& pixels);

  recipe::Data data_;
  int side_;
  data::PpScratch scratch_;
  data::Sample sample_;
};

}  // namespace tessera::train
