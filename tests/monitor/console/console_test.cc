#include "monitor/console/console.h"

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

TEST(ConsoleText, NoRateWhereNoTimeWasMeasured) {
  StepLine line = example();
  line.images_per_second.reset();
  EXPECT_EQ(step_text(line), "e 3/10 [31/57]  loss 0.4123  lr 1.8e-4  wait 1%  ETA 5:12");
}

TEST(ConsoleText, TheBarFillsWithTheEpoch) {
  StepLine line = example();
  EXPECT_EQ(progress_text(line, 90, false),
            "e 3/10 ============>---------- 31/57  loss 0.4123  lr 1.8e-4  142 img/s  wait 1%  ETA 5:12");
  line.step_in_epoch = 57;
  EXPECT_EQ(progress_text(line, 120, true),
            "e 3/10 ━━━━━━━━━━━━━━━━━━━━━━━━ 57/57  loss 0.4123  lr 1.8e-4  142 img/s  wait 1%  ETA 5:12");
}

// Whole figures, the important ones longest.
TEST(ConsoleText, TheBarFitsEveryWidth) {
  StepLine line = example();
  line.memory_bytes = 1.5 * (1 << 30);
  line.wait_for = "decode";
  EXPECT_EQ(progress_text(line, 79, false), "e 3/10 =======>------ 31/57  loss 0.4123  142 img/s  wait 1% (decode)  ETA 5:12");
  EXPECT_EQ(progress_text(line, 59, false), "e 3/10 ======>----- 31/57  loss 0.4123  142 img/s  ETA 5:12");
  EXPECT_EQ(progress_text(line, 49, false), "e 3/10 [31/57]  loss 0.4123  142 img/s  ETA 5:12");
  EXPECT_EQ(progress_text(line, 39, false), "e 3/10 [31/57]  loss 0.4123  ETA 5:12");
  EXPECT_EQ(progress_text(line, 30, false), "e 3/10 [31/57]  loss 0.4123");
  EXPECT_EQ(progress_text(line, 10, false), "e 3/10 [31");
  for (int width = 1; width < 200; ++width) {
    EXPECT_LE(progress_text(line, width, false).size(), static_cast<size_t>(width));
  }
}

TEST(ConsoleText, Evaluation) {
  EXPECT_EQ(eval_text({"val", 171, {{"top1", 91.31}, {"loss", 0.331}}, 1.2, true}),
            "  val  step 171  top1 91.31 (+1.2) best  loss 0.331");
  EXPECT_EQ(eval_text({"val", 1, {{"top1", 90}}, -0.25, false}), "  val  step 1  top1 90 (-0.25)");
  EXPECT_EQ(eval_text({"val", 0, {{"top1", 90}}, {}, false}), "  val  step 0  top1 90");
}

TEST(ConsoleText, Phase) {
  EXPECT_EQ(phase_text("compile", "train_step", 1.84, "cached"), "compile  train_step 1.8 s (cached)");
  EXPECT_EQ(phase_text("compile", "eval", 0.173, ""), "compile  eval 0.17 s");
  EXPECT_EQ(phase_text("save", "step 200", 75, ""), "save     step 200 1:15");
}

struct Screen {
  std::vector<std::string> lines, statuses;
  double now = 0;
  int width = 100;
  Console::Options options(bool terminal) {
    return {terminal,
            false,
            [this] { return width; },
            [this] { return now; },
            [this](std::string_view t) { lines.emplace_back(t); },
            [this](std::string_view t) { statuses.emplace_back(t); }};
  }
};

TEST(Console, AFileGetsALineEachLogIntervalAndNothingElse) {
  Screen screen;
  {
    Console console(screen.options(false));
    console.begin(true, 570, {{"val", "top1", true}});
    StepLine line = example();
    for (line.step_in_epoch = 1; line.step_in_epoch <= 57; ++line.step_in_epoch) {
      screen.now += 1;
      console.step(line, line.step_in_epoch % 20 == 0);
    }
    console.busy("compile  eval …");
    console.evaluation({"val", 171, {{"top1", 91}}, {}, false});
    console.row(3, 171, 0.5);
    console.phase("compile", "eval", 2, "");
  }
  EXPECT_TRUE(screen.statuses.empty());
  ASSERT_EQ(screen.lines.size(), 4u);
  EXPECT_EQ(screen.lines[0].substr(0, 14), "e 3/10 [20/57]");
  EXPECT_EQ(screen.lines[2], "  val  step 171  top1 91");
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
}

StepLine step_of(int64_t step, double loss) {
  StepLine line = example();
  line.step = step, line.loss = loss;
  return line;
}

