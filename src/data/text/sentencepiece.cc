#include "data/text/sentencepiece.h"

#include <sentencepiece_processor.h>

#include "base/error.h"
#include "data/text/charsmap.h"

namespace tessera::data {
namespace {

class SentencePiece final : public Tokenizer {
 public:
  SentencePiece(const std::string& path, std::string_view bytes, std::string_view where) : Tokenizer(path, bytes) {
    const bool sound = charsmaps_are_sound(bytes);
    if (!sound || !processor_.LoadFromSerializedProto(bytes).ok() || processor_.GetPieceSize() < 1) {
      throw data_error(fmt::format("`{}` is no SentencePiece model", path), std::string(where),
                       "`tessera data tokenizer` makes one from a source's texts");
    }
  }
  int64_t vocabulary() const override { return processor_.GetPieceSize(); }
  std::optional<int32_t> bos() const override { return known(processor_.bos_id()); }
  std::optional<int32_t> eos() const override { return known(processor_.eos_id()); }
  std::optional<int32_t> find(std::string_view piece) const override {
    const int id = processor_.PieceToId(piece);
    return processor_.IdToPiece(id) == piece ? known(id) : std::nullopt;
  }
  std::string piece(int32_t id) const override { return processor_.IdToPiece(id); }
  void encode(std::string_view text, std::vector<int32_t>& ids) const override {
    std::vector<int> found;
    TESSERA_CHECK(processor_.Encode(text, &found).ok());
    ids.insert(ids.end(), found.begin(), found.end());
  }
  std::string decode(std::span<const int32_t> ids) const override {
    std::string text;
    TESSERA_CHECK(processor_.Decode(std::vector<int>(ids.begin(), ids.end()), &text).ok());
    return text;
  }

 private:
  // The library says -1 for what the model lacks.
  static std::optional<int32_t> known(int id) { return id < 0 ? std::nullopt : std::optional<int32_t>(id); }
  sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace

std::shared_ptr<const Tokenizer> make_sentencepiece(const std::string& path, std::string_view bytes, std::string_view where) {
  return std::make_shared<SentencePiece>(path, bytes, where);
}

}  // namespace tessera::data
