#include "base/warning_listener.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/log.h"

namespace tessera {
namespace {

TEST(WarningListener, IsToldOfWarningsAlone) {
  std::vector<std::string> told;
  set_warning_listener([&](const std::string& text) { told.push_back(text); });
  ::testing::internal::CaptureStderr();
  log_warning("the disk is full");
  log_note("a note");
  set_warning_listener(nullptr);
  log_warning("nobody hears this");
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(told, std::vector<std::string>{"the disk is full"});
}

// As a sink does that cannot keep up.
TEST(WarningListener, MayWarnItself) {
  int told = 0;
  set_warning_listener([&](const std::string& text) {
    if (++told == 1) log_warning("about " + text);
  });
  ::testing::internal::CaptureStderr();
  log_warning("the disk");
  set_warning_listener(nullptr);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "warning: the disk\nwarning: about the disk\n");
  EXPECT_EQ(told, 2);
}

TEST(Log, SaysOnceWhatIsSaidOfAFileThatIsOpenedAgain) {
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    log_note_once("photos: 2 files are left out");
    log_warning_once("a.csv names no image");
  }
  log_note_once("birds: 2 files are left out");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "note: photos: 2 files are left out\nwarning: a.csv names no image\nnote: birds: 2 files are left out\n");
}

}  // namespace
}  // namespace tessera
