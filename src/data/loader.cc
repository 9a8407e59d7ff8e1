#include "data/loader.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/rng.h"
#include "base/text.h"
#include "data/loader_core.h"

namespace tessera::data {
namespace {

constexpr uint64_t kMaxAttempts = 1000;

// What both loaders fill rows from.
struct Rows {
  std::vector<DataSet> sets;
  LoaderOptions options;
  std::shared_ptr<const SampleOrder> order;  // null in an evaluation
  int64_t samples = 0;                       // of all sets: an epoch
  std::vector<std::vector<size_t>> texts{};  // of each set, find_texts()

  uint64_t position(int64_t batch, int64_t row) const {
    return static_cast<uint64_t>(batch * options.batch + options.row_begin + row);
  }

  // The picked sample into row `row`; or a reason.
  DecodeResult make(LoaderSlot& slot, int64_t row, const SamplePick& pick, uint64_t seed, LoaderWorker& worker) const {
    const auto r = static_cast<size_t>(row);
    const DataSet& set = sets[static_cast<size_t>(pick.set)];
    slot.samples[r] = pick.sample;
    slot.sets[r] = pick.set;
    slot.mask[r] = 1;
    const auto start = std::chrono::steady_clock::now();
    std::optional<std::string> failed = set.source->read(pick.sample, worker.sample);
    worker.scratch.seconds.read += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (failed) return DecodeError{std::move(*failed)};
    slot.labels[r] = worker.sample.label;
    const SampleKey key{seed_of_set(seed, static_cast<size_t>(pick.set)), pick.epoch, static_cast<uint64_t>(pick.sample)};
    if (DecodeResult bad = make_tokens(slot, r, pick.set, key, worker)) return bad;
    uint8_t* pixels = slot.images.get() + r * slot.row_bytes;
    if (set.pp->erasing()) {
      const size_t mixed = options.mixup ? kMixedRowValues : 0;
      set.pp->draw_erasing(key, slot.augment.data() + r * slot.augment_values + mixed);
    }
    if (set.source->fill_pixels(pick.sample, {pixels, slot.row_bytes})) return std::nullopt;
    return set.pp->run(worker.sample.image, key, worker.scratch, pixels);
  }

  // The ids of worker.sample's texts.
  DecodeResult make_tokens(LoaderSlot& slot, size_t row, int32_t set, const SampleKey& key, LoaderWorker& worker) const {
    if (slot.token_fields.empty()) return std::nullopt;
    worker.texts.clear();
    worker.tokens.clear();
    for (const size_t place : texts[static_cast<size_t>(set)]) worker.texts.push_back(worker.sample.texts[place]);
    for (size_t field = 0; field < slot.token_fields.size(); ++field) worker.tokens.push_back(slot.row_tokens(field, row));
    return sets[static_cast<size_t>(set)].pp->run_texts(worker.texts, key, worker.tokens.data(), slot.cut_texts[row]);
  }

  void mix(LoaderSlot& slot, int64_t row) const {
    if (!options.mixup) return;
    // A draw belongs to a place in the global batch, whatever sample comes to stand there.
    MixedRow mixed;
    const int64_t off = options.mixup->options().off_epoch;
    if (off == 0 || slot.batch * options.batch / samples < off) {
      mixed = options.mixup->draw(options.seed, slot.batch, options.row_begin + row, options.batch);
    }
    float* out = slot.augment.data() + static_cast<size_t>(row) * slot.augment_values;
    out[0] = mixed.own;
    out[1] = mixed.label;
    std::copy(std::begin(mixed.box), std::end(mixed.box), out + 2);
  }

