#pragma once
// The machinery of both loaders: slots, threads, delivery in order. Only loader*.cc include this.

#include <array>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <unordered_set>

#include "data/loader.h"
#include "data/token_rows.h"

namespace tessera::data {

// The memory of one batch.
struct LoaderSlot {
  LoaderSlot(int64_t row_count, size_t image_bytes, size_t augment_count, std::vector<TokenField> fields);
  size_t bytes() const;
  int32_t* row_tokens(size_t field, size_t row) {
    return tokens[field].data() + row * static_cast<size_t>(token_fields[field].length);
  }

  int64_t rows;
  size_t row_bytes;
  std::unique_ptr<uint8_t, void (*)(void*)> images;
  std::vector<int32_t> labels;
  std::vector<float> mask;
  std::vector<int64_t> samples;
  std::vector<int32_t> sets;
  size_t augment_values;  // a row
  std::vector<float> augment;
  std::vector<TokenField> token_fields;
  std::vector<std::vector<int32_t>> tokens;  // of each field
  std::vector<int64_t> cut_texts;            // of each row

  int64_t batch = 0, next_row = 0, done_rows = 0;
  std::exception_ptr error;  // of the first row that threw
  int64_t error_row = 0;
  struct Skip {
    int64_t row;
    int32_t set;
    int64_t sample;
    std::string reason;
  };
  std::vector<Skip> skips;
  std::vector<Repairs> repairs;  // [rows]
};

// What a thread works with: two samples at once (PpRun).
struct LoaderWorker {
  struct Lane {
    PpRun run;
    Sample sample;
    int64_t row = -1;  // being filled, or -1
    uint64_t attempt = 0;
    SamplePick pick;
    TakenTexts texts;              // that the chain reads
    std::vector<int32_t*> tokens;  // where it writes
  };
  LoaderWorker() { lanes[0].run.share_tables(lanes[1].run); }
  std::array<Lane, 2> lanes;
};

// Rows of a slot, and what came of them: skipped files are appended to `skips`, and `error` is what the first row threw that
// threw something. Those after it are not all filled.
struct RowsToFill {
  LoaderSlot& slot;
  int64_t begin, end;
  std::vector<LoaderSlot::Skip> skips = {};
  std::exception_ptr error = nullptr;
  int64_t error_row = 0;
};

// What a loader makes rows of. Both functions are called from several threads at once.
struct RowMaker {
  std::function<void(RowsToFill& rows, LoaderWorker& worker)> fill;
  // Row `row` of `batch` will be asked for soon: starts reading it. May take as long as a disk takes.
  std::function<void(int64_t batch, int64_t row)> prefetch;
};

class LoaderCore {
 public:
  // Batches options.start_batch <= b < end_batch; after each `epoch` of them the log tells what had to be repaired, if that
  // isn't what it told last.
  LoaderCore(std::vector<DataSet> sets, const LoaderOptions& options, int64_t end_batch, int64_t epoch, RowMaker rows);
  ~LoaderCore();
  std::optional<Batch> next();
  LoaderStats stats() const;
  StageSeconds stages() const;
  size_t bytes() const;

 private:
  struct Shared;
  void work();
  void read_ahead();
  bool take_slot();
  void fill_rows(RowsToFill rows, LoaderWorker& worker, std::unique_lock<std::mutex>& lock);
  void account(LoaderSlot& slot);
  void count_repairs(const LoaderSlot& slot);

  void note_cut_texts(const LoaderSlot& slot);
  void note_skip(const LoaderSlot::Skip& skip);

  std::vector<DataSet> sets_;
  RowMaker maker_;
  double max_bad_;
  std::string where_;
  int64_t rows_, grain_, next_batch_, delivered_, end_batch_, epoch_;
  int64_t ahead_batch_ = 0, ahead_row_ = 0;  // the next row to be read ahead
  std::shared_ptr<Shared> shared_;
  LoaderSlot* filling_ = nullptr;
  std::exception_ptr failed_;
  LoaderStats stats_;
  std::vector<std::unordered_set<int64_t>> skipped_;  // of each set
  RepairCounts epoch_repairs_, told_repairs_;
  std::vector<std::thread> threads_;
};

}  // namespace tessera::data
