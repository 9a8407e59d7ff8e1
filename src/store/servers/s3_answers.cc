#include "store/servers/s3_answers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include "base/text/text.h"
#include "store/servers/object_server.h"

namespace tessera::store {
namespace {

// Without attributes, and text without the elements in it.
struct XmlElement {
  std::string name;  // without a prefix
  std::string text;
  std::vector<XmlElement> children;

  const XmlElement* find(std::string_view wanted) const {
    for (const XmlElement& child : children) {
      if (child.name == wanted) return &child;
    }
    return nullptr;
  }
  std::string text_of(std::string_view wanted) const {
    const XmlElement* child = find(wanted);
    return child ? child->text : std::string();
  }
};

[[noreturn]] void refuse_answer() {
  throw ServerError("the server's answer is not S3's", "look at AWS_ENDPOINT_URL where it is set", false);
}

// Of "#65" or "#x41".
uint32_t code_point(std::string_view reference) {
  reference.remove_prefix(1);
  const bool hexadecimal = reference.starts_with('x');
  if (hexadecimal) reference.remove_prefix(1);
  constexpr std::string_view kDigits = "0123456789abcdef";
  const size_t base = hexadecimal ? 16 : 10;
  size_t code = 0;
  for (const char digit : lower(std::string(reference))) {
    const size_t value = kDigits.find(digit);
    if (value >= base) refuse_answer();
    code = code * base + value;
    if (code > 0x10ffff) refuse_answer();
  }
  if (code == 0 || (code >= 0xd800 && code < 0xe000)) refuse_answer();
  return static_cast<uint32_t>(code);
}

void append_utf8(std::string& out, uint32_t code) {
  const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xc0 | code >> 6);
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
  }
  put(0x80 | (code & 0x3f));
}

// Text with &lt; and the like.
void append_unescaped(std::string& out, std::string_view text) {
  constexpr std::pair<std::string_view, char> kNamed[] = {
      {"lt", '<'}, {"gt", '>'}, {"amp", '&'}, {"quot", '"'}, {"apos", '\''}};
  for (size_t at; (at = text.find('&')) != std::string_view::npos;) {
    out += text.substr(0, at);
    const size_t end = text.find(';', at);
    if (end == std::string_view::npos) refuse_answer();
    const std::string_view reference = text.substr(at + 1, end - at - 1);
    text.remove_prefix(end + 1);
    if (reference.starts_with('#')) {
      append_utf8(out, code_point(reference));
      continue;
    }
    const auto* known = std::ranges::find(kNamed, reference, &std::pair<std::string_view, char>::first);
    if (known == std::end(kNamed)) refuse_answer();
    out += known->second;
  }
  out += text;
}

// As much of XML as such answers have: no document types.
class XmlReader {
 public:
  explicit XmlReader(std::string_view xml) : rest_(xml) {}

  XmlElement document() {
    if (rest_.starts_with("\xef\xbb\xbf")) rest_.remove_prefix(3);
    skip_outside();
    XmlElement root = element(1);
    skip_outside();
    if (!rest_.empty()) refuse_answer();
    return root;
  }

 private:
  static constexpr int kMaxDepth = 16;
  static constexpr int kMaxElements = 100'000;  // a page of S3's has a thousand uploads

  bool take(std::string_view begin) {
    if (!rest_.starts_with(begin)) return false;
    rest_.remove_prefix(begin.size());
    return true;
  }
  std::string_view take_until(std::string_view end) {
    const size_t at = rest_.find(end);
    if (at == std::string_view::npos) refuse_answer();
    const std::string_view taken = rest_.substr(0, at);
    rest_.remove_prefix(at + end.size());
    return taken;
  }
  bool skip_comment() {
    if (take("<!--")) return take_until("-->"), true;
    if (take("<?")) return take_until("?>"), true;
    return false;
  }
  void skip_outside() {
    do rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size()));
    while (skip_comment());
  }

  // "name a='1'>" or "name/>", behind "<". Whether there is content.
  bool begin_tag(std::string_view& name) {
    const size_t end = rest_.find_first_of(" \t\r\n/>");
    if (end == std::string_view::npos || end == 0) refuse_answer();
    name = rest_.substr(0, end);
    rest_.remove_prefix(end);
    for (;;) {
      const size_t at = rest_.find_first_of("\"'/><");
      if (at == std::string_view::npos || rest_[at] == '<') refuse_answer();
      const char found = rest_[at];
      rest_.remove_prefix(at + 1);
      if (found == '>') return true;
      if (found == '/') {
        if (!take(">")) refuse_answer();
        return false;
      }
      take_until(std::string_view(&found, 1));  // an attribute's value
    }
  }

  XmlElement element(int depth) {
    if (depth > kMaxDepth || ++elements_ > kMaxElements || !take("<")) refuse_answer();
    std::string_view name;
    XmlElement found;
    const bool has_content = begin_tag(name);
    found.name = name.substr(name.find(':') + 1);
    while (has_content) {
      const size_t at = rest_.find('<');
      if (at == std::string_view::npos) refuse_answer();
      append_unescaped(found.text, rest_.substr(0, at));
      rest_.remove_prefix(at);
      if (take("</")) {
        if (trim(take_until(">")) != name) refuse_answer();
        break;
      }
      if (take("<![CDATA[")) {
        found.text += take_until("]]>");
      } else if (!skip_comment()) {
        found.children.push_back(element(depth + 1));
      }
    }
    return found;
  }

  std::string_view rest_;
  int elements_ = 0;
};

}  // namespace

S3UploadsPage parse_s3_uploads(std::string_view xml) {
  const XmlElement root = XmlReader(xml).document();
  if (root.name != "ListMultipartUploadsResult") refuse_answer();
  S3UploadsPage page;
  for (const XmlElement& child : root.children) {
    if (child.name != "Upload") continue;
    S3Upload upload{child.text_of("Key"), child.text_of("UploadId")};
    if (upload.key.empty() || upload.id.empty()) refuse_answer();
    page.uploads.push_back(std::move(upload));
  }
  page.more = trim(root.text_of("IsTruncated")) == "true";
  page.next_key = root.text_of("NextKeyMarker");
  page.next_id = root.text_of("NextUploadIdMarker");
  if (page.more && page.next_key.empty()) refuse_answer();
  return page;
}

S3Refusal parse_s3_refusal(std::string_view xml) {
  try {
    const XmlElement root = XmlReader(xml).document();
    if (root.name == "Error") return {root.text_of("Code"), root.text_of("Message")};
  } catch (const ServerError&) {
    // As of a proxy in between, which answers with a page.
  }
  return {};
}

}  // namespace tessera::store
