#pragma once
// The console of a training run. Everything goes to stderr through base/log.h. On a terminal: a table with a row for each epoch
// or evaluation (monitor/console/score_table.h), and below it one line drawn again in place at most ten times a second:
//
//   compile  train_step 1.8 s (cached)
//   epoch  step  train loss  val top1  val loss   time
//       2   114      0.8012     90.10    0.4121   0:24
//   e 3/10 ━━━━━━━━━━╸───────── 31/57  loss 0.4120  lr 1.8e-4  142 img/s  wait 1%  ETA 5:12
//
// Neither is ever wider than the terminal, which is asked at each line, so that it may change. In a file: a plain line at each log
// interval and evaluation.
//
//   e 3/10 [31/57]  loss 0.412  lr 1.8e-4  142 img/s  wait 1%  ETA 5:12
//     val  step 171  top1 91.3 (+1.2) best  loss 0.331

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "monitor/console/score_table.h"

namespace tessera::monitor {

struct StepLine {
  int64_t step = 0;           // steps done since the start of the run
  int64_t epoch = 1;          // the current one, from 1
  int64_t epochs = 0;         // of the whole run; 0: not counted in epochs, then `step` and `steps` are shown
  int64_t steps = 0;          // of the whole run
  int64_t step_in_epoch = 0;  // from 1 to steps_per_epoch
  int64_t steps_per_epoch = 0;
  double loss = 0;
  double lr = 0;
  std::optional<double> images_per_second;  // nothing while no time was measured
  double wait = 0;                          // share of the time spent waiting for input, 0 to 1
  std::string wait_for;                     // the stage of the input that it waits for, where that matters
  std::optional<double> eta_seconds;        // nothing while it is not known
  std::optional<double> memory_bytes;       // most device memory in use so far, where the plugin tells it
};

struct EvalScore {
  std::string name;  // "top1"
  double value = 0;
};

struct EvalLine {
  std::string name;  // of the evaluator: "val"
  int64_t step = 0;
  std::vector<EvalScore> values;  // the first is the one that counts: {"top1", 91.3}, {"loss", 0.331}
  std::optional<double> change;   // of the first value, against the best so far
  bool best = false;              // it is better than all before
};

// The texts alone, without colour.
std::string step_text(const StepLine& line);
// As step_text with a bar in place of "[31/57]", at most `width` columns wide: figures that don't fit are left out, the least
// important first, and then the bar. `unicode`: the bar is "━━╸──", else "==>--".
std::string progress_text(const StepLine& line, int width, bool unicode);
std::string eval_text(const EvalLine& line);
// "18.4 s" after the name of what took so long; `note` as "cached" may be empty.
std::string phase_text(std::string_view phase, std::string_view what, double seconds, std::string_view note);

// 1.8e-4, 0.05, 0.001: three digits at most, short exponents.
std::string short_number(double value);

class Console {
 public:
  struct Options {
    bool terminal = false;
    bool unicode = true;
    std::function<int()> width;                    // columns of the terminal
    std::function<double()> clock;                 // seconds, monotonic
    std::function<void(std::string_view)> line;    // a finished line
    std::function<void(std::string_view)> status;  // the line in place; empty removes it
  };
  // stderr, its width and the steady clock.
  static Options standard();

  explicit Console(Options options = standard());
  // Removes the line in place.
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // Training begins, of so many steps, counted in epochs or not, with these scores: the table's columns.
  void begin(bool epochs, int64_t steps, std::vector<ScoreColumn> scores);
  // After each step (cheap when there is nothing to show). `log_now`: the step ends a log interval, which a file gets.
  void step(const StepLine& line, bool log_now);
  // A line of a file; on a terminal a part of the row to come.
  void evaluation(const EvalLine& line);
  // Ends a row of the table: an epoch, or evaluations. Its training loss is the mean of the steps since the row before, or
  // `loss` where there was none.
  void row(std::optional<double> epoch, int64_t step, std::optional<double> loss);
  void phase(std::string_view phase, std::string_view what, double seconds, std::string_view note = {});
  // Shows in place what is going on, until the next call of anything ("compile  train_step …").
  void busy(std::string_view text);
  void finish();

 private:
  void keep(const EvalLine& line);
  void forget_row();

  Options options_;
  double last_drawn_ = -1e9;
  std::optional<ScoreTable> table_;
  std::vector<ScoreColumn> scores_;
  std::vector<size_t> columns_;  // of the last header
  TableRow row_;                 // to come
  double loss_sum_ = 0, row_began_ = 0;
  int64_t losses_ = 0;
};

}  // namespace tessera::monitor
