#pragma once
// Makes SentencePiece models from texts.

#include <functional>
#include <optional>
#include <string>

namespace tessera::data {

struct SentencePieceTraining {
  int64_t vocabulary = 1000;     // at most: few texts give fewer pieces
  std::string kind = "unigram";  // unigram, bpe, char or word, as SentencePiece's model_type
  bool byte_fallback = false;    // bytes as pieces for what is in no other
};

// `next` gives text after text, and nothing at the end. The model has <pad> 0, </s> 1, <unk> 2 and no <s>, as T5's and CapPa's.
// The same texts give the same bytes. Throws a usage Error in SentencePiece's words for what it cannot do.
std::string train_sentencepiece(const SentencePieceTraining& training, const std::function<std::optional<std::string>()>& next);

}  // namespace tessera::data
