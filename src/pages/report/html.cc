#include "pages/report/html.h"

#include "base/text/base64.h"
#include "base/text/text.h"

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
  return fmt::format("data:{};base64,{}", mime, base64({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

}  // namespace tessera::report
