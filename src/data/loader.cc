#include "data/loader.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/rng.h"
#include "base/text.h"
#include "data/loader_core.h"
#include "data/order.h"

namespace tessera::data {
namespace {

constexpr uint64_t kMaxAttempts = 1000;

// What both loaders fill rows from.
struct RowMaker {
  std::shared_ptr<const Source> source;
  std::shared_ptr<const Pp> pp;
  LoaderOptions options;

  uint64_t position(const LoaderSlot& slot, int64_t row) const {
    return static_cast<uint64_t>(slot.batch * options.batch + options.row_begin + row);
  }

  // Sample `at` into row `row`; or a reason.
  DecodeResult make(LoaderSlot& slot, int64_t row, int64_t sample, const SampleKey& key, LoaderWorker& worker) const {
    const auto r = static_cast<size_t>(row);
    slot.samples[r] = sample;
    slot.mask[r] = 1;
    const auto start = std::chrono::steady_clock::now();
    std::optional<std::string> failed = source->read(sample, worker.sample);
    worker.scratch.seconds.read += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (failed) return DecodeError{std::move(*failed)};
    slot.labels[r] = worker.sample.label;
    uint8_t* pixels = slot.images.get() + r * slot.row_bytes;
    if (source->fill_pixels(sample, {pixels, slot.row_bytes})) return std::nullopt;
    return pp->run(worker.sample.image, key, worker.scratch, pixels);
  }

