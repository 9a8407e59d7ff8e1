#include "data/text/byte_bpe.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/error.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "data/text/added_tokens.h"
#include "data/text/merges.h"
#include "data/text/unicode_steps.h"

namespace tessera::data {
namespace {

using Json = nlohmann::json;
using Vocabulary = std::unordered_map<std::string, int32_t>;

constexpr int32_t kNoId = -1;

// The letter that stands for each byte in GPT-2's vocabulary, as UTF-8: itself where it is visible, else one from U+0100 on.
const std::array<std::string, 256>& letters() {
  static const auto table = [] {
    std::array<std::string, 256> made;
    int next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool visible = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      const int code = visible ? b : next++;
      std::string& letter = made[static_cast<size_t>(b)];
      if (code >= 0x80) letter += static_cast<char>(0xC0 | code >> 6);
      letter += static_cast<char>(code < 0x80 ? code : 0x80 | (code & 0x3F));
    }
    return made;
  }();
  return table;
}

class ByteBpe final : public Tokenizer {
 public:
  ByteBpe(const std::string& path, std::string_view bytes) : Tokenizer(path, bytes) {
    const JsonResult read = read_json(bytes, {.bytes = size_t{128} << 20});
    if (!read.problem.empty()) throw data_error("it is no JSON: " + read.problem);
    const Json& json = read.value;
    normalize_ = make_normalizer(json.at("normalizer"));
    split_ = make_pre_tokenizer(json.at("pre_tokenizer"));
    read_model(json.at("model"));
    for (const Json& token : json.at("added_tokens")) read_added(token);
  }
  int64_t vocabulary() const override { return static_cast<int64_t>(pieces_.size()); }
  std::optional<int32_t> bos() const override { return first_of({"<|startoftext|>", "<s>", "<|begin_of_text|>"}); }
  std::optional<int32_t> eos() const override { return first_of({"<|endoftext|>", "</s>", "<|end_of_text|>"}); }
  std::optional<int32_t> find(std::string_view piece) const override {
    const auto found = ids_.find(std::string(piece));
    return found == ids_.end() ? std::nullopt : std::optional<int32_t>(found->second);
  }
  std::string piece(int32_t id) const override { return pieces_.at(static_cast<size_t>(id)); }

  // As tokenizers: added tokens of the raw text, then those of the normalized one, then words.
  void encode(std::string_view text, std::vector<int32_t>& ids) const override {
    cut_at(raw_tokens_, text, ids, [&](std::string_view part) {
      cut_at(normalized_tokens_, normalize_(part), ids, [&](std::string_view rest) {
        for (const std::string& word : split_(rest)) encode_word(word, ids);
      });
    });
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::string text;
    for (const int32_t id : ids) {
      if (!special_[static_cast<size_t>(id)]) text += texts_[static_cast<size_t>(id)];
    }
    if (!suffix_.empty() && text.ends_with(' ')) text.pop_back();
    return text;
  }

 private:
  // each(part) for what is between the tokens.
  template <class Each>
  static void cut_at(const AddedTokens& tokens, std::string_view text, std::vector<int32_t>& ids, const Each& each) {
    for (size_t begin = 0; begin < text.size();) {
      const AddedTokens::Found token = tokens.find(text, begin);
      if (token.begin > begin) each(text.substr(begin, token.begin - begin));
      if (token.end == 0) return;
      ids.push_back(token.id);
      begin = token.end;
    }
  }

  void encode_word(const std::string& word, std::vector<int32_t>& ids) const {
    if (whole_words_) {
      std::string spelled;
      for (const char c : word) spelled += letters()[static_cast<uint8_t>(c)];
      if (const auto found = ids_.find(spelled); found != ids_.end()) return ids.push_back(found->second);
    }
    std::vector<int32_t> parts;
    for (size_t i = 0; i < word.size(); ++i) {
      const auto& table = i + 1 == word.size() ? last_byte_ids_ : byte_ids_;
      if (const int32_t id = table[static_cast<uint8_t>(word[i])]; id != kNoId) parts.push_back(id);
    }
    merges_.apply(parts);
    ids.insert(ids.end(), parts.begin(), parts.end());
  }

  int32_t set_piece(const Json& number, const std::string& piece) {
    const int64_t id = number.is_number_integer() ? number.get<int64_t>() : -1;
    if (id < 0 || id >= kMaxPieces) throw data_error(fmt::format("the piece `{}` has the id {}", piece, number.dump()));
    const auto place = static_cast<size_t>(id);
    if (place >= pieces_.size()) {
      pieces_.resize(place + 1);
      texts_.resize(place + 1);
      special_.resize(place + 1);
    }
    pieces_[place] = piece;
    return ids_[piece] = static_cast<int32_t>(id);
  }

