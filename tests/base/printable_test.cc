#include "base/printable.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "base/text/markup.h"
#include "base/text/text.h"

namespace tessera {
namespace {

TEST(Printable, LeavesOrdinaryTextAlone) {
  for (const char* text : {"", "train/left/0.png", "Ärger über 日本語 🐈", "a\\x1b b", "עברית", "é", "two\nlines\tand a tab"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Markup, IsInertWhereverItStands) {
  EXPECT_EQ(escape_markup("<a href='x' title=\"y\">&amp;"), "&lt;a href=&#39;x&#39; title=&quot;y&quot;&gt;&amp;amp;");
  EXPECT_EQ(escape_markup("\033[2J<\xff\u202e"), "\\x1b[2J&lt;\\xff\\u202e");
  EXPECT_EQ(escape_markup("日本語\n"), "日本語\n");
}

TEST(CsvText, IsQuotedWhereItMustBe) {
  EXPECT_EQ(csv_text("a b"), "a b");
  EXPECT_EQ(csv_text(""), "");
  EXPECT_EQ(csv_text("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_text("say \"x\"\nand"), "\"say \"\"x\"\"\nand\"");
}

TEST(Printable, EscapesWhatMovesATerminal) {
  EXPECT_EQ(printable("\033]0;title\a\033[2Jx"), R"(\x1b]0;title\x07\x1b[2Jx)");
  EXPECT_EQ(printable("a\rb\bc\x7f"), R"(a\rb\x08c\x7f)");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), R"(a\x00b)");
  EXPECT_EQ(printable("\u009b31m"), R"(\u009b31m)") << "C1: CSI in one character";
  EXPECT_EQ(printable("\u202egnp.exe"), R"(\u202egnp.exe)");
  EXPECT_EQ(printable("\u2066x\u2069\u2028y"), R"(\u2066x\u2069\u2028y)");
  EXPECT_EQ(one_line("a\nb\tc\r"), R"(a\nb\tc\r)");
}

TEST(Printable, TellsUtf8FromOtherBytes) {
  for (const char* text : {"", "plain", "Käuzchen 日本語 🐈"}) EXPECT_TRUE(is_utf8(text)) << text;
  for (const char* text : {"K\xe4uzchen", "\xc3", "\xed\xa0\x80", "\xc0\x80"}) EXPECT_FALSE(is_utf8(text)) << printable(text);
}

TEST(Printable, BytesThatAreNoUtf8AreShown) {
  EXPECT_EQ(printable("caf\xe9!"), R"(caf\xe9!)");
  EXPECT_EQ(printable("\xc3"), R"(\xc3)") << "cut";
  EXPECT_EQ(printable("\xc0\x9b"), R"(\xc0\x9b)") << "an overlong form of ESC";
  EXPECT_EQ(printable("\xe0\x82\x9b"), R"(\xe0\x82\x9b)") << "of CSI";
  EXPECT_EQ(printable("\xed\xa0\x80"), R"(\xed\xa0\x80)") << "a surrogate";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), R"(\xf4\x90\x80\x80)") << "beyond Unicode";
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            R"(\x9b31m)")
      << "C1 as one byte";
}

TEST(Printable, JsonKeepsItsValues) {
  EXPECT_EQ(printable_json("{\"a\": \"\u009b\u202e\x7f é\"}\n"), "{\"a\": \"\\u009b\\u202e\\u007f é\"}\n");
}

TEST(Printable, LinesOfAMessageBeginAtTheMarginOnlyWhereItsHelpDoes) {
  EXPECT_EQ(printable_message("no `a\nerror: lost\n\n`\n  --> here\nhelp: do\n"),
            "no `a\n  error: lost\n\n  `\n  --> here\nhelp: do\n");
  EXPECT_EQ(printable_message("one line\033"), "one line\\x1b");
}

// What log_error and its like write to the terminal, with colours.
std::string logged(void (*log)(std::string_view), std::string_view text) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const int before = log_descriptor();
  set_log_descriptor(ends[1]);
  set_color_mode(ColorMode::kAlways);
  log(text);
  set_color_mode(ColorMode::kAuto);
  set_log_descriptor(before);
  char bytes[256];
  const ssize_t size = read(ends[0], bytes, sizeof bytes);
  for (const int end : ends) close(end);
  return {bytes, static_cast<size_t>(std::max<ssize_t>(size, 0))};
}

TEST(Log, OnlyItsOwnColoursReachTheTerminal) {
  EXPECT_EQ(logged(log_error, "no `a\033[2J\033[32m`"), "\033[1;31merror: \033[0mno `a\\x1b[2J\\x1b[32m`\n");
  EXPECT_EQ(logged(log_warning, "no `a\nerror: lost`"), "\033[33mwarning: \033[0mno `a\n  error: lost`\n");
  EXPECT_EQ(logged(log_line, "two\nlines\r"), "two\nlines\\r\n");
  EXPECT_EQ(logged(log_styled_line, styled("\033", Style::kPlain)), "\033\n");
}

}  // namespace
}  // namespace tessera
