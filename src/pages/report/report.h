#pragma once
// `tessera report`: what a run came to, as one HTML file (page.h) with tables beside it.

#include <string>
#include <vector>

#include "store/file.h"

namespace tessera::report {

struct ReportOptions {
  std::string directory;  // where to; empty: <run>/report, or ./report for several runs
  bool png = false;       // the pictures as PNG files too
};

// Writes, atomically each:
//   index.html
//   NAME_classes.csv, NAME_confusion.csv, NAME_worst.csv   of each evaluator of a single run, as far as it has them
//   train.png, NAME_worst.png                              with `png`, of a single run
//   curves.png                                             with `png`, where librsvg is installed; else a warning
// Gives the path of index.html. The same run gives the same bytes. Usage Errors for what is no run (run.h), data Errors for
// what can't be read or written; images that can't be read are left out. `files` has the runs and takes the report.
std::string write_report(const std::vector<std::string>& runs, const ReportOptions& options = {},
                         store::FileSystem& files = store::local_files());

}  // namespace tessera::report