  void read_model(const Json& model) {
    const auto text_of = [&](const char* name) {
      return model.value(name, Json()).is_null() ? "" : model[name].get<std::string>();
    };
    const bool plain = model.value("type", "BPE") == "BPE" && model.value("dropout", Json()).is_null() &&
                       !model.value("byte_fallback", false) && text_of("continuing_subword_prefix").empty();
    if (!plain) throw data_error("its model is no byte-level BPE");
    suffix_ = text_of("end_of_word_suffix");
    whole_words_ = model.value("ignore_merges", false);
    for (const auto& [piece, id] : model.at("vocab").items()) set_piece(id, piece);
    std::unordered_map<std::string, char> bytes;
    for (size_t b = 0; b < 256; ++b) bytes[letters()[b]] = static_cast<char>(b);
    for (size_t i = 0; i < pieces_.size(); ++i) texts_[i] = spell(pieces_[i], bytes);
    const std::string unknown = text_of("unk_token");
    const int32_t fallback = unknown.empty() ? kNoId : find(unknown).value_or(kNoId);
    for (size_t b = 0; b < 256; ++b) {
      byte_ids_[b] = find(letters()[b]).value_or(fallback);
      last_byte_ids_[b] = find(letters()[b] + suffix_).value_or(fallback);
    }
    for (const Json& merge : model.at("merges")) read_merge(merge);
  }

  // The bytes of a piece; its suffix is a space.
  std::string spell(std::string_view piece, const std::unordered_map<std::string, char>& bytes) const {
    const bool ends = !suffix_.empty() && piece.ends_with(suffix_);
    if (ends) piece.remove_suffix(suffix_.size());
    std::string text;
    for (size_t i = 0; i < piece.size();) {
      const size_t length = static_cast<uint8_t>(piece[i]) < 0x80 ? 1 : 2;
      const auto found = bytes.find(std::string(piece.substr(i, length)));
      if (found == bytes.end()) return std::string(piece) + (ends ? " " : "");  // not made of bytes
      text += found->second;
      i += length;
    }
    return text + (ends ? " " : "");
  }

  // ["a", "b"], or "a b" as older files have it.
  void read_merge(const Json& merge) {
    const auto pair = merge.is_string() ? tessera::split(merge.get<std::string>(), ' ') : merge.get<std::vector<std::string>>();
    if (pair.size() != 2) throw data_error(fmt::format("{} is no merge of two pieces", merge.dump()));
    const auto left = find(pair[0]), right = find(pair[1]), merged = find(pair[0] + pair[1]);
    if (!left || !right || !merged) throw data_error(fmt::format("the merge {} names pieces that are not there", merge.dump()));
    merges_.add(*left, *right, *merged);
  }

  void read_added(const Json& token) {
    for (const char* flag : {"single_word", "lstrip", "rstrip"}) {
      if (token.value(flag, false))
        throw data_error(fmt::format("its added token {} has `{}`, which is not known", token.dump(), flag));
    }
    const auto content = token.at("content").get<std::string>();
    if (content.empty() || content.size() > AddedTokens::kMaxBytes)
      throw data_error(fmt::format("it has an added token of {} bytes", content.size()));
    const bool special = token.value("special", false);
    const int32_t id = set_piece(token.at("id"), content);
    texts_[static_cast<size_t>(id)] = content;
    special_[static_cast<size_t>(id)] = special;
    if (!token.value("normalized", !special)) return raw_tokens_.add(content, id);
    const std::string normalized = normalize_(content);
    if (normalized.empty()) throw data_error(fmt::format("its added token {} is empty once normalized", token.dump()));
    if (normalized.size() > AddedTokens::kMaxBytes)
      throw data_error(fmt::format("its added token {} is too long once normalized", token.dump()));
    normalized_tokens_.add(normalized, id);
  }

  std::optional<int32_t> first_of(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      if (const auto id = find(name)) return id;
    }
    return std::nullopt;
  }

  static constexpr int32_t kMaxPieces = 2'000'000;
  NormalizeText normalize_;
  SplitText split_;
  Vocabulary ids_;
  std::vector<std::string> pieces_, texts_;  // by id: as spelled, and what it stands for
  std::vector<bool> special_;
  std::array<int32_t, 256> byte_ids_{}, last_byte_ids_{};  // of bytes inside a word and at its end
  Merges merges_;
  std::string suffix_;
  bool whole_words_ = false;  // words of the vocabulary are not built from merges
  AddedTokens raw_tokens_, normalized_tokens_;
};

}  // namespace

std::shared_ptr<const Tokenizer> make_byte_bpe(const std::string& path, std::string_view bytes, std::string_view where) {
  constexpr const char* kHelp = "byte-level BPE as of GPT-2 and CLIP, and SentencePiece models, are read";
  try {
    return std::make_shared<ByteBpe>(path, bytes);
  } catch (const Error& error) {
    throw data_error(fmt::format("`{}` cannot be read: {}", path, error.message()), std::string(where), kHelp);
  } catch (const Json::exception& error) {
    throw data_error(fmt::format("`{}` is no tokenizer.json: {}", path, error.what()), std::string(where), kHelp);
  }
}

}  // namespace tessera::data
