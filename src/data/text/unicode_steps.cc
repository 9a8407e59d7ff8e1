#include "data/text/unicode_steps.h"

#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/regex.h>
#include <unicode/unistr.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tessera::data {
namespace {

using icu::UnicodeString;
using Json = nlohmann::json;

UnicodeString to_unicode(std::string_view text) {
  return UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
}

std::string to_utf8(const UnicodeString& text) {
  std::string out;
  return text.toUTF8String(out);
}

// What a text may become. Texts of samples are short; a Replace of "a" by "aa" doubles one each time it is listed.
constexpr int32_t kMaxText = 16 << 20;
// Steps that a tokenizer may list, in all lists together.
constexpr int kMaxSteps = 64;

[[noreturn]] void unknown_step(const std::string& what, const Json& json) {
  throw data_error(fmt::format("the {} {} is not known", what, json.dump()), {},
                   "byte-level BPE as of GPT-2 and CLIP, and SentencePiece models, are read");
}

// \s is what Unicode calls white space, in Oniguruma as in tokenizers; ICU's leaves out U+000B and U+0085.
std::string with_white_space(const std::string& pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      out += pattern[i];
      continue;
    }
    const char escaped = pattern[++i];
    out += escaped == 's' ? std::string("\\p{White_Space}") : escaped == 'S' ? "\\P{White_Space}" : std::string{'\\', escaped};
  }
  return out;
}

class UnicodePattern {
 public:
  explicit UnicodePattern(const std::string& text) : text_(text) {
    constexpr size_t kMaxBytes = 4096;
    if (text.size() > kMaxBytes) throw data_error(fmt::format("it has a regular expression of {} bytes", text.size()));
    UErrorCode status = U_ZERO_ERROR;
    UParseError place;
    pattern_.reset(icu::RegexPattern::compile(to_unicode(with_white_space(text)), 0, place, status));
    if (U_FAILURE(status)) throw data_error(fmt::format("the regular expression `{}` cannot be read", text));
  }
  // visit(begin, end, whether it is a match) for all of `text`, in order; none is empty.
  template <class Visit>
  void for_each_part(const UnicodeString& text, const Visit& visit) const {
    UErrorCode status = U_ZERO_ERROR;
    const std::unique_ptr<icu::RegexMatcher> matcher(pattern_->matcher(text, status));
    TESSERA_CHECK(U_SUCCESS(status), "{}", u_errorName(status));
    // ICU tries one way after the other. It counts the steps, ten thousand at a time, so that what is refused does not depend
    // on the machine.
    matcher->setTimeLimit(kMaxTicks + text.length() / kUnitsPerTick, status);
    int32_t done = 0;
    while (U_SUCCESS(status) && matcher->find(status)) {
      const int32_t begin = matcher->start(status), end = matcher->end(status);
      if (begin == end) continue;
      if (begin > done) visit(done, begin, false);
      visit(begin, end, true);
      done = end;
    }
    if (status == U_REGEX_TIME_OUT || status == U_REGEX_STACK_OVERFLOW) {
      throw data_error(fmt::format("the tokenizer's regular expression `{}` takes too many steps on a text of {} characters",
                                   text_, text.length()));
    }
    if (U_FAILURE(status)) throw data_error(fmt::format("a tokenizer's regular expression fails: {}", u_errorName(status)));
    if (done < text.length()) visit(done, text.length(), false);
  }

 private:
  static constexpr int32_t kMaxTicks = 100, kUnitsPerTick = 50;
  std::string text_;
  std::unique_ptr<icu::RegexPattern> pattern_;
};

std::shared_ptr<const UnicodePattern> read_pattern(const Json& json) {
  if (json.contains("Regex")) return std::make_shared<const UnicodePattern>(json["Regex"].get<std::string>());
  if (json.contains("String")) return std::make_shared<const UnicodePattern>("\\Q" + json["String"].get<std::string>() + "\\E");
  unknown_step("pattern", json);
}

// Each character by itself, so that a final sigma is as any other.
std::string lower_case(std::string_view text) {
  const UnicodeString from = to_unicode(text);
  UnicodeString out;
  for (int32_t i = 0; i < from.length(); i = from.moveIndex32(i, 1)) {
    const UChar32 c = from.char32At(i);
    out +=
        c < 0x80 ? UnicodeString(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c) : UnicodeString(c).toLower(icu::Locale::getRoot());
  }
  return to_utf8(out);
}

const icu::Normalizer2* normal_form(const std::string& name) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* form = name == "NFC"    ? icu::Normalizer2::getNFCInstance(status)
                                 : name == "NFD"  ? icu::Normalizer2::getNFDInstance(status)
                                 : name == "NFKC" ? icu::Normalizer2::getNFKCInstance(status)
                                 : name == "NFKD" ? icu::Normalizer2::getNFKDInstance(status)
                                                  : nullptr;
  TESSERA_CHECK(U_SUCCESS(status), "{}", u_errorName(status));
  return form;
}

