#include "data/loader/loader.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/printable.h"
#include "base/rng.h"
#include "base/system/spans.h"
#include "base/text/text.h"
#include "data/loader/loader_core.h"

namespace tessera::data {
namespace {

constexpr uint64_t kMaxAttempts = 1000;

// What both loaders fill rows from.
struct RowSource {
  std::vector<DataSet> sets;
  LoaderOptions options;
  std::shared_ptr<const SampleOrder> order;  // null in an evaluation
  int64_t samples = 0;                       // of all sets: an epoch
  std::vector<std::vector<size_t>> texts{};  // of each set, find_texts()

  // Of a batch, without their further views.
  int64_t images() const { return options.batch / sets.front().pp->views(); }
  uint64_t position(int64_t batch, int64_t row) const {
    return static_cast<uint64_t>(batch * images() + (options.row_begin + row) % images());
  }
  uint64_t view(int64_t row) const { return static_cast<uint64_t>((options.row_begin + row) / images()); }

  // Starts to make the job's row of the sample it picked; or a reason.
  image::SampleError start(LoaderSlot& slot, LoaderWorker::Job& job, uint64_t seed) const {
    const auto r = static_cast<size_t>(job.row);
    const SamplePick& pick = job.pick;
    const DataSet& set = sets[static_cast<size_t>(pick.set)];
    slot.samples[r] = pick.sample;
    slot.sets[r] = pick.set;
    slot.mask[r] = 1;
    slot.repairs[r] = {};
    job.run.scratch().activity().begin(pick.set, pick.sample, "reading");
    const auto start = std::chrono::steady_clock::now();
    std::optional<std::string> failed;
    {
      const Span span(SpanKind::kInput, "read");
      failed = set.source->read(pick.sample, job.sample);
    }
    job.run.scratch().seconds.read += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (failed) return image::DecodeFailure{std::move(*failed)};
    slot.set_labels(r, job.sample);
    const SampleKey key{seed_of_set(seed, static_cast<size_t>(pick.set)), pick.epoch, static_cast<uint64_t>(pick.sample),
                        view(job.row)};
    if (image::SampleError bad = make_tokens(slot, r, pick.set, key, job)) return bad;
    uint8_t* pixels = slot.images.get() + r * slot.row_bytes;
    if (set.pp->erasing()) {
      const size_t mixed = options.mixup ? image::kMixedRowValues : 0;
      set.pp->draw_erasing(key, slot.augment.data() + r * slot.augment_values + mixed);
    }
    if (set.source->fill_pixels(pick.sample, {pixels, slot.row_bytes})) {
      job.run.reset();
    } else {
      job.run.start(*set.pp, job.sample.image, key, pixels);
    }
    return std::nullopt;
  }

  // The ids of job.sample's texts.
  image::SampleError make_tokens(LoaderSlot& slot, size_t row, int32_t set, const SampleKey& key,
                                 LoaderWorker::Job& job) const {
    if (slot.token_fields.empty()) return std::nullopt;
    job.tokens.clear();
    for (size_t field = 0; field < slot.token_fields.size(); ++field) job.tokens.push_back(slot.row_tokens(field, row));
    const std::vector<TextValues>& read = job.texts.take(texts[static_cast<size_t>(set)], job.sample);
    return sets[static_cast<size_t>(set)].pp->run_texts(read, key, job.tokens.data(), slot.cut_texts[row]);
  }

  void mix(LoaderSlot& slot, int64_t row) const {
    if (!options.mixup) return;
    // A draw belongs to a place in the global batch, whatever sample comes to stand there.
    image::MixedRow mixed;
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
    return data_error(fmt::format("cannot read `{}/{}`: {}", one_line(source.name()), one_line(source.id(pick.sample)), reason),
                      options.where, "remove or repair the file; `tessera data check` lists all such files");
  }

  Error none_readable(const SamplePick& last, uint64_t attempts, const std::string& reason) const {
    const Source& source = *sets[static_cast<size_t>(last.set)].source;
    return data_error(
        fmt::format("{} images in a row cannot be read; the last is `{}/{}`: {}", human_count(static_cast<int64_t>(attempts)),
                    one_line(source.name()), one_line(source.id(last.sample)), reason),
        options.where, "`tessera data check` lists every unreadable file");
  }
};

void clear_row(LoaderSlot& slot, int64_t row) {
  const auto r = static_cast<size_t>(row);
  std::memset(slot.images.get() + r * slot.row_bytes, 0, slot.row_bytes);
  slot.set_labels(r, {});
  slot.mask[r] = 0;
  slot.cut_texts[r] = 0;
  for (size_t field = 0; field < slot.token_fields.size(); ++field) {
    std::fill_n(slot.row_tokens(field, r), slot.token_fields[field].length, slot.token_fields[field].pad);
  }
}

// Fills rows of a slot, two at a time.
class RowFiller {
 public:
  RowFiller(const RowSource& rows, RowsToFill& to_fill, LoaderWorker& worker)
      : rows_(rows), to_fill_(to_fill), slot_(to_fill.slot), worker_(worker), next_(to_fill.begin), end_(to_fill.end) {}

