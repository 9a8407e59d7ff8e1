#pragma once

#include "data/text/tokenizer.h"

namespace tessera::data {

// fake(N): a tokenizer without a model, for measuring: N ids, `<pad>` 0, `</s>` 1, every word one of the others by its hash.
std::shared_ptr<const Tokenizer> make_fake_tokenizer(const std::string& call, std::string_view where);

}  // namespace tessera::data
