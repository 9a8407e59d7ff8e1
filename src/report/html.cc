#include "report/html.h"

#include <openssl/evp.h>

#include "base/error.h"
#include "base/text.h"

namespace tessera::report {

Markup with_code(std::string_view text) {
  Html html;
  const std::vector<std::string> parts = split(text, '`');
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool code = i % 2 == 1 && i + 1 < parts.size();  // the last one may lack its other end
    code ? html.add("<code>{}</code>", parts[i]) : html.add("{}{}", i % 2 == 1 ? "`" : "", parts[i]);
  }
  return html.take();
}

std::string data_uri(std::string_view mime, std::basic_string_view<unsigned char> bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // and a zero
  const int length =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), bytes.data(), static_cast<int>(bytes.size()));
  TESSERA_CHECK(length + 1 == static_cast<int>(text.size()), "{} characters for {} bytes", length, bytes.size());
  text.pop_back();
  return fmt::format("data:{};base64,{}", mime, text);
}

}  // namespace tessera::report
