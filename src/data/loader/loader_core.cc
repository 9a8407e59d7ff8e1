#include "data/loader/loader_core.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <system_error>
#include <utility>

#include "base/cores.h"
#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/system/file_calls.h"
#include "base/system/process.h"
#include "base/system/seconds_since.h"
#include "base/text/text.h"
#include "store/url.h"

namespace tessera::data {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMaxGrain = 16;
constexpr size_t kLoggedSkips = 50;
// Threads that wait for slow disks, and for servers, which take tens of milliseconds to answer. kServerRows: how many rows these go
// ahead of the batches that are being filled.
constexpr int kReaders = 8, kServerReaders = 64;
constexpr int64_t kServerRows = 256;
constexpr auto kLookForStop = std::chrono::milliseconds(50);
constexpr double kAgain = 5;  // times the patience until what hangs is reported again

int64_t host_rows(const LoaderOptions& options) {
  return options.row_count < 0 ? options.batch - options.row_begin : options.row_count;
}

int loading_threads(const LoaderOptions& options) {
  return options.threads > 0 ? options.threads : static_cast<int>(usable_cores());
}

// Numbers of a row that the device needs.
size_t augment_values(const std::vector<DataSet>& sets, const LoaderOptions& options) {
  const std::optional<Erasing>& erasing = sets.front().pp->erasing();
  return static_cast<size_t>((options.mixup ? image::kMixedRowValues : 0) + (erasing ? erasing->boxes * kEraseValues : 0));
}

RowLayout row_layout(const std::vector<DataSet>& sets, const LoaderOptions& options) {
  const Pp& pp = *sets.front().pp;
  const Source& source = *sets.front().source;
  return {pp.image_bytes(), augment_values(sets, options), source.multi_label() ? source.class_names().size() : 0,
          pp.token_fields()};
}

// The sample's name, for which some sources read a file: where that doesn't come at once, its number.
std::string name_in_time(std::shared_ptr<const Source> source, int64_t sample) {
  constexpr auto kPatience = std::chrono::milliseconds(200);
  const auto name = std::make_shared<std::promise<std::string>>();
  std::future<std::string> known = name->get_future();
  std::string fallback = fmt::format("sample {} of `{}`", sample, one_line(source->name()));
  try {
    std::thread([name, source = std::move(source), sample] {
      leave_out_file_calls();
      try {
        name->set_value(fmt::format("`{}/{}`", one_line(source->name()), one_line(source->id(sample))));
      } catch (const InternalError&) {
        throw;
      } catch (const std::exception&) {
        name->set_value({});
      }
    }).detach();
  } catch (const std::system_error&) {
    return fallback;
  }
  if (known.wait_for(kPatience) != std::future_status::ready) return fallback;
  const std::string found = known.get();
  return found.empty() ? fallback : found;
}

// Before any of it is taken: a system that promises more than it has would end the process later, without a word.
void check_memory(const std::vector<DataSet>& sets, const LoaderOptions& options) {
  const double slots = options.prefetch + kHeldBatches, batch = static_cast<double>(batch_bytes(sets, options));
  const auto there = static_cast<double>(physical_memory_bytes());
  if (there <= 0 || slots * batch <= there) return;
  throw usage_error(fmt::format("{:.0f} batches of {} would take {}, and this machine has {} of memory", slots,
                                human_bytes(batch), human_bytes(slots * batch), human_bytes(there)),
                    options.where, "make the batch or data.prefetch smaller");
}

// Whether its files are on a server.
bool is_served(const Source& source) {
  const std::vector<std::string> shards = source.shard_paths();
  return store::is_remote(shards.empty() ? source.name() : shards.front());
}

}  // namespace

size_t batch_bytes(const std::vector<DataSet>& sets, const LoaderOptions& options) {
  return static_cast<size_t>(host_rows(options)) * row_layout(sets, options).bytes();
}

