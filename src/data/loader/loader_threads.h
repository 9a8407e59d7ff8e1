#pragma once
// What a loader's threads work on: batch slots, and who fills which rows. The threads own it as well, so that one which a disk
// or a decoder holds can be left behind: nothing that it touches is freed before it comes back. Only loader*.cc include this.

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "data/activity.h"
#include "data/loader/loader.h"
#include "data/loader/token_rows.h"

namespace tessera::data {

// The sizes of a row of a batch.
struct RowLayout {
  size_t image_bytes = 0, augment_values = 0;
  size_t multi_hot = 0;  // classes of a multi-hot row; 0: one label
  std::vector<TokenField> token_fields = {};

  size_t bytes() const;
};

// The memory of one batch.
struct LoaderSlot {
  LoaderSlot(int64_t row_count, const RowLayout& layout);
  size_t bytes() const;
  // The labels of a row's sample.
  void set_labels(size_t row, const Sample& sample);
  int32_t* row_tokens(size_t field, size_t row) {
    return tokens[field].data() + row * static_cast<size_t>(token_fields[field].length);
  }

  int64_t rows;
  size_t row_bytes;
  std::unique_ptr<uint8_t, void (*)(void*)> images;
  std::vector<int32_t> labels;
  size_t multi_hot_classes;
  std::vector<uint8_t> multi_hot;  // [rows, multi_hot_classes]
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
    std::string id, reason;
  };
  std::vector<Skip> skips;
  std::vector<image::Repairs> repairs;  // [rows]
};

// What one thread works with. It makes two rows at a time, because two files are decoded together in less time than one after
// the other (PpRun).
struct LoaderWorker {
  struct Job {
    PpRun run;
    Sample sample;
    int64_t row = -1;  // being filled, or -1
    uint64_t attempt = 0;
    SamplePick pick;
    TakenTexts texts;              // that the chain reads
    std::vector<int32_t*> tokens;  // where it writes
  };
  LoaderWorker() { jobs[0].run.share_tables(jobs[1].run); }
  // The job that the thread turned to last.
  std::optional<Activity::Seen> see() const;
  std::array<Job, 2> jobs;
};

// Rows of a slot to fill, and the outcome: skipped files are appended to `skips`, and `error` is what the first failing row threw.
// Rows after it may be left unfilled, and so may all once `stop` is set.
struct RowsToFill {
  LoaderSlot& slot;
  int64_t begin, end;
  const std::atomic<bool>& stop;
  std::vector<LoaderSlot::Skip> skips = {};
  std::exception_ptr error = nullptr;
  int64_t error_row = 0;
};

// How a loader makes rows. Both functions are called from several threads at once, and own what they use.
struct RowMaker {
  std::function<void(RowsToFill& rows, LoaderWorker& worker)> fill;
  // Row `row` of `batch` will be asked for soon: starts reading it. May take as long as a disk takes.
  std::function<void(int64_t batch, int64_t row)> prefetch;
};

// Lives as long as the loader, any batch of it or any of its threads. All members but `stop` under the mutex.
struct LoaderWork {
  std::mutex mutex;
  std::condition_variable work;   // a slot is free, or stop
  std::condition_variable ahead;  // there is more to read ahead, or stop
  std::condition_variable ready;  // a batch is complete
  std::condition_variable ended;  // no thread is left
  std::atomic<bool> stop = false;

  RowMaker maker;
  int64_t rows = 0, grain = 1;  // of a batch, and how many a thread takes at once
  int64_t next_batch = 0, end_batch = 0;
  std::vector<std::unique_ptr<LoaderSlot>> slots;
  std::vector<LoaderSlot*> free;
  std::deque<LoaderSlot*> open;  // being filled or complete, in the order of their batches
  LoaderSlot* filling = nullptr;
  int64_t ahead_batches = 2;               // that are read ahead, beyond those being filled
  int64_t ahead_batch = 0, ahead_row = 0;  // the next row to be read ahead
  std::deque<LoaderWorker> workers;        // one for each thread that fills
  int threads = 0;                         // that have not ended
  double busy_seconds = 0;
  StageSeconds stages;

  bool complete() const { return !open.empty() && open.front()->done_rows == rows; }
  bool take_slot();
  void fill(LoaderWorker& worker);
  void read_ahead();

 private:
  void fill_rows(RowsToFill to_fill, LoaderWorker& worker, std::unique_lock<std::mutex>& lock);
};

// The threads of a LoaderWork.
class LoaderThreads {
 public:
  // `fillers` that fill rows and `readers` that read ahead. Throws a usage Error at `where` when the system has no more
  // threads.
  LoaderThreads(std::shared_ptr<LoaderWork> work, int fillers, int readers, const std::string& where);
  // Says stop, and leaves those behind that don't come back at once.
  ~LoaderThreads();
  LoaderThreads(const LoaderThreads&) = delete;
  LoaderThreads& operator=(const LoaderThreads&) = delete;

 private:
  template <class Body>
  void start(std::string name, Body body);
  void end();
  std::shared_ptr<LoaderWork> work_;
  std::vector<std::thread> threads_;
};

}  // namespace tessera::data
