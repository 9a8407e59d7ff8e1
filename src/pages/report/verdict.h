#pragma once
// A run in words: how it ended, how good it got and when, what went wrong, and what to try.

#include <optional>
#include <string>
#include <vector>

#include "pages/report/run.h"

namespace tessera::report {

struct Remark {
  // What it is about: ended, unread, score, improving, overfitting, input, unstable, skipped, chance, unreadable, or a kind of alert
  // (monitor/alerts.h), where no other remark is about that.
  std::string topic;
  std::string text;    // whole sentences
  std::string advice;  // what to try; may be empty
  bool trouble = false;
};

// How far the run got: its state of run.json in words, with steps and the share of its length.
Remark ending(const SavedRun& run);

// The ending first, then what of the run could not be read, the scores, and the troubles. Thresholds stand in verdict.cc.
std::vector<Remark> verdict(const SavedRun& run);

}  // namespace tessera::report