  Error unreadable(const SamplePick& pick, const std::string& reason) const {
    const Source& source = *sets[static_cast<size_t>(pick.set)].source;
    return data_error(fmt::format("cannot read `{}/{}`: {}", source.name(), source.id(pick.sample), reason), options.where,
                      "remove or repair the file; `tessera data check` lists all such files");
  }
};

void fill_train_row(const Rows& rows, LoaderSlot& slot, int64_t row, LoaderWorker& worker,
                    std::vector<LoaderSlot::Skip>& skips) {
  const LoaderOptions& options = rows.options;
  const uint64_t position = rows.position(slot.batch, row);
  const uint64_t attempts = std::min<uint64_t>(rows.order->reach(position), kMaxAttempts);
  rows.mix(slot, row);
  for (uint64_t attempt = 0; attempt < attempts; ++attempt) {
    const SamplePick pick = attempt == 0 ? rows.order->at(position) : rows.order->replacement(position, attempt);
    // A replacement draws its own crop, so that it is not the same picture again.
    const uint64_t seed = attempt == 0 ? options.seed : options.seed ^ hash_name("replacement");
    DecodeResult failed = rows.make(slot, row, pick, seed, worker);
    if (!failed) return;
    if (options.unreadable == Unreadable::kError) throw rows.unreadable(pick, failed->reason);
    skips.push_back({row, pick.set, pick.sample, std::move(failed->reason)});
  }
  const LoaderSlot::Skip& last = skips.back();
  const Source& source = *rows.sets[static_cast<size_t>(last.set)].source;
  throw data_error(fmt::format("{} images in a row cannot be read; the last is `{}/{}`: {}",
                               human_count(static_cast<int64_t>(attempts)), source.name(), source.id(last.sample), last.reason),
                   options.where, "`tessera data check` lists every unreadable file");
}

void clear_row(LoaderSlot& slot, int64_t row) {
  const auto r = static_cast<size_t>(row);
  std::memset(slot.images.get() + r * slot.row_bytes, 0, slot.row_bytes);
  slot.labels[r] = 0;
  slot.mask[r] = 0;
  slot.cut_texts[r] = 0;
  for (size_t field = 0; field < slot.token_fields.size(); ++field) {
    std::fill_n(slot.row_tokens(field, r), slot.token_fields[field].length, slot.token_fields[field].pad);
  }
}

void fill_eval_row(const Rows& rows, LoaderSlot& slot, int64_t row, LoaderWorker& worker,
                   std::vector<LoaderSlot::Skip>& skips) {
  const SamplePick pick{0, 0, static_cast<int64_t>(rows.position(slot.batch, row))};
  if (pick.sample >= rows.sets.front().source->size()) {
    clear_row(slot, row);
    slot.samples[static_cast<size_t>(row)] = -1;
    return;
  }
  DecodeResult failed = rows.make(slot, row, pick, rows.options.seed, worker);
  if (!failed) return;
  if (rows.options.unreadable == Unreadable::kError) throw rows.unreadable(pick, failed->reason);
  clear_row(slot, row);
  skips.push_back({row, 0, pick.sample, std::move(failed->reason)});
}

void prefetch_row(const Rows& rows, int64_t batch, int64_t row) {
  const uint64_t position = rows.position(batch, row);
  const SamplePick pick = rows.order ? rows.order->at(position) : SamplePick{0, 0, static_cast<int64_t>(position)};
  const Source& source = *rows.sets[static_cast<size_t>(pick.set)].source;
  if (pick.sample < source.size()) source.prefetch(pick.sample);
}

using FillFunction = void (*)(const Rows&, LoaderSlot&, int64_t, LoaderWorker&, std::vector<LoaderSlot::Skip>&);

std::unique_ptr<LoaderCore> make_core(Rows made, int64_t end_batch, FillFunction fill) {
  for (const DataSet& set : made.sets) made.texts.push_back(find_texts(*set.pp, *set.source, made.options.where));
  const auto rows = std::make_shared<const Rows>(std::move(made));
  RowMaker maker;
  maker.fill = [rows, fill](LoaderSlot& slot, int64_t row, LoaderWorker& worker, std::vector<LoaderSlot::Skip>& skips) {
    fill(*rows, slot, row, worker, skips);
  };
  maker.prefetch = [rows](int64_t batch, int64_t row) { prefetch_row(*rows, batch, row); };
  return std::make_unique<LoaderCore>(rows->sets, rows->options, end_batch, std::move(maker));
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

TrainLoader::TrainLoader(std::vector<DataSet> sets, LoaderOptions options) : batch_(options.batch) {
  TESSERA_CHECK(!sets.empty());
  std::vector<WeightedSource> sources;
  int64_t samples = 0;
  for (const DataSet& set : sets) {
    check_batch(*set.source, options);
    TESSERA_CHECK(set.pp->image_bytes() == sets.front().pp->image_bytes());
    TESSERA_CHECK(set.pp->token_fields() == sets.front().pp->token_fields());
    sources.push_back({set.source, set.weight});
    samples += set.source->size();
  }
  if (options.batch > samples) {
    throw data_error(fmt::format("the batch of {} is larger than the data set: `{}` has {} images", human_count(options.batch),
                                 sets.front().source->name(), human_count(samples)),
                     options.where, fmt::format("set the batch to at most {}", samples));
  }
  order_ = std::make_shared<const SampleOrder>(make_sample_order(sources, options.shuffle, options.batch, options.seed));
  core_ =
      make_core({std::move(sets), std::move(options), order_, samples}, std::numeric_limits<int64_t>::max(), fill_train_row);
}

TrainLoader::~TrainLoader() = default;
Batch TrainLoader::next() { return std::move(*core_->next()); }
LoaderStats TrainLoader::stats() const { return core_->stats(); }
StageSeconds TrainLoader::stages() const { return core_->stages(); }
size_t TrainLoader::bytes() const { return core_->bytes(); }
std::vector<uint64_t> TrainLoader::seen(int64_t batches) const { return order_->seen(static_cast<uint64_t>(batches * batch_)); }

EvalLoader::EvalLoader(DataSet set, LoaderOptions options) : source_(set.source) {
  check_batch(*source_, options);
  const int64_t n = source_->size();
  batches_ = (n + options.batch - 1) / options.batch;
  expected_rows_ = count_rows(n, options);
  core_ = make_core({{std::move(set)}, std::move(options), nullptr, n}, batches_, fill_eval_row);
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
