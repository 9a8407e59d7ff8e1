#pragma once
// The console of a training run. On a terminal: one line drawn again in place at most ten times a second, and finished lines
// for epochs and evaluations. In a file: a plain line at each log interval. Everything goes to stderr through base/log.h.
//
//   compile  train_step 1.8 s (cached)
//   e 3/10 [31/57]  loss 0.412  lr 1.8e-4  142 img/s  wait 1%  ETA 5:12
//     val  top1 91.3 (+1.2) best  loss 0.331

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
  double images_per_second = 0;
  double wait = 0;                     // share of the time spent waiting for input, 0 to 1
  std::string wait_for;                // the stage of the input that it waits for, where that matters
  std::optional<double> eta_seconds;   // nothing while it is not known
  std::optional<double> memory_bytes;  // device memory in use, where the plugin tells it
};

struct EvalLine {
  std::string name;                                    // of the evaluator: "val"
  std::vector<std::pair<std::string, double>> values;  // the first is the one that counts: {"top1", 91.3}, {"loss", 0.331}
  std::optional<double> change;                        // of the first value, against the best so far
  bool best = false;
};

// The texts alone, without colour.
std::string step_text(const StepLine& line);
// As step_text with a bar in place of "[31/57]", at most `width` columns wide. `unicode`: the bar is "━━╸──", else "==>--".
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

  // After each step (cheap when there is nothing to show). `log_now`: the step ends a log interval. A terminal keeps the line
  // of an epoch's last step, or of a log interval where the run isn't counted in epochs; a file gets every log interval.
  void step(const StepLine& line, bool log_now);
  void evaluation(const EvalLine& line);
  void phase(std::string_view phase, std::string_view what, double seconds, std::string_view note = {});
  // Shows in place what is going on, until the next call of anything ("compile  train_step …").
  void busy(std::string_view text);
  void finish();

 private:
  Options options_;
  double last_drawn_ = -1e9;
};

}  // namespace tessera::monitor