LoaderCore::LoaderCore(std::vector<DataSet> sets, const LoaderOptions& options, int64_t end_batch, int64_t epoch, RowMaker rows)
    : sets_(std::move(sets)),
      options_(options),
      delivered_(options.start_batch),
      end_batch_(end_batch),
      epoch_(epoch),
      skipped_(sets_.size()),
      work_(std::make_shared<LoaderWork>()) {
  TESSERA_CHECK(options.start_batch >= 0 && options.prefetch >= 1);
  const int64_t count = host_rows(options);
  TESSERA_CHECK(count >= 1 && options.row_begin >= 0 && options.row_begin + count <= options.batch);
  check_memory(sets_, options);
  const int threads = loading_threads(options);
  work_->maker = std::move(rows);
  work_->rows = count;
  work_->grain = std::clamp<int64_t>(count / (int64_t{threads} * 4), 1, kMaxGrain);
  work_->next_batch = options.start_batch;
  work_->end_batch = end_batch;
  make_slots(options);
  const bool served = std::ranges::any_of(sets_, [](const DataSet& set) { return is_served(*set.source); });
  if (served) work_->ahead_batches = std::max(work_->ahead_batches, (kServerRows + count - 1) / count);
  threads_.emplace(work_, threads, served ? kServerReaders : kReaders, options_.where);
}

void LoaderCore::make_slots(const LoaderOptions& options) {
  const RowLayout layout = row_layout(sets_, options);
  for (int64_t i = 0; i < options.prefetch + kHeldBatches; ++i) {
    work_->slots.push_back(std::make_unique<LoaderSlot>(work_->rows, layout));
    work_->free.push_back(work_->slots.back().get());
  }
}

bool LoaderCore::wait(const StopWaiting& stop) {
  std::unique_lock lock(work_->mutex);
  if (failed_ || delivered_ >= end_batch_ || work_->complete()) return true;
  TESSERA_CHECK(!work_->open.empty() || !work_->free.empty(), "the caller holds all {} batches", work_->slots.size());
  const Clock::time_point start = Clock::now();
  double tell_at = options_.patience_seconds;
  bool stopped = false;
  while (!work_->complete() && !stopped) {
    work_->ready.wait_for(lock, kLookForStop, [this] { return work_->complete(); });
    lock.unlock();
    stopped = stop && stop();
    if (const double waited = seconds_since(start); waited >= tell_at) {
      log_warning(what_hangs(waited) +
                  "\nhelp: see whether the disk or the network that holds it answers; a stop signal does not wait for it");
      tell_at += kAgain * options_.patience_seconds;
    }
    lock.lock();
  }
  stats_.wait_seconds += seconds_since(start);
  return work_->complete();
}

std::string LoaderCore::what_hangs(double seconds) const {
  std::optional<Activity::Seen> longest;
  size_t busy = 0;
  for (const LoaderWorker& worker : work_->workers) {
    const std::optional<Activity::Seen> seen = worker.see();
    busy += seen.has_value();
    if (seen && (!longest || seen->seconds > longest->seconds)) longest = seen;
  }
  std::string text = fmt::format("no batch for {:.0f} s", seconds);
  if (longest) {
    text += fmt::format(": {} of {} has taken {:.0f} s so far; {} of {} threads are busy", longest->phase,
                        name_in_time(sets_[static_cast<size_t>(longest->set)].source, longest->sample), longest->seconds, busy,
                        work_->workers.size());
  }
  return text;
}

