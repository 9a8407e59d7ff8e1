#pragma once
// How a recipe says the order of training samples: `data.shuffle`.
//   auto                                       full, or window where a source is slow to read at random (Source::stretches)
//   full                                       every epoch a permutation of all samples
//   window(samples=8192, lanes=64, stretch=128)  reads in a row: stretches in random order, shuffled inside windows
//   balanced(power=1)                          all classes equally often, or part of the way there (balanced_shuffle.h)

#include <memory>
#include <string>
#include <string_view>

#include "data/order/sample_order.h"
#include "data/source.h"

namespace tessera::data {

struct Shuffle {
  enum class Kind { kAuto, kFull, kWindow, kBalanced };
  Kind kind = Kind::kAuto;
  int64_t samples = 8192;  // of all lanes' windows together
  int64_t lanes = 64;      // at most; the largest divisor of the batch is taken
  int64_t stretch = 128;   // samples, for a source without stretches of its own
  double power = 1;        // of balanced
  int64_t repeats = 1;     // copies of each sample in a row (repeated.h); data.aug_repeats
};

// Throws a usage Error at `where`.
Shuffle parse_shuffle(std::string_view text, std::string_view where = {});

// One data set of a training run.
struct WeightedSource {
  std::shared_ptr<const Source> source;
  double weight = 1;
};

// The order of the sets' mixture. Lanes are one unless some set is shuffled in windows. A usage Error where a set has no classes
// to balance.
SampleOrder make_sample_order(const std::vector<WeightedSource>& sets, const Shuffle& shuffle, int64_t batch, uint64_t seed);

}  // namespace tessera::data
