#pragma once
// What is wrong with a run, told while it goes on: found in the lines of metrics.jsonl alone, one after the other, so that a run,
// its report and whoever else reads the file find the same.
//
//   kind        when
//   loss_spike  the training loss of two of three lines is far above the median of the 20 lines before them: 8 of their spreads
//               (a standard deviation, taken from medians of distances), and a tenth of all that the loss fell; or that of one
//               line is 40 spreads and half of the fall above it
//   input       the devices waited for input a quarter of the time or more, five lines in a row
//   images      all images of the step's batch are the same (images_alike), two lines in a row
//   process     one of several processes waited so much more for its input than the others that they waited for it (kHoldsUp of
//               monitor/process_figures.h), five lines in a row that tell of the processes
//   throughput  img/sec under 70 % of the median since this start began, five lines in a row
//   memory      the process's resident memory grew all along 150 lines, after an epoch of this start (until then caches fill), by
//               5 % and 64 MiB at least, and gave back in between an eighth of that at most, once
//   chance      prec@1 of an evaluator is within three standard errors of 1/classes, three evaluations in a row, after 300 steps
//               and an epoch
//
// An alert comes once, at the line that completes it. It comes again only after its cause was gone for some lines. Alerts of loss,
// images and scores follow from figures that a resumed run repeats byte for byte. The others follow from times and memory, and are
// counted anew at each start.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "monitor/metrics.h"

namespace tessera::monitor {

struct Alert {
  std::string kind;
  int64_t step = 0;    // of the line that completes it
  std::string text;    // a clause: "training slowed down to …"
  std::string advice;  // what to try, likewise: "try …"
};

// By evaluator: how many classes its prec@1 tells apart. Others are not compared with chance.
using ClassCounts = std::map<std::string, int64_t, std::less<>>;

class AlertDetector {
 public:
  virtual ~AlertDetector() = default;
  // `start`: the first line of a start of the run.
  virtual void add(const MetricRow& row, bool start, std::vector<Alert>& out) = 0;
};

class Alerts {
 public:
  explicit Alerts(const ClassCounts& classes = {});
  // The next line of metrics.jsonl; gives the alerts that it completes. Figures that it lacks are passed over.
  std::vector<Alert> add(const MetricRow& row);

 private:
  bool is_start(const MetricRow& row);

  std::vector<std::unique_ptr<AlertDetector>> detectors_;
  double init_hours_ = -1;
};

// Of all lines.
std::vector<Alert> alerts_of(const std::vector<MetricRow>& rows, const ClassCounts& classes = {});

}  // namespace tessera::monitor
