#pragma once

#include <optional>

#include "models/model.h"
#include "nn/blocks/attention.h"

namespace tessera::models {

// How captions are predicted where it is not token after token: rows of a batch whose tokens are all predicted at once, from
// the image and from those of their tokens that are not hidden.
struct ParallelPrediction {
  ir::Value rows;    // bool [rows]: the others are predicted token after token
  ir::Value hidden;  // bool [rows, tokens]: of a row that is predicted at once
};

// What the decoder keeps while it writes captions, arrays of every block stacked: keys and values of the images' tokens, [depth,
// batch, image tokens, heads, width], and of the captions' tokens so far, [depth, rows, tokens, heads, width].
struct DecoderCache {
  nn::KeysValues images, captions;
};

// A model that writes captions: an encoder of images and a decoder that attends to its tokens.
class Captioner : public Model {
 public:
  const Captioner* captioner() const final { return this; }
  // images [batch, height, width, channels] as in features() -> [batch, image tokens, width].
  virtual ir::Value encode(const nn::Scope& scope, ir::Value images) const = 0;
  // The logits of every token of captions: i32 [rows, input().tokens] -> f32 [rows, tokens, vocabulary]. A row's token i is
  // predicted from its tokens before i, or as `parallel` says. `rows` is a multiple of the encoded batch: neighbouring captions
  // are of the same image.
  virtual ir::Value decode(const nn::Scope& scope, ir::Value encoded, ir::Value captions,
                           const std::optional<ParallelPrediction>& parallel = {}) const = 0;
  // What writing begins with: `rows` captions without a token, of the encoded images as in decode().
  virtual DecoderCache begin(const nn::Scope& scope, ir::Value encoded, int64_t rows) const = 0;
  // The logits of the captions' tokens at `position`, an i32 scalar, from their tokens before: f32 [rows, vocabulary], equal to
  // decode()'s but for rounding. `previous`, i32 [rows], are the tokens at position - 1, and at 0 not looked at; `cache` holds
  // those before, and gets these.
  virtual ir::Value next(const nn::Scope& scope, DecoderCache& cache, ir::Value previous, ir::Value position) const = 0;
  // What training draws for so many captions (scope.random()); nothing where every caption goes token after token.
  virtual std::optional<ParallelPrediction> draw_parallel(const nn::Scope& scope, int64_t rows) const = 0;
  // Whether it may be asked to predict in parallel.
  virtual bool has_parallel() const = 0;

  ir::Value trace(const nn::Scope& scope) const override;
};

}  // namespace tessera::models
