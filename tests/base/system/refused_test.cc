// Asking what the system refuses leaves nothing behind.

#include "base/system/refused.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>

namespace tessera {
namespace {

TEST(Refused, AskingForAThreadLeavesNoProcess) {
  EXPECT_FALSE(thread_is_refused());
  EXPECT_FALSE(thread_is_refused());
  EXPECT_EQ(waitpid(-1, nullptr, __WALL | WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

}  // namespace
}  // namespace tessera
