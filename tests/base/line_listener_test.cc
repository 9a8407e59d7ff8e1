#include "base/line_listener.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/log.h"

namespace tessera {
namespace {

TEST(LineListener, IsToldOfEveryLineWithoutItsColours) {
  std::vector<std::string> told;
  set_line_listener([&](const std::string& text) { told.push_back(text); });
  set_color_mode(ColorMode::kAlways);
  ::testing::internal::CaptureStderr();
  log_line("a line");
  log_note("of a \033[31mname\033[0m");
  log_warning("the disk is full\n  in two lines");
  log_error("an error");
  log_styled_line("  val  top1 91 " + styled("best", Style::kGreen) + "  loss 1");
  log_status("a bar");
  set_color_mode(ColorMode::kAuto);
  set_line_listener(nullptr);
  log_line("nobody hears this");
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("\033[33mwarning: \033[0m"), std::string::npos);
  EXPECT_EQ(told,
            (std::vector<std::string>{"a line", "note: of a \\x1b[31mname\\x1b[0m", "warning: the disk is full\n  in two lines",
                                      "error: an error", "  val  top1 91 best  loss 1"}));
}

// As a log does whose disk is full.
TEST(LineListener, MaySpeakItself) {
  int told = 0;
  set_line_listener([&](const std::string& text) {
    if (++told == 1) log_warning("about " + text);
  });
  ::testing::internal::CaptureStderr();
  log_line("hello");
  set_line_listener(nullptr);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "hello\nwarning: about hello\n");
  EXPECT_EQ(told, 2);
}

}  // namespace
}  // namespace tessera
