#pragma once
// A search for a learning rate: a few training steps under a rate that grows exponentially, as fastai's lr_find. Nothing of it
// is written, and no run is touched.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/section.h"
#include "optim/schedule/lr_suggestions.h"
#include "train/process/device.h"

namespace tessera::train {

struct LrFindOptions {
  double from = 1e-7, to = 10;  // the rate of step s of `steps` is from (to / from)^(s / steps)
  int64_t steps = 100;
  int64_t seeds = 1;  // searches, with the recipe's seed, the one after it, …: initial weights and the order of the data
  DeviceOptions device = {};
  // Told after each step.
  std::function<void(int64_t search, int64_t step)> progress = {};
};

// The schedule to put in place of the recipe's `optimizer.lr`.
std::string ramp_schedule(const LrFindOptions& options);

struct LrPoint {
  double rate = 0;
  double loss = 0, smooth = 0;  // of the batch, before its update; and smoothed (optim::SmoothLoss)
};

enum class LrSearchEnd {
  kWhole,      // all steps were made
  kDiverged,   // the smoothed loss rose above four times the least so far
  kNotFinite,  // the loss became no number, after the last point
};

struct LrSearch {
  int64_t seed = 0;
  std::vector<LrPoint> points;
  LrSearchEnd end = LrSearchEnd::kWhole;
  optim::LrSuggestions suggestions;
  // How far the smoothed loss fell in the part that suggestions are made of, relative to its beginning: 0.3 is 30 %.
  double fall = 0;
};

struct LrFindResult {
  std::vector<LrSearch> searches;
  optim::LrSuggestions median;  // over the searches that have one; of two in the middle their geometric mean
  std::string model, data;      // for people
  int64_t batch = 0;
  double compile_seconds = 0;  // of the one program for all searches
  bool cached = false;
};

// `recipe` has ramp_schedule() as its optimizer.lr. One program serves all steps and all seeds: the rate is a function of the
// step in the state. Throws what reading the recipe and the device throw.
LrFindResult find_learning_rate(config::Section recipe, const LrFindOptions& options);

}  // namespace tessera::train
