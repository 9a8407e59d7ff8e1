#pragma once
// The table by which a SentencePiece model normalises texts. The library follows it without looking where it leads, so a table
// of a hostile model is read past its end.

#include <string_view>

namespace tessera::data {

// True where every way through the table of a serialised model (normalizer_spec.precompiled_charsmap, a double-array trie and
// the texts it names) stays inside it, and where there is none. False too where the bytes are no such model.
bool charsmaps_are_sound(std::string_view model);

}  // namespace tessera::data
