#pragma once
// Images of a run's data, as its model is given them.

#include <cstdint>
#include <string>
#include <vector>

#include "image/image.h"
#include "pages/report/run.h"

namespace tessera::report {

struct Picture {
  std::string id;       // its name in the source: the path of a file
  std::string caption;  // its class or first text; may be empty
  std::string uri;      // "data:image/png;base64,…"; empty where it can't be shown
  std::string problem;  // why
  image::Image pixels;  // as the model is given them, of 192 pixels a side at most
};

struct Pictures {
  std::vector<Picture> pictures;
  std::string chain;    // data.pp
  std::string problem;  // why there are none
  Picture
      mixed;  // of training, the first batch as the device mixed and erased it, side by side; without `uri` where it did not
};

// Images of the first epoch, augmented as in training: `count` of them, of a mixture's sets in turn. What the device does with
// them is shown of the first batch alone, by the file that the run left (train/workdir/first_batch.h).
Pictures training_pictures(const SavedRun& run, int64_t count);
// The pictures with the worst score of an evaluation, in its order.
Pictures worst_pictures(const SavedRun& run, const train::EvaluationSummary& evaluation);

// The pictures side by side, eight in a row, with a line of text below each: for a file of their own.
image::Image sheet_of(const Pictures& pictures, const std::vector<std::string>& lines);

}  // namespace tessera::report
