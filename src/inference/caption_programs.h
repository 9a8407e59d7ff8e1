#pragma once
// The programs that write captions, as StableHLO text. `rows` captions are written at once: as many of each image of a batch, side
// by side. One program begins and one is run for every token.

#include "models/image_text/captioner.h"
#include "train/step/program.h"

namespace tessera::inference {

struct CaptionPrograms {
  train::Program begin, next;
};

// With a cache (models::DecoderCache), whose captions' part is donated from token to token:
//   begin  (params…, images u8 [batch, H, W, 3]) -> image keys, image values, keys, values
//   next   (params…, the four, previous i32 [rows], parents i32 [rows], position i32 []) -> keys, values, logits f32 [rows, vocabulary]
// Row r continues what row parents[r] wrote; where there is one row an image, parents is left out. TensorTypes of the four are those
// of `begin`'s results.
CaptionPrograms caption_programs(const models::Captioner& model, const state::StateLayout& layout,
                                 const train::ProgramOptions& options, int64_t rows);

// Without a cache: every token from the whole caption, for comparison.
//   begin  (params…, images) -> encoded
//   next   (params…, encoded, captions i32 [rows, tokens], position i32 []) -> logits f32 [rows, vocabulary]
CaptionPrograms plain_caption_programs(const models::Captioner& model, const state::StateLayout& layout,
                                       const train::ProgramOptions& options, int64_t rows);

}  // namespace tessera::inference
