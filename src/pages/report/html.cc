#include "pages/report/html.h"

#include <re2/re2.h>

#include "base/text/base64.h"
#include "base/text/text.h"

namespace tessera::report {

std::string keep_percentages(std::string_view text) {
  static const RE2 share("([0-9]) %");
  std::string out(text);
  RE2::GlobalReplace(&out, share, "\\1\u00a0%");
  return out;
}

Markup with_code(std::string_view text) {
  Html html;
  const std::vector<std::string> parts = split(text, '`');
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool code = i % 2 == 1 && i + 1 < parts.size();  // the last one may lack its other end
    code ? html.add("<code>{}</code>", parts[i]) : html.add("{}{}", i % 2 == 1 ? "`" : "", keep_percentages(parts[i]));
  }
  return html.take();
}

std::string data_uri(std::string_view mime, std::basic_string_view<unsigned char> bytes) {
  return fmt::format("data:{};base64,{}", mime, base64({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

}  // namespace tessera::report
