#pragma once
// The caption of one image, written token after token: which tokens follow, given the model's logits. On the host, in double
// precision; of equal choices the first counts.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/rng.h"

namespace tessera::inference {

// How captions are written: greedily, where nothing else is asked for.
struct SearchOptions {
  // Above 1: a search over so many captions at once, as flax's and T5X's beam_search (flax/examples/wmt/decode.py). Of all
  // continuations of the live captions the 2 * beams most likely are looked at. Those that end are finished, and the best
  // `beams` of them are kept; of the others `beams` live on. A finished caption's score is its log probability /
  // ((5 + length) / 6) ^ length_penalty, its end mark counted in the length (Wu et al. 2016). It is over when no live caption can
  // come to a better score than the worst finished one, or at the full length; then live captions count where none has finished.
  int64_t beams = 1;
  double length_penalty = 0.6;
  // In (0, 1]: tokens are drawn, of the most likely ones whose probabilities sum to top_p at least (Holtzman et al. 2020; as
  // big_vision's nucleus_sampling: the share is of the model's own probabilities, the draw of those at `temperature`).
  std::optional<double> top_p;
  double temperature = 1;
  uint64_t seed = 0;
  bool operator==(const SearchOptions&) const = default;
};

struct CaptionTokens {
  std::vector<int32_t> ids;  // with the end mark, where it has one
  double score = 0;          // log probability, of a search over beams divided as above
};

class CaptionSearch {
 public:
  // `length`: of the longest caption. `eos`: the id that ends one; without one all have the full length. `stream` names the image
  // among the draws of a seed.
  CaptionSearch(const SearchOptions& options, int64_t length, std::optional<int32_t> eos, uint64_t stream = 0);

  bool done() const { return done_; }
  // The logits of the next token of each live caption, [beams][vocabulary]; a search that has fewer live ones reads as many.
  void step(std::span<const float> logits);
  // For each live caption: its last token, and the live caption of the step before that it continues.
  const std::vector<int32_t>& tokens() const { return tokens_; }
  const std::vector<int32_t>& parents() const { return parents_; }
  // The captions, the best first: one, or as many as finished.
  std::vector<CaptionTokens> captions() const;

 private:
  void extend(int32_t token, double log_probability);
  void search(std::span<const float> logits, size_t vocabulary);
  double penalised(double log_probability, size_t length) const;
  int32_t draw(std::span<const float> logits);

  SearchOptions options_;
  size_t length_;
  std::optional<int32_t> eos_;
  Rng rng_;
  bool done_ = false;
  std::vector<CaptionTokens> live_{CaptionTokens{}}, finished_;  // finished: the best first
  std::vector<int32_t> tokens_, parents_;
};

// Log probabilities of logits.
std::vector<double> log_softmax(std::span<const float> logits);
// The tokens that a draw with top_p may take, in the order of their ids.
std::vector<int32_t> nucleus(std::span<const float> logits, double top_p);

}  // namespace tessera::inference