  void run() {
    for (LoaderWorker::Job& job : worker_.jobs) {
      job.row = -1;
      job.run.scratch().set_limits(rows_.options.limits, &to_fill_.stop);
    }
    for (;;) {
      std::array<LoaderWorker::Job*, 2> busy{};
      size_t count = 0;
      for (LoaderWorker::Job& job : worker_.jobs) {
        go_on(job);
        if (job.row >= 0) busy[count++] = &job;
      }
      if (count == 0) break;
      PpRun::decode_on(busy[0]->run, busy[1] ? &busy[1]->run : nullptr);
    }
    for (LoaderWorker::Job& job : worker_.jobs) job.run.scratch().activity().rest();
  }

 private:
  // Brings the job to where its file is being decoded, or where there is no row left for it.
  void go_on(LoaderWorker::Job& job) {
    if (to_fill_.stop) end_ = to_fill_.begin;  // nobody wants them any more
    while (job.row < end_ && (job.row >= 0 ? !job.run.decoding() : next_ < end_)) {
      const int64_t row = job.row < 0 ? next_ : job.row;
      try {
        job.row < 0 ? begin_row(job) : end_row(job);
      } catch (...) {
        // The rows before it may yet throw, those after it need not be filled.
        job.row = -1;
        if (!to_fill_.error || row < to_fill_.error_row) {
          to_fill_.error = std::current_exception();
          to_fill_.error_row = row;
        }
        end_ = std::min(end_, row);
      }
    }
    if (job.row >= end_) job.row = -1;
  }

  void begin_row(LoaderWorker::Job& job) {
    job.row = next_++;
    job.attempt = 0;
    if (rows_.order) rows_.mix(slot_, job.row);
    begin_sample(job);
  }

  void end_row(LoaderWorker::Job& job) {
    const image::SampleError failed = job.run.finish();
    if (failed && !to_fill_.stop && replace(job, *failed)) return begin_sample(job);
    if (!failed) slot_.repairs[static_cast<size_t>(job.row)] = job.run.scratch().repairs;
    job.row = -1;
  }

  void begin_sample(LoaderWorker::Job& job) {
    while (const image::SampleError failed = pick_sample(job)) {
      if (!to_fill_.stop && replace(job, *failed)) continue;
      job.row = -1;
      return;
    }
  }

  image::SampleError pick_sample(LoaderWorker::Job& job) {
    const uint64_t position = rows_.position(slot_.batch, job.row);
    uint64_t seed = rows_.options.seed;
    if (rows_.order) {
      job.pick = job.attempt == 0 ? rows_.order->at(position) : rows_.order->replacement(position, job.attempt);
      // A replacement draws its own crop, so that it is not the same picture again.
      if (job.attempt > 0) seed ^= hash_name("replacement");
    } else {
      job.pick = {0, 0, static_cast<int64_t>(position)};
      if (job.pick.sample >= rows_.sets.front().source->size()) {
        clear_row(slot_, job.row);
        slot_.samples[static_cast<size_t>(job.row)] = -1;
        job.run.reset();
        return std::nullopt;
      }
    }
    return rows_.start(slot_, job, seed);
  }

  // Whether another sample takes the place of the job's, which can't be read: not in an evaluation.
  bool replace(LoaderWorker::Job& job, const image::DecodeFailure& failed) {
    if (rows_.options.unreadable == Unreadable::kError) throw rows_.unreadable(job.pick, failed.reason);
    // The name is found here, since finding it may read the file: whoever takes batches waits for no disk.
    const Source& source = *rows_.sets[static_cast<size_t>(job.pick.set)].source;
    to_fill_.skips.push_back({job.row, job.pick.set, job.pick.sample, source.id(job.pick.sample), failed.reason});
    if (!rows_.order) {
      clear_row(slot_, job.row);
      return false;
    }
    const uint64_t reach = rows_.order->reach(rows_.position(slot_.batch, job.row));
    if (++job.attempt < std::min<uint64_t>(reach, kMaxAttempts)) return true;
    throw rows_.none_readable(job.pick, job.attempt, failed.reason);
  }

