#include "base/text/shell.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(ShellQuoted, LeavesPlainWordsAndQuotesTheOthers) {
  EXPECT_EQ(shell_quoted("runs/a-2/recipe.toml"), "runs/a-2/recipe.toml");
  EXPECT_EQ(shell_quoted("optimizer.lr=3e-4"), "optimizer.lr=3e-4");
  EXPECT_EQ(shell_quoted("my runs"), "'my runs'");
  EXPECT_EQ(shell_quoted("$HOME;a&b"), "'$HOME;a&b'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted(""), "''");
}

}  // namespace
}  // namespace tessera
