#pragma once
// The machinery of both loaders: slots, threads, delivery in order. Only loader*.cc include this.

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <unordered_set>

#include "data/loader.h"

namespace tessera::data {

// The memory of one batch.
struct LoaderSlot {
  LoaderSlot(int64_t row_count, size_t image_bytes);
  size_t bytes() const;

  int64_t rows;
  size_t row_bytes;
  std::unique_ptr<uint8_t, void (*)(void*)> images;
  std::vector<int32_t> labels;
  std::vector<float> mask;
  std::vector<int64_t> samples;

  int64_t batch = 0, next_row = 0, done_rows = 0;
  std::exception_ptr error;  // of the first row that threw
  int64_t error_row = 0;
  struct Skip {
    int64_t row, sample;
    std::string reason;
  };
  std::vector<Skip> skips;
};

// What a thread works with.
struct LoaderWorker {
  PpScratch scratch;
  Sample sample;
};

// Fills row `row` of `slot`. Skipped files are appended to `skips`.
using FillRow = std::function<void(LoaderSlot& slot, int64_t row, LoaderWorker& worker, std::vector<LoaderSlot::Skip>& skips)>;

class LoaderCore {
 public:
  // Batches options.start_batch <= b < end_batch.
  LoaderCore(std::shared_ptr<const Source> source, const LoaderOptions& options, size_t row_bytes, int64_t end_batch,
             FillRow fill);
  ~LoaderCore();
  std::optional<Batch> next();
  LoaderStats stats() const;
  size_t bytes() const;

 private:
  struct Shared;
  void work();
  bool take_slot();
  void fill_rows(LoaderSlot& slot, int64_t begin, int64_t end, LoaderWorker& worker, std::unique_lock<std::mutex>& lock);
  void account(LoaderSlot& slot);

  std::shared_ptr<const Source> source_;
  FillRow fill_;
  int64_t rows_, grain_, next_batch_, delivered_, end_batch_;
  std::shared_ptr<Shared> shared_;
  LoaderSlot* filling_ = nullptr;
  std::exception_ptr failed_;
  LoaderStats stats_;
  std::unordered_set<int64_t> logged_;
  std::vector<std::thread> threads_;
};

}  // namespace tessera::data
