#pragma once
// Learning rates that fastai's rules suggest for a curve of a learning-rate search: fastai/callback/schedule.py, functions
// valley, steep, minimum and slide, with their defaults.

#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tessera::optim {

// What each rule suggests; nothing where the curve is too short for it.
struct LrSuggestions {
  std::optional<double> valley;   // two thirds into the longest run of falling losses
  std::optional<double> steep;    // where the loss falls fastest over the logarithm of the rate
  std::optional<double> minimum;  // a tenth of the rate with the least loss
  std::optional<double> slide;    // left of the stretch at the end within which the slope stays about the same
  static constexpr const char* kNames[] = {"valley", "steep", "minimum", "slide"};
  // In the order of kNames.
  std::vector<std::optional<double>> values() const { return {valley, steep, minimum, slide}; }
};

// rates: rising, above 0; losses: as many, finite.
LrSuggestions suggest_rates(std::span<const double> rates, std::span<const double> losses);

// The losses of a search, smoothed as fastai's AvgSmoothLoss does: s_k = beta s_(k-1) + (1 - beta) loss_k from s_0 = 0, over
// 1 - beta^k.
class SmoothLoss {
 public:
  explicit SmoothLoss(double beta = 0.98) : beta_(beta) {}
  double add(double loss);

 private:
  double beta_, value_ = 0, weight_ = 1;
};

// The part of a search of `planned` steps that suggestions are made of, as fastai's lr_find takes it: without the first tenth of
// the planned steps and the last five of the `recorded`, up to the first loss that is no number. [first, last).
std::pair<size_t, size_t> used_range(std::span<const double> losses, size_t planned);

}  // namespace tessera::optim
