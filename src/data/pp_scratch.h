#pragma once
// The inside of a PpScratch.

#include <array>
#include <chrono>

#include "data/augment/plan.h"
#include "data/pp.h"
#include "data/resize.h"
#include "data/tensorflow_resize.h"

namespace tessera::data {

struct PpScratch::State {
  Decoder decoder;
  Resizer resizer;
  TensorflowResizer tensorflow_resizer;
  Image decoded;
  std::array<Image, 2> images;  // between two resizes
  Canvas canvas;                // of ops that change pixels
  AugmentPlan plan;
};

// Adds the time until its end to `seconds`.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds), start_(std::chrono::steady_clock::now()) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace tessera::data