std::string normalized(const icu::Normalizer2& form, std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  const UnicodeString out = form.normalize(to_unicode(text), status);
  TESSERA_CHECK(U_SUCCESS(status), "{}", u_errorName(status));
  return to_utf8(out);
}

void check_length(int64_t length) {
  if (length > kMaxText) throw data_error(fmt::format("the tokenizer makes more than {} characters of a text", kMaxText));
}

NormalizeText make_replace(const Json& json) {
  const UnicodeString content = to_unicode(json.at("content").get<std::string>());
  return [pattern = read_pattern(json.at("pattern")), content](std::string_view text) {
    const UnicodeString from = to_unicode(text);
    UnicodeString out;
    pattern->for_each_part(from, [&](int32_t begin, int32_t end, bool match) {
      out += match ? content : UnicodeString(from, begin, end - begin);
      check_length(out.length());
    });
    return to_utf8(out);
  };
}

SplitText split_with(const std::shared_ptr<const UnicodePattern>& pattern, bool remove, bool invert) {
  return [pattern, remove, invert](std::string_view text) {
    const UnicodeString from = to_unicode(text);
    std::vector<std::string> parts;
    pattern->for_each_part(from, [&](int32_t begin, int32_t end, bool match) {
      if (!remove || match == invert) parts.push_back(to_utf8(UnicodeString(from, begin, end - begin)));
    });
    return parts;
  };
}

int count_steps(const Json& json) {
  int steps = 1;
  for (const char* list : {"normalizers", "pretokenizers"}) {
    if (!json.is_object() || !json.contains(list)) continue;
    for (const Json& step : json[list]) {
      if (steps <= kMaxSteps) steps += count_steps(step);
    }
  }
  return steps;
}

void check_steps(const Json& json) {
  if (count_steps(json) > kMaxSteps) throw data_error(fmt::format("it lists more than {} steps for one text", kMaxSteps));
}

SplitText make_byte_level(const Json& json) {
  const bool prefix = json.value("add_prefix_space", true), cuts = json.value("use_regex", true);
  // Read once: it is the same in every tokenizer.
  static const auto pattern =
      std::make_shared<const UnicodePattern>(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)");
  return [prefix, cuts, split = split_with(pattern, false, false)](std::string_view text) {
    std::string whole(text);
    if (prefix && !text.starts_with(' ')) whole.insert(0, 1, ' ');
    return cuts ? split(whole) : std::vector<std::string>{whole};
  };
}

}  // namespace

NormalizeText make_normalizer(const Json& json) {
  if (json.is_null()) return [](std::string_view text) { return to_utf8(to_unicode(text)); };
  check_steps(json);
  const std::string type = json.value("type", "");
  if (const icu::Normalizer2* form = normal_form(type))
    return [form](std::string_view text) { return normalized(*form, text); };
  if (type == "Lowercase") return lower_case;
  if (type == "Replace") return make_replace(json);
  if (type != "Sequence") unknown_step("normalizer", json);
  std::vector<NormalizeText> steps;
  for (const Json& step : json.at("normalizers")) steps.push_back(make_normalizer(step));
  return [steps](std::string_view text) {
    std::string out(text);
    for (const NormalizeText& step : steps) {
      out = step(out);
      check_length(std::ssize(out));
    }
    return out;
  };
}

SplitText make_pre_tokenizer(const Json& json) {
  if (json.is_null()) return [](std::string_view text) { return std::vector<std::string>{std::string(text)}; };
  check_steps(json);
  const std::string type = json.value("type", "");
  if (type == "ByteLevel") return make_byte_level(json);
  if (type == "Split") {
    const std::string behavior = json.value("behavior", "");
    if (behavior != "Removed" && behavior != "Isolated") unknown_step("pre-tokenizer", json);
    return split_with(read_pattern(json.at("pattern")), behavior == "Removed", json.value("invert", false));
  }
  if (type != "Sequence") unknown_step("pre-tokenizer", json);
  std::vector<SplitText> steps;
  for (const Json& step : json.at("pretokenizers")) steps.push_back(make_pre_tokenizer(step));
  return [steps](std::string_view text) {
    std::vector<std::string> parts = {std::string(text)};
    for (const SplitText& step : steps) {
      std::vector<std::string> cut;
      for (const std::string& part : parts) {
        for (std::string& piece : step(part)) cut.push_back(std::move(piece));
      }
      parts = std::move(cut);
    }
    return parts;
  };
}

}  // namespace tessera::data
