#include "monitor/console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/log.h"

namespace tessera::monitor {
namespace {

using ::testing::ElementsAre;

StepLine example() {
  StepLine line;
  line.step = 145, line.steps = 570;
  line.epoch = 3, line.epochs = 10;
  line.step_in_epoch = 31, line.steps_per_epoch = 57;
  line.loss = 0.41234, line.lr = 1.8e-4, line.images_per_second = 142.4, line.wait = 0.012;
  line.eta_seconds = 312;
  return line;
}

TEST(ConsoleText, StepLine) {
  StepLine line = example();
  EXPECT_EQ(step_text(line), "e 3/10 [31/57]  loss 0.4123  lr 1.8e-4  142 img/s  wait 1%  ETA 5:12");
  line.loss = 2;
  EXPECT_EQ(step_text(line).substr(0, 28), "e 3/10 [31/57]  loss 2.0000 ");
  line.loss = 3e-5;
  EXPECT_EQ(step_text(line).substr(0, 26), "e 3/10 [31/57]  loss 3e-5 ");
  line = example();
  line.eta_seconds.reset();
  line.memory_bytes = 1.5 * (1 << 30);
  line.epochs = 0;
  EXPECT_EQ(step_text(line), "step [145/570]  loss 0.4123  lr 1.8e-4  142 img/s  wait 1%  mem 1.50 GiB");
}

TEST(ConsoleText, ShortNumbers) {
  EXPECT_EQ(short_number(1.8e-4), "1.8e-4");
  EXPECT_EQ(short_number(1e-5), "1e-5");
  EXPECT_EQ(short_number(1.234e-10), "1.23e-10");
  EXPECT_EQ(short_number(0.001), "0.001");
  EXPECT_EQ(short_number(0.05), "0.05");
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(-2.5e-4), "-2.5e-4");
  EXPECT_EQ(short_number(123456), "1.23e5");
}

TEST(ConsoleText, TheBarFillsWithTheEpochAndFitsTheWidth) {
  StepLine line = example();
  EXPECT_EQ(progress_text(line, 90, false),
            "e 3/10 ============>---------- 31/57  loss 0.4123  lr 1.8e-4  142 img/s  wait 1%  ETA 5:12");
  line.step_in_epoch = 57;
  EXPECT_EQ(progress_text(line, 120, true),
            "e 3/10 ━━━━━━━━━━━━━━━━━━━━━━━━ 57/57  loss 0.4123  lr 1.8e-4  142 img/s  wait 1%  ETA 5:12");
  for (int width = 1; width < 80; ++width) EXPECT_LE(progress_text(line, width, false).size(), static_cast<size_t>(width));
  EXPECT_EQ(progress_text(line, 20, false), "e 3/10 [57/57]  loss");
}

TEST(ConsoleText, Evaluation) {
  EXPECT_EQ(eval_text({"val", {{"top1", 91.31}, {"loss", 0.331}}, 1.2, true}), "  val  top1 91.31 (+1.2) best  loss 0.331");
  EXPECT_EQ(eval_text({"val", {{"top1", 90}}, -0.25, false}), "  val  top1 90 (-0.25)");
  EXPECT_EQ(eval_text({"val", {{"top1", 90}}, {}, false}), "  val  top1 90");
}

TEST(ConsoleText, Phase) {
  EXPECT_EQ(phase_text("compile", "train_step", 1.84, "cached"), "compile  train_step 1.8 s (cached)");
  EXPECT_EQ(phase_text("compile", "eval", 0.173, ""), "compile  eval 0.17 s");
  EXPECT_EQ(phase_text("save", "step 200", 75, ""), "save     step 200 1:15");
}

struct Screen {
  std::vector<std::string> lines, statuses;
  double now = 0;
  Console::Options options(bool terminal) {
    return {terminal,
            false,
            [] { return 100; },
            [this] { return now; },
            [this](std::string_view t) { lines.emplace_back(t); },
            [this](std::string_view t) { statuses.emplace_back(t); }};
  }
};

TEST(Console, AFileGetsALineEachLogIntervalAndNothingElse) {
  Screen screen;
  {
    Console console(screen.options(false));
    StepLine line = example();
    for (line.step_in_epoch = 1; line.step_in_epoch <= 57; ++line.step_in_epoch) {
      screen.now += 1;
      console.step(line, line.step_in_epoch % 20 == 0);
    }
    console.busy("compile  eval …");
    console.evaluation({"val", {{"top1", 91}}, {}, false});
    console.phase("compile", "eval", 2, "");
  }
  EXPECT_TRUE(screen.statuses.empty());
  ASSERT_EQ(screen.lines.size(), 4u);
  EXPECT_EQ(screen.lines[0].substr(0, 14), "e 3/10 [20/57]");
  EXPECT_EQ(screen.lines[2], "  val  top1 91");
}

TEST(Console, ATerminalIsRedrawnAtMostTenTimesASecond) {
  Screen screen;
  Console console(screen.options(true));
  StepLine line = example();
  line.steps_per_epoch = 2000;
  for (line.step_in_epoch = 1; line.step_in_epoch < 2000; ++line.step_in_epoch) {
    screen.now = static_cast<double>(line.step_in_epoch) / 1000;
    console.step(line, line.step_in_epoch % 20 == 0);
  }
  EXPECT_TRUE(screen.lines.empty());
  EXPECT_GE(screen.statuses.size(), 18u);
  EXPECT_LE(screen.statuses.size(), 21u);
  EXPECT_NE(screen.statuses.back(), "");
  console.step(line, false);
  EXPECT_EQ(screen.statuses.back(), "") << "the line in place makes room for the epoch's finished line";
  ASSERT_EQ(screen.lines.size(), 1u);
  EXPECT_EQ(screen.lines[0].substr(0, 18), "e 3/10 [2000/2000]");
}

TEST(Console, ARunWithoutEpochsKeepsEachLogIntervalOnATerminal) {
  Screen screen;
  Console console(screen.options(true));
  StepLine line = example();
  line.epochs = 0;
  console.step(line, false);
  console.step(line, true);
  EXPECT_THAT(screen.lines, ElementsAre(step_text(line)));
}

TEST(Console, AnEvaluationRemovesTheLineInPlaceFirst) {
  Screen screen;
  Console console(screen.options(true));
  console.step(example(), false);
  console.evaluation({"val", {{"top1", 91}}, 1, true});
  EXPECT_EQ(screen.statuses.back(), "");
  EXPECT_THAT(screen.lines, ElementsAre("  val  top1 91 (+1) best"));
}

TEST(Log, MessagesAppearAboveTheStatusLineOfATerminal) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int before = log_descriptor();
  set_log_descriptor(ends[1]);
  log_status("a bar");  // a pipe is no terminal: nothing
  log_line("hello");
  set_log_descriptor(before);
  char text[64] = {};
  EXPECT_EQ(read(ends[0], text, sizeof(text)), 6);
  EXPECT_STREQ(text, "hello\n");
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace tessera::monitor