std::optional<Batch> LoaderCore::next() {
  wait({});
  std::unique_lock lock(work_->mutex);
  if (failed_) std::rethrow_exception(failed_);
  if (delivered_ >= end_batch_) return std::nullopt;
  LoaderSlot* slot = work_->open.front();
  work_->open.pop_front();
  failed_ = slot->error;
  try {
    account(*slot);
  } catch (...) {
    if (!failed_) failed_ = std::current_exception();
  }
  std::shared_ptr<LoaderSlot> borrowed(slot, [work = work_](LoaderSlot* done) {
    {
      const std::lock_guard guard(work->mutex);
      work->free.push_back(done);
    }
    work->work.notify_one();
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
  for (const image::Repairs repairs : slot.repairs) {
    stats_.repairs.add(repairs);
    epoch_repairs_.add(repairs);
  }
  if ((slot.batch + 1) % epoch_ != 0) return;
  // Its batches are rarely those of one epoch of the order, so that the numbers differ a little from each to the next.
  if (epoch_repairs_.has_other_than(told_repairs_)) {
    log_note(fmt::format("{}: of an epoch's images {}", sets_.front().source->name(), epoch_repairs_.text()));
    told_repairs_ = stats_.repairs;
  }
  epoch_repairs_ = {};
}

void LoaderCore::note_cut_texts(const LoaderSlot& slot) {
  for (size_t row = 0; row < slot.cut_texts.size(); ++row) {
    if (slot.cut_texts[row] == 0) continue;
    if (stats_.cut_texts == 0) {
      const std::string name = name_in_time(sets_[static_cast<size_t>(slot.sets[row])].source, slot.samples[row]);
      log_note(fmt::format(
          "the text of {} has more ids than `tokenize` keeps, and was cut; further ones are counted but not named", name));
    }
    stats_.cut_texts += slot.cut_texts[row];
  }
}

void LoaderCore::note_skip(const LoaderSlot::Skip& skip) {
  ++stats_.skips;
  auto& known = skipped_[static_cast<size_t>(skip.set)];
  if (!known.insert(skip.sample).second) return;
  const Source& source = *sets_[static_cast<size_t>(skip.set)].source;
  stats_.skipped.push_back({skip.set, skip.sample, skip.id, skip.reason});
  const size_t count = stats_.skipped.size();
  if (count <= kLoggedSkips)
    log_warning(fmt::format("skipped {}/{}: {}", source.name(), one_line(stats_.skipped.back().id), one_line(skip.reason)));
  if (count == kLoggedSkips) log_warning("further unreadable files are counted but not named");
  expect_few_unreadable(source, static_cast<int64_t>(known.size()), stats_.skipped.back(), options_);
}

LoaderStats LoaderCore::stats() const {
  const std::lock_guard lock(work_->mutex);
  LoaderStats all = stats_;
  all.stages = work_->stages;
  all.busy_seconds = work_->busy_seconds;
  return all;
}

StageSeconds LoaderCore::stages() const {
  const std::lock_guard lock(work_->mutex);
  return work_->stages;
}

size_t LoaderCore::bytes() const { return work_->slots.size() * work_->slots.front()->bytes(); }

int64_t Batch::index() const { return slot_->batch; }
int64_t Batch::rows() const { return slot_->rows; }
const uint8_t* Batch::images() const { return slot_->images.get(); }
size_t Batch::image_bytes() const { return static_cast<size_t>(slot_->rows) * slot_->row_bytes; }
const int32_t* Batch::labels() const { return slot_->labels.data(); }
const uint8_t* Batch::multi_hot() const { return slot_->multi_hot.data(); }
int64_t Batch::multi_hot_classes() const { return static_cast<int64_t>(slot_->multi_hot_classes); }
const float* Batch::mask() const { return slot_->mask.data(); }
const int64_t* Batch::samples() const { return slot_->samples.data(); }
const int32_t* Batch::sets() const { return slot_->sets.data(); }
const std::vector<TokenField>& Batch::token_fields() const { return slot_->token_fields; }
const int32_t* Batch::tokens(size_t field) const { return slot_->tokens.at(field).data(); }
const float* Batch::augment() const { return slot_->augment.data(); }
int64_t Batch::augment_values() const { return static_cast<int64_t>(slot_->augment_values); }

}  // namespace tessera::data
