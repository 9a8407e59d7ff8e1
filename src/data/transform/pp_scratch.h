#pragma once
// The inside of a PpScratch.

#include <array>
#include <chrono>

#include "base/system/spans.h"
#include "data/transform/pp.h"
#include "image/augment/plan.h"
#include "image/resize/resize.h"
#include "image/resize/tensorflow_resize.h"

namespace tessera::data {

struct PpScratch::State {
  image::Decoder decoder;
  image::Resizer resizer;
  image::TensorflowResizer tensorflow_resizer;
  image::Image decoded;
  std::array<image::Image, 2> images;  // between two resizes
  image::Canvas canvas;                // of ops that change pixels
  image::AugmentPlan plan;
};

// Adds the time until its end to `seconds`; in a profile it is the stage of that name.
class Stopwatch {
 public:
  Stopwatch(double& seconds, const char* stage)
      : span_(SpanKind::kInput, stage), seconds_(seconds), start_(std::chrono::steady_clock::now()) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  Span span_;
  double& seconds_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace tessera::data
