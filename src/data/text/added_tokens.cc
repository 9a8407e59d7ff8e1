#include "data/text/added_tokens.h"

#include "base/error.h"

namespace tessera::data {

void AddedTokens::add(std::string_view content, int32_t id) {
  TESSERA_CHECK(!content.empty() && content.size() <= kMaxBytes);
  size_t node = 0;
  for (const char byte : content) {
    const auto [place, is_new] = edges_.try_emplace(edge(node, byte), nodes_);
    if (is_new) ++nodes_;
    node = place->second;
  }
  ids_.try_emplace(node, id);
}

AddedTokens::Found AddedTokens::find(std::string_view text, size_t from) const {
  if (ids_.empty()) return {text.size(), 0, 0};
  for (size_t begin = from; begin < text.size(); ++begin) {
    Found found;
    size_t node = 0;
    for (size_t at = begin; at < text.size(); ++at) {
      const auto next = edges_.find(edge(node, text[at]));
      if (next == edges_.end()) break;
      node = next->second;
      if (const auto id = ids_.find(node); id != ids_.end()) found = {begin, at + 1, id->second};
    }
    if (found.end > 0) return found;
  }
  return {text.size(), 0, 0};
}

}  // namespace tessera::data
