// What a run shows on a terminal: a table of epochs above a line that is drawn again in place, at any width.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>

#include "cli/run_program.h"

namespace tessera::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

struct OnTerminal {
  int exit = -1;
  std::string text;  // as the terminal got it
};

// `tessera args…` with a terminal of so many columns for stderr.
OnTerminal run_on_terminal(const std::vector<std::string>& args, const fs::path& directory, uint16_t columns) {
  int terminal = -1, program = -1;
  winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  EXPECT_EQ(::openpty(&terminal, &program, nullptr, nullptr, &size), 0);
  std::vector<std::string> words = {testing::program_path()};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string cache = testing::cache_path();
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("TESSERA_CACHE_DIR", cache.c_str(), 1);
    ::setenv("TERM", "xterm", 1);
    ::setenv("LC_ALL", "C", 1);
    ::setenv("NO_COLOR", "1", 1);
    ::dup2(::open("/dev/null", O_WRONLY), STDOUT_FILENO);
    ::dup2(program, STDERR_FILENO);
    ::close(terminal);
    ::close(program);
    if (::chdir(directory.c_str()) == 0) ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(program);
  OnTerminal out;
  char buffer[4096];
  for (ssize_t count; (count = ::read(terminal, buffer, sizeof buffer)) > 0;)
    out.text.append(buffer, static_cast<size_t>(count));
  ::close(terminal);
  int status = 0;
  ::waitpid(child, &status, 0);
  out.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return out;
}

// Every text that ever stood in a line of the terminal: what a return or a line end finishes.
std::vector<std::string> drawn(std::string text) {
  const std::string clear = "\033[K";
  for (size_t at; (at = text.find(clear)) != std::string::npos;) text.erase(at, clear.size());
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\r' || c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  return lines;
}

class Terminal : public ::testing::Test {
 protected:
  void SetUp() override {
    write_images(folder_ / "train", 6);
    write_images(folder_ / "val", 5);
    write_file(folder_ / "tiny.toml", tiny_recipe());
  }
  OnTerminal train(uint16_t columns, const std::string& workdir, const std::vector<std::string>& more) {
    std::vector<std::string> args = {"train", "tiny.toml", "--workdir", workdir, "--no-report"};
    args.insert(args.end(), more.begin(), more.end());
    return run_on_terminal(args, folder_.path(), columns);
  }
  TempFolder folder_;
};

TEST_F(Terminal, ShowsARowForEachEpoch) {
  const OnTerminal run = train(100, "run", {"total=4 epochs", "eval.val.every=2 epochs"});
  ASSERT_EQ(run.exit, 0) << run.text;
  EXPECT_THAT(run.text, ContainsRegex("epoch  step  train loss  val top1  val loss     time\r\n"));
  EXPECT_THAT(run.text, Not(HasSubstr("top5"))) << "of two classes it says nothing";
  for (const char* row :
       {"    1     3      [0-9.]{6}         -         -  ", "    2     6      [0-9.]{6}  +[0-9.]+ +[0-9.]+  ",
        "    3     9      [0-9.]{6}         -         -  ", "    4    12      [0-9.]{6}  +[0-9.]+ +[0-9.]+  "}) {
    EXPECT_THAT(run.text, ContainsRegex(row));
  }
  EXPECT_THAT(run.text, Not(HasSubstr("  val  step")));
  // The log has the rows, and nothing of the bar.
  const std::string log = read_file(folder_ / "run/log.txt");
  EXPECT_THAT(log, ContainsRegex("Z epoch  step  train loss"));
  EXPECT_THAT(log, Not(HasSubstr("img/s")));
}

TEST_F(Terminal, ShowsARowForEachEvaluationOfARunOfSteps) {
  const OnTerminal run = train(100, "run", {});
  ASSERT_EQ(run.exit, 0) << run.text;
  EXPECT_THAT(run.text, ContainsRegex("step  train loss  val top1  val loss     time\r\n"));
  EXPECT_THAT(run.text, ContainsRegex("   3      [0-9.]{6}  +[0-9.]+ "));
  EXPECT_THAT(run.text, ContainsRegex("   6      [0-9.]{6}  +[0-9.]+ "));
}

// Lines of the run itself, from the first step on: what comes before them, messages, may be longer.
TEST_F(Terminal, NothingThatIsDrawnAgainIsWiderThanTheTerminal) {
  for (const uint16_t columns : {40, 52, 64, 80, 200}) {
    const OnTerminal run = train(columns, "run_" + std::to_string(columns), {"total=4 epochs"});
    ASSERT_EQ(run.exit, 0) << run.text;
    bool table = false;
    for (const std::string& line : drawn(run.text)) {
      if (line.find("host memory at most") != std::string::npos || line.starts_with("best checkpoint: ")) continue;
      table = table || line.starts_with("epoch");
      if (!table && !line.starts_with("e 1/")) continue;
      EXPECT_LT(line.size(), size_t{columns}) << line;
    }
    EXPECT_TRUE(table) << run.text;
    EXPECT_THAT(run.text, HasSubstr("train loss"));
    EXPECT_THAT(run.text, HasSubstr("val top1"));
  }
}

}  // namespace
}  // namespace tessera::cli
