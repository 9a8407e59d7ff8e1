#pragma once
// A strict reader of the HTML that reports are: what it refuses a browser might read in a way of its own.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::testing {

struct HtmlFacts {
  std::map<std::string, int> elements;      // by name
  std::set<std::string> attributes;         // names
  std::vector<std::string> sources, links;  // values of src; of href and the like
  std::string text;                         // between tags, entities as they are
  std::string problem;                      // the first; empty: none
};

class HtmlCheck {
 public:
  explicit HtmlCheck(std::string_view html) : rest_(html) {
    if (take("<!DOCTYPE html>")) {
      while (!rest_.empty() && facts_.problem.empty()) rest_[0] == '<' ? tag() : characters();
    } else {
      facts_.problem = "no doctype";
    }
    if (facts_.problem.empty() && !open_.empty()) facts_.problem = "never closed: " + open_.back();
  }
  const HtmlFacts& facts() const { return facts_; }

 private:
  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  std::string name() {
    size_t length = 0;
    while (length < rest_.size() && (std::isalnum(static_cast<unsigned char>(rest_[length])) || rest_[length] == '-')) ++length;
    std::string out(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return out;
  }
  void fail(const std::string& what) {
    if (facts_.problem.empty()) facts_.problem = what + " before: " + std::string(rest_.substr(0, 60));
  }
  // Every & begins an entity that we write.
  void check_entities(std::string_view text) {
    for (size_t at = text.find('&'); at != std::string_view::npos; at = text.find('&', at + 1)) {
      const auto follows = [&](std::string_view entity) { return text.substr(at).starts_with(entity); };
      if (!follows("&amp;") && !follows("&lt;") && !follows("&gt;") && !follows("&quot;") && !follows("&#39;"))
        fail("a bare &");
    }
  }
  void characters() {
    const std::string_view text = rest_.substr(0, rest_.find('<'));
    if (text.find('>') != std::string_view::npos) fail("a bare >");
    check_entities(text);
    facts_.text += text;
    rest_.remove_prefix(text.size());
  }
  void attribute() {
    const std::string key = name();
    if (key.empty() || !take("=\"")) return fail("an attribute without a value in quotes");
    const size_t end = rest_.find('"');
    if (end == std::string_view::npos) return fail("an open quote");
    const std::string_view value = rest_.substr(0, end);
    if (value.find('<') != std::string_view::npos) fail("a < in an attribute");
    check_entities(value);
    facts_.attributes.insert(key);
    if (key == "src") facts_.sources.emplace_back(value);
    if (key == "href" || key == "action" || key == "srcset" || key == "data") facts_.links.emplace_back(value);
    rest_.remove_prefix(end + 1);
  }
  void tag() {
    static const std::set<std::string> kVoid = {"meta", "img", "br"};
    if (take("</")) {
      const std::string closed = name();
      if (!take(">") || open_.empty() || open_.back() != closed) return fail("</" + closed + ">");
      return open_.pop_back();
    }
    take("<");
    const std::string opened = name();
    if (opened.empty()) return fail("a bare <");
    ++facts_.elements[opened];
    while (take(" ")) attribute();
    if (take("/>")) return;  // of SVG
    if (!take(">")) return fail("<" + opened);
    if (kVoid.contains(opened)) return;
    open_.push_back(opened);
    if (opened == "style") rest_.remove_prefix(std::min(rest_.find("</style>"), rest_.size()));
  }

  std::string_view rest_;
  std::vector<std::string> open_;
  HtmlFacts facts_;
};

// Well-formed, with nothing that runs and nothing to fetch.
inline HtmlFacts check_html(const std::string& html) {
  HtmlFacts facts = HtmlCheck(html).facts();
  EXPECT_EQ(facts.problem, "");
  for (const char* element : {"script", "iframe", "object", "embed", "link", "base", "form", "a"})
    EXPECT_FALSE(facts.elements.contains(element)) << element;
  for (const std::string& key : facts.attributes) EXPECT_FALSE(key.starts_with("on")) << key;
  for (const std::string& source : facts.sources) EXPECT_TRUE(source.starts_with("data:image/")) << source.substr(0, 40);
  EXPECT_TRUE(facts.links.empty());
  EXPECT_EQ(html.find("url("), std::string::npos);
  EXPECT_EQ(html.find("@import"), std::string::npos);
  return facts;
}

}  // namespace tessera::testing
