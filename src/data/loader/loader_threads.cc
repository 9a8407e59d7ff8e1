#include "data/loader/loader_threads.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/system/file_calls.h"
#include "base/system/refused.h"
#include "base/system/spans.h"

namespace tessera::data {
namespace {

constexpr size_t kImagesAlignment = 4096;
// For threads that are about to come back: a sample takes less. The end of a loader waits no longer for a disk or a decoder.
constexpr auto kGrace = std::chrono::milliseconds(200);
// Is left to threads that have started: jemalloc ends the program where a new thread gets no memory for an arena.
constexpr size_t kLeft = 64 << 20;

uint8_t* allocate_images(size_t bytes) {
  void* memory = std::aligned_alloc(kImagesAlignment, (bytes + kImagesAlignment - 1) / kImagesAlignment * kImagesAlignment);
  if (!memory) throw std::bad_alloc();
  return static_cast<uint8_t*>(memory);
}

}  // namespace

LoaderSlot::LoaderSlot(int64_t row_count, const RowLayout& layout)
    : rows(row_count),
      row_bytes(layout.image_bytes),
      images(allocate_images(static_cast<size_t>(row_count) * layout.image_bytes), std::free),
      labels(static_cast<size_t>(row_count)),
      multi_hot_classes(layout.multi_hot),
      multi_hot(static_cast<size_t>(row_count) * layout.multi_hot),
      mask(static_cast<size_t>(row_count)),
      samples(static_cast<size_t>(row_count)),
      sets(static_cast<size_t>(row_count)),
      augment_values(layout.augment_values),
      augment(static_cast<size_t>(row_count) * layout.augment_values),
      token_fields(layout.token_fields),
      cut_texts(static_cast<size_t>(row_count)),
      repairs(static_cast<size_t>(row_count)) {
  for (const TokenField& field : token_fields) tokens.emplace_back(static_cast<size_t>(row_count * field.length));
}

size_t RowLayout::bytes() const {
  size_t row = image_bytes + multi_hot + augment_values * sizeof(float);
  row += sizeof(int32_t) + sizeof(float) + sizeof(int64_t) + sizeof(int32_t);  // label, mask, sample, set
  for (const TokenField& field : token_fields) row += static_cast<size_t>(field.length) * sizeof(int32_t);
  return row;
}

size_t LoaderSlot::bytes() const {
  return static_cast<size_t>(rows) * RowLayout{row_bytes, augment_values, multi_hot_classes, token_fields}.bytes();
}

void LoaderSlot::set_labels(size_t row, const Sample& sample) {
  labels[row] = sample.label;
  const auto own = multi_hot.begin() + static_cast<ptrdiff_t>(row * multi_hot_classes);
  std::fill_n(own, multi_hot_classes, uint8_t{0});
  if (multi_hot_classes == 0) return;
  for (const int32_t label : sample.labels) own[label] = 1;
}

std::optional<Activity::Seen> LoaderWorker::see() const {
  std::optional<Activity::Seen> last;
  for (const Job& job : jobs) {
    const std::optional<Activity::Seen> seen = job.run.scratch().activity().see();
    if (seen && (!last || seen->seconds < last->seconds)) last = seen;
  }
  return last;
}

// Whether there is a row to fill; opens the next batch when the current one is handed out. Under the lock.
bool LoaderWork::take_slot() {
  if (filling && filling->next_row < rows) return true;
  filling = nullptr;
  if (free.empty() || next_batch >= end_batch) return false;
  filling = free.back();
  free.pop_back();
  filling->batch = next_batch++;
  filling->next_row = filling->done_rows = 0;
  filling->error = nullptr;
  filling->skips.clear();
  open.push_back(filling);
  work.notify_all();
  ahead.notify_all();
  return true;
}

// Reads the files of the batches after those being filled, so that a worker finds them in memory.
void LoaderWork::read_ahead() {
  std::unique_lock lock(mutex);
  const auto more = [this] {
    if (ahead_batch < next_batch) {
      ahead_batch = next_batch;
      ahead_row = 0;
    }
    return ahead_batch < std::min(end_batch, next_batch + ahead_batches);
  };
  for (;;) {
    ahead.wait(lock, [&] { return stop || more(); });
    if (stop) return;
    const int64_t batch = ahead_batch, row = ahead_row;
    if (++ahead_row == rows) {
      ++ahead_batch;
      ahead_row = 0;
    }
    lock.unlock();
    try {
      const Span span(SpanKind::kInput, "read ahead", batch);
      maker.prefetch(batch, row);
    } catch (const InternalError&) {
      throw;
    } catch (const std::exception&) {
      // Whoever reads the sample meets the same, and tells it.
    }
    lock.lock();
  }
}

void LoaderWork::fill(LoaderWorker& worker) {
  std::unique_lock lock(mutex);
  for (;;) {
    work.wait(lock, [this] { return stop || take_slot(); });
    if (stop) return;
    LoaderSlot& slot = *filling;
    const int64_t begin = slot.next_row, end = std::min(rows, begin + grain);
    slot.next_row = end;
    const auto start = std::chrono::steady_clock::now();
    fill_rows({.slot = slot, .begin = begin, .end = end, .stop = stop}, worker, lock);
    busy_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    for (LoaderWorker::Job& job : worker.jobs) stages += std::exchange(job.run.scratch().seconds, {});
    slot.done_rows += end - begin;
    if (slot.done_rows == rows) ready.notify_all();
  }
}

void LoaderWork::fill_rows(RowsToFill to_fill, LoaderWorker& worker, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  maker.fill(to_fill, worker);
  lock.lock();
  LoaderSlot& slot = to_fill.slot;
  for (LoaderSlot::Skip& skip : to_fill.skips) slot.skips.push_back(std::move(skip));
  if (to_fill.error && (!slot.error || to_fill.error_row < slot.error_row)) {
    slot.error = to_fill.error;
    slot.error_row = to_fill.error_row;
  }
}

LoaderThreads::LoaderThreads(std::shared_ptr<LoaderWork> work, int fillers, int readers, const std::string& where)
    : work_(std::move(work)) {
  for (int i = 0; i < fillers; ++i) work_->workers.emplace_back();
  try {
    for (int i = 0; i < fillers; ++i) {
      start(fmt::format("input {}", i + 1),
            [work = work_.get(), worker = &work_->workers[static_cast<size_t>(i)]] { work->fill(*worker); });
    }
    for (int i = 0; i < readers; ++i) {
      start(fmt::format("read ahead {}", i + 1), [work = work_.get()] { work->read_ahead(); });
    }
  } catch (const std::system_error& error) {
    const size_t started = threads_.size();
    const bool no_memory = !thread_is_refused() && memory_ran_out();  // for a thread's stack
    end();
    throw usage_error(
        fmt::format("the system refuses thread {} of the {} that the input wants: {} to decode, {} to read ahead: {}",
                    started + 1, fillers + readers, fillers, readers, error.code().message()),
        where,
        no_memory
            ? "set data.threads lower, or raise the limit of memory where there is one: `ulimit -v` and `ulimit -d` say it"
            : "set data.threads lower, or raise the limit: `ulimit -u` and the container's pids.max say what it is");
  }
}

template <class Body>
void LoaderThreads::start(std::string name, Body body) {
  {
    const std::lock_guard lock(work_->mutex);
    ++work_->threads;
  }
  try {
    if (memory_is_refused(kLeft)) throw std::system_error(std::make_error_code(std::errc::not_enough_memory));
    threads_.emplace_back([work = work_, name = std::move(name), body] {
      name_thread(name);
      leave_out_file_calls();  // LoaderCore tells what hangs, and nobody waits for it at the end
      body();
      const std::lock_guard lock(work->mutex);
      if (--work->threads == 0) work->ended.notify_all();
    });
  } catch (...) {
    const std::lock_guard lock(work_->mutex);
    --work_->threads;
    throw;
  }
}

LoaderThreads::~LoaderThreads() { end(); }

void LoaderThreads::end() {
  bool all = false;
  {
    std::unique_lock lock(work_->mutex);
    work_->stop = true;
    work_->work.notify_all();
    work_->ahead.notify_all();
    all = work_->ended.wait_for(lock, kGrace, [this] { return work_->threads == 0; });
  }
  for (std::thread& thread : threads_) all ? thread.join() : thread.detach();
  threads_.clear();
}

}  // namespace tessera::data