  Error unreadable(int64_t sample, const std::string& reason) const {
    return data_error(fmt::format("cannot read `{}/{}`: {}", source->name(), source->id(sample), reason), options.where,
                      "remove or repair the file; `tessera data check` lists all such files");
  }
};

void fill_train_row(const RowMaker& rows, LoaderSlot& slot, int64_t row, LoaderWorker& worker,
                    std::vector<LoaderSlot::Skip>& skips) {
  const LoaderOptions& options = rows.options;
  const Order order(rows.source->size(), options.seed);
  const uint64_t position = rows.position(slot, row);
  const uint64_t attempts = std::min<uint64_t>(static_cast<uint64_t>(order.size()), kMaxAttempts);
  for (uint64_t attempt = 0; attempt < attempts; ++attempt) {
    const Position at = attempt == 0 ? order.at(position) : order.replacement(position, attempt);
    // A replacement draws its own crop, so that it is not the same picture again.
    const uint64_t seed = attempt == 0 ? options.seed : options.seed ^ hash_name("replacement");
    DecodeResult failed = rows.make(slot, row, at.sample, {seed, at.epoch, static_cast<uint64_t>(at.sample)}, worker);
    if (!failed) return;
    if (options.unreadable == Unreadable::kError) throw rows.unreadable(at.sample, failed->reason);
    skips.push_back({row, at.sample, std::move(failed->reason)});
  }
  const LoaderSlot::Skip& last = skips.back();
  throw data_error(
      fmt::format("{} images in a row cannot be read; the last is `{}/{}`: {}", human_count(static_cast<int64_t>(attempts)),
                  rows.source->name(), rows.source->id(last.sample), last.reason),
      options.where, "`tessera data check` lists every unreadable file");
}

void clear_row(LoaderSlot& slot, int64_t row) {
  const auto r = static_cast<size_t>(row);
  std::memset(slot.images.get() + r * slot.row_bytes, 0, slot.row_bytes);
  slot.labels[r] = 0;
  slot.mask[r] = 0;
}

void fill_eval_row(const RowMaker& rows, LoaderSlot& slot, int64_t row, LoaderWorker& worker,
                   std::vector<LoaderSlot::Skip>& skips) {
  const auto sample = static_cast<int64_t>(rows.position(slot, row));
  if (sample >= rows.source->size()) {
    clear_row(slot, row);
    slot.samples[static_cast<size_t>(row)] = -1;
    return;
  }
  DecodeResult failed = rows.make(slot, row, sample, {rows.options.seed, 0, static_cast<uint64_t>(sample)}, worker);
  if (!failed) return;
  if (rows.options.unreadable == Unreadable::kError) throw rows.unreadable(sample, failed->reason);
  clear_row(slot, row);
  skips.push_back({row, sample, std::move(failed->reason)});
}

using FillFunction = void (*)(const RowMaker&, LoaderSlot&, int64_t, LoaderWorker&, std::vector<LoaderSlot::Skip>&);

std::unique_ptr<LoaderCore> make_core(RowMaker rows, int64_t end_batch, FillFunction fill) {
  const auto source = rows.source;
  const LoaderOptions options = rows.options;
  const size_t row_bytes = rows.pp->image_bytes();
  return std::make_unique<LoaderCore>(
      source, options, row_bytes, end_batch,
      [rows = std::move(rows), fill](LoaderSlot& slot, int64_t row, LoaderWorker& worker,
                                     std::vector<LoaderSlot::Skip>& skips) { fill(rows, slot, row, worker, skips); });
}

void check_batch(const Source& source, const LoaderOptions& options) {
  if (source.size() < 1) throw data_error(fmt::format("`{}` holds no samples", source.name()), options.where);
  if (options.batch < 1) throw usage_error(fmt::format("the batch must be at least 1, not {}", options.batch), options.where);
}

// How many positions p in [start * batch, n) have their row, p mod batch, among this host's.
int64_t count_rows(int64_t n, const LoaderOptions& options) {
  const int64_t begin = options.row_begin, end = options.row_count < 0 ? options.batch : begin + options.row_count;
  const int64_t full = std::max<int64_t>(0, n / options.batch - options.start_batch), tail = n % options.batch;
  const bool has_tail = n / options.batch >= options.start_batch;
  return full * (end - begin) + (has_tail ? std::clamp(tail, begin, end) - begin : 0);
}

}  // namespace

TrainLoader::TrainLoader(std::shared_ptr<const Source> source, std::shared_ptr<const Pp> pp, LoaderOptions options) {
  check_batch(*source, options);
  if (options.batch > source->size()) {
    throw data_error(fmt::format("the batch of {} is larger than the data set: `{}` has {} images", human_count(options.batch),
                                 source->name(), human_count(source->size())),
                     options.where, fmt::format("set the batch to at most {}", source->size()));
  }
  core_ =
      make_core({std::move(source), std::move(pp), std::move(options)}, std::numeric_limits<int64_t>::max(), fill_train_row);
}

TrainLoader::~TrainLoader() = default;
Batch TrainLoader::next() { return std::move(*core_->next()); }
LoaderStats TrainLoader::stats() const { return core_->stats(); }
size_t TrainLoader::bytes() const { return core_->bytes(); }

EvalLoader::EvalLoader(std::shared_ptr<const Source> source, std::shared_ptr<const Pp> pp, LoaderOptions options)
    : source_(source) {
  check_batch(*source, options);
  const int64_t n = source->size();
  batches_ = (n + options.batch - 1) / options.batch;
  expected_rows_ = count_rows(n, options);
  core_ = make_core({std::move(source), std::move(pp), std::move(options)}, batches_, fill_eval_row);
}

EvalLoader::~EvalLoader() = default;

std::optional<Batch> EvalLoader::next() {
  std::optional<Batch> batch = core_->next();
  if (!batch) {
    check_sum();
    return batch;
  }
  for (int64_t row = 0; row < batch->rows(); ++row) mask_sum_ += batch->mask()[row];
  return batch;
}

void EvalLoader::check_sum() const {
  const LoaderStats now = core_->stats();
  TESSERA_CHECK(static_cast<int64_t>(mask_sum_) == expected_rows_ - now.skips,
                "masks sum to {}, with {} samples of which {} skipped", mask_sum_, expected_rows_, now.skips);
  if (expected_rows_ > 0 && now.skips == expected_rows_) {
    throw data_error(
        fmt::format("none of the {} images of `{}` can be read; the first is `{}`: {}", human_count(expected_rows_),
                    source_->name(), now.skipped.front().id, now.skipped.front().reason),
        "", "`tessera data check` lists every unreadable file");
  }
}

LoaderStats EvalLoader::stats() const { return core_->stats(); }
size_t EvalLoader::bytes() const { return core_->bytes(); }

}  // namespace tessera::data