  const RowSource& rows_;
  RowsToFill& to_fill_;
  LoaderSlot& slot_;
  LoaderWorker& worker_;
  int64_t next_, end_;
};

void prefetch_row(const RowSource& rows, int64_t batch, int64_t row) {
  const uint64_t position = rows.position(batch, row);
  const SamplePick pick = rows.order ? rows.order->at(position) : SamplePick{0, 0, static_cast<int64_t>(position)};
  const Source& source = *rows.sets[static_cast<size_t>(pick.set)].source;
  if (pick.sample < source.size()) source.prefetch(pick.sample);
}

std::unique_ptr<LoaderCore> make_core(RowSource made, int64_t end_batch, int64_t epoch) {
  for (const DataSet& set : made.sets) made.texts.push_back(find_texts(*set.pp, *set.source, made.options.where));
  const auto rows = std::make_shared<const RowSource>(std::move(made));
  RowMaker maker;
  maker.fill = [rows](RowsToFill& to_fill, LoaderWorker& worker) { RowFiller(*rows, to_fill, worker).run(); };
  maker.prefetch = [rows](int64_t batch, int64_t row) { prefetch_row(*rows, batch, row); };
  return std::make_unique<LoaderCore>(rows->sets, rows->options, end_batch, epoch, std::move(maker));
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

// In per cent; well above what was found so far, since the rest of the data are likely to have as many.
int next_limit(double share) {
  for (const int limit : {2, 5, 10, 20, 50}) {
    if (200 * share < limit) return limit;
  }
  return 100;
}

}  // namespace

void expect_few_unreadable(const Source& source, int64_t count, const SkippedFile& last, const LoaderOptions& options) {
  const double share = static_cast<double>(count) / static_cast<double>(source.size());
  if (count <= 1 || share <= options.max_bad) return;
  throw data_error(
      fmt::format("{} of the {} samples of `{}` can't be read, more than {:g} %; the last is `{}`: {}", count,
                  human_count(source.size()), one_line(source.name()), 100 * options.max_bad, one_line(last.id), last.reason),
      options.where,
      fmt::format("repair or remove them (`tessera data check` lists every one), or leave them out: '{}={} %'",
                  options.max_bad_key, next_limit(share)));
}

void expect_readable(const Source& source, const std::vector<SkippedFile>& skipped, const LoaderOptions& options) {
  if (skipped.empty()) return;
  const auto count = static_cast<int64_t>(skipped.size());
  expect_few_unreadable(source, count, skipped.back(), options);
  if (count < source.size()) return;
  throw data_error(fmt::format("none of the {} images of `{}` can be read; the first is `{}`: {}", human_count(count),
                               one_line(source.name()), one_line(skipped.front().id), skipped.front().reason),
                   options.where, "`tessera data check` lists every unreadable file");
}

TrainLoader::TrainLoader(std::vector<DataSet> sets, LoaderOptions options) {
  TESSERA_CHECK(!sets.empty());
  const int64_t views = sets.front().pp->views();
  TESSERA_CHECK(options.batch % views == 0 && (views == 1 || !options.mixup), "{} rows of {} views", options.batch, views);
  batch_ = options.batch / views;
  std::vector<WeightedSource> sources;
  int64_t samples = 0;
  for (const DataSet& set : sets) {
    check_batch(*set.source, options);
    TESSERA_CHECK(set.pp->image_bytes() == sets.front().pp->image_bytes() && set.pp->views() == views);
    TESSERA_CHECK(set.pp->token_fields() == sets.front().pp->token_fields());
    sources.push_back({set.source, set.weight});
    samples += set.source->size();
  }
  if (batch_ > samples) {
    throw data_error(fmt::format("the batch of {} is larger than the data set: `{}` has {} images", human_count(batch_),
                                 sets.front().source->name(), human_count(samples)),
                     options.where, fmt::format("set the batch to at most {}", samples));
  }
  order_ = std::make_shared<const SampleOrder>(make_sample_order(sources, options.shuffle, batch_, options.seed));
  core_ = make_core({std::move(sets), std::move(options), order_, samples}, std::numeric_limits<int64_t>::max(),
                    std::max<int64_t>(1, samples / batch_));
}

TrainLoader::~TrainLoader() = default;
Batch TrainLoader::next() { return std::move(*core_->next()); }
bool TrainLoader::wait(const StopWaiting& stop) { return core_->wait(stop); }
std::string TrainLoader::what_hangs(double seconds) const { return core_->what_hangs(seconds); }
LoaderStats TrainLoader::stats() const { return core_->stats(); }
StageSeconds TrainLoader::stages() const { return core_->stages(); }
size_t TrainLoader::bytes() const { return core_->bytes(); }
std::vector<uint64_t> TrainLoader::seen(int64_t batches) const { return order_->seen(static_cast<uint64_t>(batches * batch_)); }

EvalLoader::EvalLoader(DataSet set, LoaderOptions options) : source_(set.source), options_(options) {
  check_batch(*source_, options);
  const int64_t n = source_->size();
  batches_ = (n + options.batch - 1) / options.batch;
  expected_rows_ = count_rows(n, options);
  core_ = make_core({{std::move(set)}, std::move(options), nullptr, n}, batches_, batches_);
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

bool EvalLoader::wait(const StopWaiting& stop) { return core_->wait(stop); }

void EvalLoader::check_sum() const {
  const LoaderStats now = core_->stats();
  TESSERA_CHECK(static_cast<int64_t>(mask_sum_) == expected_rows_ - now.skips,
                "masks sum to {}, with {} samples and {} of them skipped", mask_sum_, expected_rows_, now.skips);
  if (expected_rows_ == source_->size()) expect_readable(*source_, now.skipped, options_);
}

LoaderStats EvalLoader::stats() const { return core_->stats(); }

}  // namespace tessera::data
