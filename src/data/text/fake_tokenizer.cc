#include "data/text/fake_tokenizer.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text/call.h"
#include "base/text/text.h"

namespace tessera::data {
namespace {

constexpr int32_t kPad = 0, kEos = 1, kFirstWord = 2;

class FakeTokenizer final : public Tokenizer {
 public:
  FakeTokenizer(const std::string& call, int64_t vocabulary) : Tokenizer(call, call), vocabulary_(vocabulary) {}
  int64_t vocabulary() const override { return vocabulary_; }
  std::optional<int32_t> bos() const override { return std::nullopt; }
  std::optional<int32_t> eos() const override { return kEos; }
  std::optional<int32_t> find(std::string_view piece) const override {
    if (piece == "<pad>") return kPad;
    return piece == "</s>" ? std::optional(kEos) : std::nullopt;
  }
  std::string piece(int32_t id) const override {
    if (id < kFirstWord) return id == kPad ? "<pad>" : "</s>";
    return fmt::format("#{}", id);
  }
  void encode(std::string_view text, std::vector<int32_t>& ids) const override {
    const auto others = static_cast<uint64_t>(vocabulary_ - kFirstWord);
    for (const std::string& word : split(text, ' ')) {
      if (!word.empty()) ids.push_back(static_cast<int32_t>(hash128(word).low % others) + kFirstWord);
    }
  }
  std::string decode(std::span<const int32_t> ids) const override {
    std::vector<std::string> words;
    for (const int32_t id : ids) {
      if (id >= kFirstWord) words.push_back(piece(id));
    }
    return join(words, " ");
  }

 private:
  int64_t vocabulary_;
};

}  // namespace

std::shared_ptr<const Tokenizer> make_fake_tokenizer(const std::string& text, std::string_view where) {
  const Call call = parse_call(text, where);
  CallReader reader(call, where);
  const int64_t vocabulary = reader.integer("vocabulary");
  reader.finish();
  if (vocabulary < kFirstWord + 1 || vocabulary > INT32_MAX) {
    reader.fail(fmt::format("a vocabulary of {}", vocabulary), "3 ids or more");
  }
  return std::make_shared<FakeTokenizer>(text, vocabulary);
}

}  // namespace tessera::data
