#include "data/text/text_encoder.h"

#include <algorithm>

#include "base/error.h"

namespace tessera::data {

TextEncoder::TextEncoder(std::shared_ptr<const Tokenizer> tokenizer, const TextEncoderOptions& options)
    : tokenizer_(std::move(tokenizer)), options_(options) {
  TESSERA_CHECK(options_.length >= 1);
  TESSERA_CHECK(!options_.bos || tokenizer_->bos());
  TESSERA_CHECK(options_.eos == Eos::kNo || tokenizer_->eos());
}

bool TextEncoder::encode(std::string_view text, int32_t* ids) const {
  std::vector<int32_t> found;
  if (options_.bos) found.push_back(*tokenizer_->bos());
  tokenizer_->encode(options_.lower ? ascii_lower(text) : text, found);
  if (options_.eos != Eos::kNo) found.push_back(*tokenizer_->eos());
  const auto length = static_cast<size_t>(options_.length);
  const size_t kept = std::min(found.size(), length);
  std::fill(std::copy_n(found.begin(), kept, ids), ids + length, options_.pad);
  if (options_.eos == Eos::kSticky && found.size() > length) ids[length - 1] = found.back();
  return found.size() <= length;
}

std::string TextEncoder::decode(std::span<const int32_t> ids) const {
  const std::optional<int32_t> bos = tokenizer_->bos(), eos = tokenizer_->eos();
  const auto end = eos ? std::ranges::find(ids, *eos) : ids.end();
  auto kept = ids.first(static_cast<size_t>(end - ids.begin()));
  while (end == ids.end() && !kept.empty() && kept.back() == options_.pad) kept = kept.first(kept.size() - 1);
  if (!kept.empty() && kept.front() == bos) kept = kept.subspan(1);
  return tokenizer_->decode(kept);
}

std::string ascii_lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

}  // namespace tessera::data
