#include "inference/caption_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace tessera::inference {

std::vector<double> log_softmax(std::span<const float> logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - top);
  const double shift = top + std::log(sum);
  std::vector<double> out(logits.size());
  std::transform(logits.begin(), logits.end(), out.begin(), [&](float x) { return static_cast<double>(x) - shift; });
  return out;
}

std::vector<int32_t> nucleus(std::span<const float> logits, double top_p) {
  const std::vector<double> logp = log_softmax(logits);
  std::vector<double> falling = logp;
  std::sort(falling.begin(), falling.end(), std::greater<>());
  size_t last = 0;
  for (double sum = std::exp(falling[0]); sum < top_p && last + 1 < falling.size();) sum += std::exp(falling[++last]);
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < logp.size(); ++i) {
    if (logp[i] >= falling[last]) tokens.push_back(static_cast<int32_t>(i));
  }
  return tokens;
}

CaptionSearch::CaptionSearch(const SearchOptions& options, int64_t length, std::optional<int32_t> eos, uint64_t stream)
    : options_(options), length_(static_cast<size_t>(length)), eos_(eos), rng_(options.seed, stream) {
  TESSERA_CHECK(options.beams >= 1 && (options.beams == 1 || !options.top_p), "{} beams", options.beams);
}

void CaptionSearch::step(std::span<const float> logits) {
  TESSERA_CHECK(!done_ && logits.size() % static_cast<size_t>(options_.beams) == 0, "{} logits", logits.size());
  const size_t vocabulary = logits.size() / static_cast<size_t>(options_.beams);
  if (options_.beams > 1) return search(logits, vocabulary);
  const std::vector<double> logp = log_softmax(logits);
  const auto best = static_cast<int32_t>(std::max_element(logp.begin(), logp.end()) - logp.begin());
  const int32_t token = options_.top_p ? draw(logits) : best;
  extend(token, logp[static_cast<size_t>(token)]);
}

void CaptionSearch::extend(int32_t token, double log_probability) {
  live_[0].ids.push_back(token);
  live_[0].score += log_probability;
  tokens_ = {token}, parents_ = {0};
  done_ = token == eos_ || live_[0].ids.size() == length_;
}

int32_t CaptionSearch::draw(std::span<const float> logits) {
  const std::vector<int32_t> tokens = nucleus(logits, *options_.top_p);
  std::vector<double> weights;
  for (const int32_t token : tokens) weights.push_back(logits[static_cast<size_t>(token)] / options_.temperature);
  const double top = *std::max_element(weights.begin(), weights.end());
  for (double& weight : weights) weight = std::exp(weight - top);
  double left = rng_.uniform() * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    if ((left -= weights[i]) < 0) return tokens[i];
  }
  return tokens.back();
}

double CaptionSearch::penalised(double log_probability, size_t length) const {
  return log_probability / std::pow((5 + static_cast<double>(length)) / 6, options_.length_penalty);
}

namespace {

struct Continuation {
  double log_probability = 0;
  size_t parent = 0;
  int32_t token = 0;
};

// The `count` most likely continuations, the likeliest first.
std::vector<Continuation> best_of(const std::vector<CaptionTokens>& live, std::span<const float> logits, size_t vocabulary,
                                  size_t count) {
  std::vector<Continuation> all;
  for (size_t parent = 0; parent < live.size(); ++parent) {
    const std::vector<double> logp = log_softmax(logits.subspan(parent * vocabulary, vocabulary));
    for (size_t v = 0; v < vocabulary; ++v) all.push_back({live[parent].score + logp[v], parent, static_cast<int32_t>(v)});
  }
  count = std::min(count, all.size());
  const auto better = [](const Continuation& a, const Continuation& b) {
    if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
    return a.parent != b.parent ? a.parent < b.parent : a.token < b.token;
  };
  std::partial_sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(count), all.end(), better);
  all.resize(count);
  return all;
}

}  // namespace

void CaptionSearch::search(std::span<const float> logits, size_t vocabulary) {
  const auto beams = static_cast<size_t>(options_.beams);
  const std::vector<CaptionTokens> before = std::move(live_);
  live_.clear(), tokens_.clear(), parents_.clear();
  for (const Continuation& one : best_of(before, logits, vocabulary, 2 * beams)) {
    CaptionTokens grown{before[one.parent].ids, one.log_probability};
    grown.ids.push_back(one.token);
    if (one.token == eos_) {
      grown.score = penalised(grown.score, grown.ids.size());
      finished_.push_back(std::move(grown));
    } else if (live_.size() < beams) {
      live_.push_back(std::move(grown));
      tokens_.push_back(one.token);
      parents_.push_back(static_cast<int32_t>(one.parent));
    }
  }
  std::stable_sort(finished_.begin(), finished_.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
  finished_.resize(std::min(finished_.size(), beams));
  const bool full = finished_.size() == beams;
  done_ = before[0].ids.size() + 1 == length_ || live_.empty() ||
          (full && finished_.back().score > penalised(live_[0].score, length_));
}

std::vector<CaptionTokens> CaptionSearch::captions() const {
  if (!finished_.empty() || options_.beams == 1) return finished_.empty() ? live_ : finished_;
  std::vector<CaptionTokens> cut = live_;
  for (CaptionTokens& one : cut) one.score = penalised(one.score, one.ids.size());
  return cut;
}

}  // namespace tessera::inference
