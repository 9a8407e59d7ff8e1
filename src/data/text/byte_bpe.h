#pragma once
// Byte-level BPE as of GPT-2 and CLIP, from the tokenizer.json of Hugging Face's tokenizers.

#include "data/text/tokenizer.h"

namespace tessera::data {

// From the bytes of a tokenizer.json: a BPE model over bytes, a normalizer and a pre-tokenizer of unicode_steps.h, and added
// tokens, which are found in texts as they stand (so "<|endoftext|>" in a text is that one id). What it adds around a text (its
// post-processor) is left out: bos and eos are the chain's. Throws a data Error for other kinds.
std::shared_ptr<const Tokenizer> make_byte_bpe(const std::string& path, std::string_view bytes, std::string_view where);

}  // namespace tessera::data
