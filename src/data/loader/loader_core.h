#pragma once
// Shared by both loaders: batches in order, their counts, and the messages while one is waited for. Only loader*.cc
// include this.

#include <unordered_set>

#include "data/loader/loader_threads.h"

namespace tessera::data {

class LoaderCore {
 public:
  // Batches options.start_batch <= b < end_batch; after each `epoch` of them the log tells what had to be repaired, if that
  // isn't what it told last.
  LoaderCore(std::vector<DataSet> sets, const LoaderOptions& options, int64_t end_batch, int64_t epoch, RowMaker rows);
  bool wait(const StopWaiting& stop);
  // "no batch for 60 s: reading of `a/05.png` has taken 60 s so far; 1 of 4 threads are busy". On any thread.
  std::string what_hangs(double seconds) const;
  std::optional<Batch> next();
  LoaderStats stats() const;
  StageSeconds stages() const;
  size_t bytes() const;

 private:
  void make_slots(const LoaderOptions& options);
  void account(LoaderSlot& slot);
  void count_repairs(const LoaderSlot& slot);
  void note_cut_texts(const LoaderSlot& slot);
  void note_skip(const LoaderSlot::Skip& skip);

  std::vector<DataSet> sets_;
  const LoaderOptions options_;
  int64_t delivered_, end_batch_, epoch_;
  std::exception_ptr failed_;
  LoaderStats stats_;                                 // but for what the threads count
  std::vector<std::unordered_set<int64_t>> skipped_;  // of each set
  image::RepairCounts epoch_repairs_, told_repairs_;
  std::shared_ptr<LoaderWork> work_;
  std::optional<LoaderThreads> threads_;
};

}  // namespace tessera::data