TEST(Console, ATerminalGetsATable) {
  Screen screen;
  Console console(screen.options(true));
  console.begin(true, 570, {{"val", "top1", true}, {"val", "loss"}, {"knn", "top1", true}});
  for (int64_t step = 1; step <= 57; ++step) console.step(step_of(step, step % 2 == 0 ? 1 : 2), step % 20 == 0);
  screen.now = 8.25;
  console.row(1, 57, {});
  EXPECT_EQ(screen.statuses.back(), "") << "the bar makes room";
  console.step(step_of(58, 1), false);
  console.step(step_of(59, 3), false);
  console.evaluation({"val", 59, {{"top1", 91.234}, {"loss", 0.331}}, {}, false});
  console.evaluation({"other", 59, {{"top1", 1}}, {}, false});
  screen.now = 100;
  console.row(1.04, 59, {});
  console.evaluation({"knn", 114, {{"top1", 100}}, 1, true});
  console.row(2, 114, 12345.6);
  EXPECT_THAT(screen.lines, ElementsAre("epoch  step  train loss  val top1  val loss  knn top1     time",  //
                                        "    1    57      1.5088         -         -         -    8.2 s",  //
                                        " 1.04    59      2.0000     91.23    0.3310         -     1:32",  //
                                        "    2   114      1.23e4         -         -    100.00    0.0 s"));
}

TEST(Console, ARunThatIsNotCountedInEpochsHasRowsOfSteps) {
  Screen screen;
  Console console(screen.options(true));
  console.begin(false, 100'000, {{"val", "loss"}});
  console.evaluation({"val", 0, {{"loss", 7.1}}, {}, false});
  console.row({}, 0, {});
  console.step(step_of(1000, 3), true);
  console.evaluation({"val", 1000, {{"loss", 2.5}}, -4.6, true});
  console.row({}, 1000, 3);
  EXPECT_THAT(screen.lines, ElementsAre("  step  train loss  val loss     time",  //
                                        "     0           -    7.1000    0.0 s",  //
                                        "  1000      3.0000    2.5000    0.0 s"));
}

TEST(Console, TheBestScoreStandsOutWhereColourIsOn) {
  Screen screen;
  Console console(screen.options(true));
  console.begin(false, 9, {{"val", "top1", true}, {"val", "loss"}});
  set_color_mode(ColorMode::kAlways);
  console.evaluation({"val", 9, {{"top1", 91}, {"loss", 1}}, 1, true});
  console.row({}, 9, 3);
  set_color_mode(ColorMode::kAuto);
  ASSERT_EQ(screen.lines.size(), 2u);
  EXPECT_EQ(screen.lines[1], "   9      3.0000     \033[32m91.00\033[0m    1.0000    0.0 s");
}

// No line is ever wider than the terminal is at that moment, and the header says which columns are left.
TEST(Console, TheTableFollowsTheWidth) {
  Screen screen;
  Console console(screen.options(true));
  const std::vector<ScoreColumn> scores = {{"validation", "top1", true},
                                           {"validation", "top5", true},
                                           {"validation", "loss"},
                                           {"a_second_evaluator", "top1", true},
                                           {"a_second_evaluator", "loss"}};
  console.begin(true, 1'000'000, scores);
  const auto row = [&](int width) {
    screen.lines.clear(), screen.width = width;
    console.evaluation({"validation", 1, {{"top1", 9}, {"top5", 99}, {"loss", 1e30}}, {}, false});
    console.row(123.456, 999'999, -1e30);
    for (const std::string& line : screen.lines) EXPECT_LT(line.size(), static_cast<size_t>(width)) << line;
    return screen.lines.front();
  };
  EXPECT_EQ(row(200),
            "epoch     step  train loss  valida top1  validation top5  validation loss  a_second_evalua top1  "
            "a_second_evalua loss     time");
  for (int width = 199; width >= 40; --width) row(width);
  EXPECT_EQ(row(40), "123.5       -1e30         9.00    0.0 s") << "no header again, since the columns are the same";
  EXPECT_EQ(row(70), "epoch  train loss  valida top1  a_second_evalua top1     time");
  console.step(example(), false);
  EXPECT_LT(screen.statuses.back().size(), 70u);
}

TEST(Console, AnEvaluationRemovesTheLineInPlaceFirst) {
  Screen screen;
  Console console(screen.options(true));
  console.begin(true, 570, {{"val", "top1", true}});
  console.step(example(), false);
  console.evaluation({"val", 145, {{"top1", 91}}, 1, true});
  EXPECT_EQ(screen.statuses.back(), "");
  EXPECT_TRUE(screen.lines.empty()) << "a part of the row to come";
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
