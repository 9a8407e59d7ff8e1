#pragma once
// Tokenizers: text to the numbers of its pieces and back.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace tessera::data {

// All functions are thread-safe. Text is UTF-8; what is none becomes U+FFFD or, with byte-level pieces, stays as its bytes.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Ids are 0 <= id < vocabulary().
  virtual int64_t vocabulary() const = 0;
  // Beginning and end of a sentence; nothing where the vocabulary has none.
  virtual std::optional<int32_t> bos() const = 0;
  virtual std::optional<int32_t> eos() const = 0;
  // The id of a piece as the vocabulary spells it ("<pad>"), or nothing.
  virtual std::optional<int32_t> find(std::string_view piece) const = 0;
  // The piece as the vocabulary spells it, for people.
  virtual std::string piece(int32_t id) const = 0;
  // Appends the ids of `text`, without bos and eos.
  virtual void encode(std::string_view text, std::vector<int32_t>& ids) const = 0;
  // The text of pieces; marks of the vocabulary (bos, eos, padding) have none.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;

  const std::string& path() const { return path_; }
  // Of the file's bytes: the same for tokenizers that give the same ids.
  const Hash128& fingerprint() const { return fingerprint_; }

 protected:
  Tokenizer(std::string path, std::string_view bytes) : path_(std::move(path)), fingerprint_(hash128(bytes)) {}

 private:
  std::string path_;
  Hash128 fingerprint_;
};

// A SentencePiece model, a tokenizer.json of byte-level BPE, or fake(N) (fake_tokenizer.h). Throws a data Error at `where` (the
// recipe key) when the file is missing or of another kind.
std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& path, std::string_view where = {});

}  // namespace tessera::data
