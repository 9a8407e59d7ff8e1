#pragma once
// The steps of a tokenizer.json of Hugging Face's tokenizers that come before its model: normalizers change a text, and
// pre-tokenizers cut it into words. ICU does regular expressions, normal forms and cases.

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

// UTF-8 to UTF-8; what is no UTF-8 becomes U+FFFD.
using NormalizeText = std::function<std::string(std::string_view)>;
// A text to its parts, in order; none is empty.
using SplitText = std::function<std::vector<std::string>(std::string_view)>;

// From the values of "normalizer" and "pre_tokenizer". Nothing for null; for what is not known throws an Error that names it.
//   normalizers     NFC, NFD, NFKC, NFKD, Lowercase, Replace, Sequence
//   pre-tokenizers  Split (Isolated, Removed), ByteLevel (its cutting; the bytes are the model's), Sequence
NormalizeText make_normalizer(const nlohmann::json& json);
SplitText make_pre_tokenizer(const nlohmann::json& json);

}  // namespace tessera::data
