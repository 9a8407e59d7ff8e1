#include "data/text/tokenizer.h"

#include "base/error.h"
#include "base/text/text.h"
#include "data/text/byte_bpe.h"
#include "data/text/fake_tokenizer.h"
#include "data/text/sentencepiece.h"
#include "store/file.h"
#include "store/servers/buckets.h"
#include "store/small_file.h"

namespace tessera::data {

std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& path, std::string_view where) {
  if (path.starts_with("fake(")) return make_fake_tokenizer(path, where);
  std::string bytes;
  try {
    bytes = store::read_small_file(store::files_at(path), path, store::kMaxTokenizerFile);
  } catch (const Error& error) {
    throw data_error(fmt::format("the tokenizer's model cannot be read: {}", error.message()), std::string(where),
                     "`tessera data tokenizer` makes a SentencePiece model from a source's texts");
  }
  return trim(bytes).starts_with('{') ? make_byte_bpe(path, bytes, where) : make_sentencepiece(path, bytes, where);
}

}  // namespace tessera::data
