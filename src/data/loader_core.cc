#include "data/loader_core.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

namespace tessera::data {
namespace {

constexpr size_t kAlignment = 4096;
constexpr int64_t kMaxGrain = 16;
constexpr size_t kLoggedSkips = 50;
constexpr int kReaders = 8;               // threads that wait for slow disks
constexpr int64_t kReadAheadBatches = 2;  // beyond the batches that are being filled

uint8_t* allocate_images(size_t bytes) {
  void* memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (!memory) throw std::bad_alloc();
  return static_cast<uint8_t*>(memory);
}

int64_t host_rows(const LoaderOptions& options) {
  return options.row_count < 0 ? options.batch - options.row_begin : options.row_count;
}

int thread_count(const LoaderOptions& options) {
  return options.threads > 0 ? options.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

// Numbers of a row that the device needs.
size_t augment_values(const std::vector<DataSet>& sets, const LoaderOptions& options) {
  const std::optional<Erasing>& erasing = sets.front().pp->erasing();
  return static_cast<size_t>((options.mixup ? kMixedRowValues : 0) + (erasing ? erasing->boxes * kEraseValues : 0));
}

}  // namespace

LoaderSlot::LoaderSlot(int64_t row_count, size_t image_bytes, size_t augment_count, std::vector<TokenField> fields)
    : rows(row_count),
      row_bytes(image_bytes),
      images(allocate_images(static_cast<size_t>(row_count) * image_bytes), std::free),
      labels(static_cast<size_t>(row_count)),
      mask(static_cast<size_t>(row_count)),
      samples(static_cast<size_t>(row_count)),
      sets(static_cast<size_t>(row_count)),
      augment_values(augment_count),
      augment(static_cast<size_t>(row_count) * augment_count),
      token_fields(std::move(fields)),
      cut_texts(static_cast<size_t>(row_count)),
      repairs(static_cast<size_t>(row_count)) {
  for (const TokenField& field : token_fields) tokens.emplace_back(static_cast<size_t>(row_count * field.length));
}

namespace {

size_t slot_bytes(int64_t rows, size_t row_bytes, size_t augment_count, const std::vector<TokenField>& fields) {
  size_t row = row_bytes + sizeof(int32_t) + sizeof(float) + sizeof(int64_t) + sizeof(int32_t) + augment_count * sizeof(float);
  for (const TokenField& field : fields) row += static_cast<size_t>(field.length) * sizeof(int32_t);
  return static_cast<size_t>(rows) * row;
}

}  // namespace

size_t LoaderSlot::bytes() const { return slot_bytes(rows, row_bytes, augment_values, token_fields); }

size_t batch_bytes(const std::vector<DataSet>& sets, const LoaderOptions& options) {
  const Pp& pp = *sets.front().pp;
  return slot_bytes(host_rows(options), pp.image_bytes(), augment_values(sets, options), pp.token_fields());
}

// Lives as long as the loader or any batch of it.
struct LoaderCore::Shared {
  std::mutex mutex;
  std::condition_variable work;   // a slot is free, or stop
  std::condition_variable ahead;  // there is more to read ahead, or stop
  std::condition_variable ready;  // a batch is complete
  std::vector<std::unique_ptr<LoaderSlot>> slots;
  std::vector<LoaderSlot*> free;
  std::deque<LoaderSlot*> open;  // being filled or complete, in the order of their batches
  bool stop = false;
};

LoaderCore::LoaderCore(std::vector<DataSet> sets, const LoaderOptions& options, int64_t end_batch, int64_t epoch, RowMaker rows)
    : sets_(std::move(sets)),
      maker_(std::move(rows)),
      max_bad_(options.max_bad),
      where_(options.where),
      rows_(host_rows(options)),
      next_batch_(options.start_batch),
      delivered_(options.start_batch),
      end_batch_(end_batch),
      epoch_(epoch),
      shared_(std::make_shared<Shared>()),
      skipped_(sets_.size()) {
  TESSERA_CHECK(options.start_batch >= 0 && options.prefetch >= 1);
  TESSERA_CHECK(rows_ >= 1 && options.row_begin >= 0 && options.row_begin + rows_ <= options.batch);
  const int threads = thread_count(options);
  grain_ = std::clamp<int64_t>(rows_ / (int64_t{threads} * 4), 1, kMaxGrain);
  for (int64_t i = 0; i < options.prefetch + kHeldBatches; ++i) {
    const Pp& pp = *sets_.front().pp;
    shared_->slots.push_back(
        std::make_unique<LoaderSlot>(rows_, pp.image_bytes(), augment_values(sets_, options), pp.token_fields()));
    shared_->free.push_back(shared_->slots.back().get());
  }
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  for (int i = 0; i < kReaders; ++i) threads_.emplace_back([this] { read_ahead(); });
}

LoaderCore::~LoaderCore() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->work.notify_all();
  shared_->ahead.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

// Whether there is a row to fill; opens the next batch when the current one is handed out. Under the lock.
bool LoaderCore::take_slot() {
  if (filling_ && filling_->next_row < rows_) return true;
  filling_ = nullptr;
  if (shared_->free.empty() || next_batch_ >= end_batch_) return false;
  filling_ = shared_->free.back();
  shared_->free.pop_back();
  filling_->batch = next_batch_++;
  filling_->next_row = filling_->done_rows = 0;
  filling_->error = nullptr;
  filling_->skips.clear();
  shared_->open.push_back(filling_);
  shared_->work.notify_all();
  shared_->ahead.notify_all();
  return true;
}

// Reads the files of the batches after those being filled, so that a worker finds them in memory.
void LoaderCore::read_ahead() {
  std::unique_lock lock(shared_->mutex);
  const auto more = [this] {
    if (ahead_batch_ < next_batch_) {
      ahead_batch_ = next_batch_;
      ahead_row_ = 0;
    }
    return ahead_batch_ < std::min(end_batch_, next_batch_ + kReadAheadBatches);
  };
  for (;;) {
    shared_->ahead.wait(lock, [&] { return shared_->stop || more(); });
    if (shared_->stop) return;
    const int64_t batch = ahead_batch_, row = ahead_row_;
    if (++ahead_row_ == rows_) {
      ++ahead_batch_;
      ahead_row_ = 0;
    }
    lock.unlock();
    maker_.prefetch(batch, row);
    lock.lock();
  }
}

void LoaderCore::work() {
  LoaderWorker worker;
  std::unique_lock lock(shared_->mutex);
  for (;;) {
    shared_->work.wait(lock, [this] { return shared_->stop || take_slot(); });
    if (shared_->stop) return;
    LoaderSlot& slot = *filling_;
    const int64_t begin = slot.next_row, end = std::min(rows_, begin + grain_);
    slot.next_row = end;
    const auto start = std::chrono::steady_clock::now();
    fill_rows({.slot = slot, .begin = begin, .end = end}, worker, lock);
    stats_.busy_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    for (LoaderWorker::Lane& lane : worker.lanes) stats_.stages += std::exchange(lane.run.scratch().seconds, {});
    slot.done_rows += end - begin;
    if (slot.done_rows == rows_) shared_->ready.notify_all();
  }
}

void LoaderCore::fill_rows(RowsToFill rows, LoaderWorker& worker, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  maker_.fill(rows, worker);
  lock.lock();
  LoaderSlot& slot = rows.slot;
  for (LoaderSlot::Skip& skip : rows.skips) slot.skips.push_back(std::move(skip));
  if (rows.error && (!slot.error || rows.error_row < slot.error_row)) {
    slot.error = rows.error;
    slot.error_row = rows.error_row;
  }
}

std::optional<Batch> LoaderCore::next() {
  std::unique_lock lock(shared_->mutex);
  if (failed_) std::rethrow_exception(failed_);
  if (delivered_ >= end_batch_) return std::nullopt;
  const auto start = std::chrono::steady_clock::now();
  const auto complete = [this] { return !shared_->open.empty() && shared_->open.front()->done_rows == rows_; };
  TESSERA_CHECK(!shared_->open.empty() || !shared_->free.empty(), "the caller holds all {} batches", shared_->slots.size());
  shared_->ready.wait(lock, complete);
  stats_.wait_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  LoaderSlot* slot = shared_->open.front();
  shared_->open.pop_front();
  failed_ = slot->error;
  try {
    account(*slot);
  } catch (...) {
    if (!failed_) failed_ = std::current_exception();
  }
  std::shared_ptr<LoaderSlot> borrowed(slot, [shared = shared_](LoaderSlot* done) {
    {
      const std::lock_guard guard(shared->mutex);
      shared->free.push_back(done);
    }
    shared->work.notify_one();
  });
  lock.unlock();  // handing a failed batch back takes the lock
  if (failed_) std::rethrow_exception(failed_);
  return Batch(std::move(borrowed));
}

// Counts a batch that is delivered, and names its skipped files: here and not in the workers, so that it happens in order.
void LoaderCore::account(LoaderSlot& slot) {
  ++delivered_;
  ++stats_.batches;
  for (const float present : slot.mask) stats_.images += present != 0;
  note_cut_texts(slot);
  std::stable_sort(slot.skips.begin(), slot.skips.end(), [](const auto& a, const auto& b) { return a.row < b.row; });
  for (const LoaderSlot::Skip& skip : slot.skips) note_skip(skip);
  count_repairs(slot);
}

void LoaderCore::count_repairs(const LoaderSlot& slot) {
  for (const Repairs repairs : slot.repairs) {
    stats_.repairs.add(repairs);
    epoch_repairs_.add(repairs);
  }
  if ((slot.batch + 1) % epoch_ != 0) return;
  if (epoch_repairs_ != RepairCounts() && epoch_repairs_ != told_repairs_) {
    log_note(fmt::format("{}: of an epoch's images {}", sets_.front().source->name(), epoch_repairs_.text()));
    told_repairs_ = epoch_repairs_;
  }
  epoch_repairs_ = {};
}

void LoaderCore::note_cut_texts(const LoaderSlot& slot) {
  for (size_t row = 0; row < slot.cut_texts.size(); ++row) {
    if (slot.cut_texts[row] == 0) continue;
    if (stats_.cut_texts == 0) {
      const Source& source = *sets_[static_cast<size_t>(slot.sets[row])].source;
      log_note(fmt::format(
          "the text of {}/{} has more ids than `tokenize` keeps, and was cut; further ones are counted but not named",
          source.name(), source.id(slot.samples[row])));
    }
    stats_.cut_texts += slot.cut_texts[row];
  }
}

void LoaderCore::note_skip(const LoaderSlot::Skip& skip) {
  ++stats_.skips;
  auto& known = skipped_[static_cast<size_t>(skip.set)];
  if (!known.insert(skip.sample).second) return;
  const Source& source = *sets_[static_cast<size_t>(skip.set)].source;
  stats_.skipped.push_back({skip.set, skip.sample, source.id(skip.sample), skip.reason});
  const size_t count = stats_.skipped.size();
  if (count <= kLoggedSkips)
    log_warning(fmt::format("skipped {}/{}: {}", source.name(), stats_.skipped.back().id, skip.reason));
  if (count == kLoggedSkips) log_warning("further unreadable files are counted but not named");
  const double share = static_cast<double>(known.size()) / static_cast<double>(source.size());
  if (known.size() == 1 || share <= max_bad_) return;
  throw data_error(
      fmt::format("{} of the {} samples of `{}` can't be read, more than {:g} %; the last is `{}`: {}", known.size(),
                  human_count(source.size()), source.name(), 100 * max_bad_, stats_.skipped.back().id, skip.reason),
      where_, "repair or remove them (`tessera data check` lists every one), or raise max_bad");
}

LoaderStats LoaderCore::stats() const {
  const std::lock_guard lock(shared_->mutex);
  return stats_;
}

StageSeconds LoaderCore::stages() const {
  const std::lock_guard lock(shared_->mutex);
  return stats_.stages;
}

size_t LoaderCore::bytes() const { return shared_->slots.size() * shared_->slots.front()->bytes(); }

int64_t Batch::index() const { return slot_->batch; }
int64_t Batch::rows() const { return slot_->rows; }
const uint8_t* Batch::images() const { return slot_->images.get(); }
size_t Batch::image_bytes() const { return static_cast<size_t>(slot_->rows) * slot_->row_bytes; }
const int32_t* Batch::labels() const { return slot_->labels.data(); }
const float* Batch::mask() const { return slot_->mask.data(); }
const int64_t* Batch::samples() const { return slot_->samples.data(); }
const int32_t* Batch::sets() const { return slot_->sets.data(); }
const std::vector<TokenField>& Batch::token_fields() const { return slot_->token_fields; }
const int32_t* Batch::tokens(size_t field) const { return slot_->tokens.at(field).data(); }
const float* Batch::augment() const { return slot_->augment.data(); }
int64_t Batch::augment_values() const { return static_cast<int64_t>(slot_->augment_values); }

}  // namespace tessera::data
