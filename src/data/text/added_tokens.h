#pragma once
// The tokens of a tokenizer that stand for themselves wherever they occur in a text.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tessera::data {

class AddedTokens {
 public:
  static constexpr size_t kMaxBytes = 256;  // of a token

  // Of two tokens with the same content the first counts. The content has 1 to kMaxBytes bytes.
  void add(std::string_view content, int32_t id);

  struct Found {
    size_t begin = 0, end = 0;  // in the text
    int32_t id = 0;
  };
  // The first token in `text` from `from` on, the longest where several begin. `end` is 0 where there is none; `begin` is then
  // the end of the text. Takes time with the text's length alone, however many tokens there are.
  Found find(std::string_view text, size_t from) const;

 private:
  static constexpr int32_t kNone = -1;
  static uint64_t edge(size_t node, char byte) { return static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(byte); }

  // A tree of bytes: (node, byte) -> node, and the token that ends at each node.
  std::unordered_map<uint64_t, size_t> edges_;
  std::unordered_map<size_t, int32_t> ids_;
  size_t nodes_ = 1;
};

}  // namespace tessera::data
