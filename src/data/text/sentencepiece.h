#pragma once
// SentencePiece models (github.com/google/sentencepiece): unigram, BPE, word and character models.

#include "data/text/tokenizer.h"

namespace tessera::data {

// From the bytes of a .model file. Throws a data Error when they are none.
std::shared_ptr<const Tokenizer> make_sentencepiece(const std::string& path, std::string_view bytes, std::string_view where);

}  // namespace tessera::data
