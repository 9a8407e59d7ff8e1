#pragma once
// A text as a row of a fixed number of ids: what big_vision's op `tokenize` does (big_vision/pp/ops_text.py).

#include "data/text/tokenizer.h"

namespace tessera::data {

// Whether the end of the sentence is written after a text that fits, and of one that is too long:
//   kNo: never   kYes: cut off with the rest   kSticky: kept, in the last place
enum class Eos { kNo, kYes, kSticky };

struct TextEncoderOptions {
  int64_t length = 0;  // ids of a row
  Eos eos = Eos::kSticky;
  bool bos = false;
  bool lower = true;  // A-Z to a-z first, as TensorFlow lowers: other letters stay
  int32_t pad = 0;    // fills rows up
};

class TextEncoder {
 public:
  // The tokenizer must have the bos and eos that the options ask for.
  TextEncoder(std::shared_ptr<const Tokenizer> tokenizer, const TextEncoderOptions& options);
  // Writes options().length ids. False when the text has more, and was cut.
  bool encode(std::string_view text, int32_t* ids) const;
  // The text of a row's ids up to the end of the sentence or, where it has none, the padding.
  std::string decode(std::span<const int32_t> ids) const;

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const TextEncoderOptions& options() const { return options_; }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  TextEncoderOptions options_;
};

// A-Z to a-z, all else as it is.
std::string ascii_lower(std::string_view text);

}  // namespace tessera::data
