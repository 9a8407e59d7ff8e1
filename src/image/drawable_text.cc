#include "image/drawable_text.h"

#include <unicode/translit.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <memory>
#include <mutex>

namespace tessera::image {
namespace {

constexpr char kBox = '\x7f';

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// Its rules take some milliseconds to read. Null where this ICU has none.
const icu::Transliterator* to_ascii() {
  static const std::unique_ptr<icu::Transliterator> rules = [] {
    UErrorCode status = U_ZERO_ERROR;
    std::unique_ptr<icu::Transliterator> made(
        icu::Transliterator::createInstance("Any-Latin; Latin-ASCII", UTRANS_FORWARD, status));
    return U_SUCCESS(status) ? std::move(made) : nullptr;
  }();
  return rules.get();
}

}  // namespace

std::string drawable_text(std::string_view text) {
  if (is_ascii(text)) return std::string(text);
  icu::UnicodeString letters = icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
  {
    static std::mutex mutex;  // ICU does not say that several threads may share one
    const std::lock_guard lock(mutex);
    if (to_ascii()) to_ascii()->transliterate(letters);
  }
  std::string out;
  for (int32_t at = 0; at < letters.length(); at = letters.moveIndex32(at, 1)) {
    const UChar32 letter = letters.char32At(at);
    out += letter < 0x80 ? static_cast<char>(letter) : kBox;
  }
  return out;
}

}  // namespace tessera::image
