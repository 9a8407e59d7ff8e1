#pragma once
// Batches from a source: threads read, decode and preprocess straight into the rows of a fixed number of batch slots, and the
// consumer takes the batches in order. What a batch holds depends on (seed, batch number) alone: not on the number of threads,
// not on where a run began, not on how many hosts share a global batch.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/order/shuffle.h"
#include "data/transform/pp.h"
#include "image/augment/mixup.h"

namespace tessera::data {

// Batches that the consumer may hold: one in use, one on its way to the device.
inline constexpr int64_t kHeldBatches = 2;
inline constexpr int64_t kMaxPrefetch = 1024;
inline constexpr int64_t kMaxThreads = 1024;

class LoaderCore;
struct LoaderSlot;

// What the loader does about a file that cannot be read or decoded.
enum class Unreadable {
  kSkip,   // count it and log its name once; training takes another sample in its place, evaluation masks its row
  kError,  // next() throws a data Error that names it
};

// A data set and what is done to its samples. Chains of one loader make images of one size, the same arrays of ids and as many
// views.
struct DataSet {
  std::shared_ptr<const Source> source;
  std::shared_ptr<const Pp> pp;
  std::string name;   // in a mixture
  double weight = 1;  // of its samples in the mixture, relative to the others'
};

struct LoaderOptions {
  // Rows of the global batch. Where chains make views of images, it is so many times as long as it has images: first view 0 of
  // all of them, then view 1 of all in the same order, ….
  int64_t batch = 0;
  uint64_t seed = 0;
  int threads = 0;   // 0: one for each core
  int prefetch = 2;  // batches prepared beyond the ones the consumer holds
  int64_t start_batch = 0;
  Unreadable unreadable = Unreadable::kSkip;
  // More unreadable samples than this share of a data set, and than one, are a data Error that names the last.
  double max_bad = 1;
  std::string max_bad_key = "max_bad";  // as a recipe has it, for messages
  // Training only.
  Shuffle shuffle;
  std::optional<image::Mixup> mixup;
  // This host's rows of every global batch: [row_begin, row_begin + row_count). -1 is all from row_begin on.
  int64_t row_begin = 0, row_count = -1;
  image::DecodeLimits limits;  // of each image; what is over them is an unreadable file
  // next() and wait() name what hangs when they have waited so long for a batch, and again after five times as long each.
  double patience_seconds = 60;
  std::string where;  // the recipe key, for messages
};

// Called every 50 ms while a batch is waited for; true gives up waiting.
using StopWaiting = std::function<bool()>;

// Bytes of one batch of a loader; a loader holds options.prefetch + kHeldBatches of them.
size_t batch_bytes(const std::vector<DataSet>& sets, const LoaderOptions& options);

// One batch, borrowed from its loader: its memory is used again once the Batch is destroyed, so keep it until the device has
// read it. May outlive the loader.
class Batch {
 public:
  Batch(Batch&&) noexcept = default;
  Batch& operator=(Batch&&) noexcept = default;

  int64_t index() const;  // its number; 0 is the first of training
  int64_t rows() const;
  const uint8_t* images() const;  // [rows, height, width, 3], at a 4096-byte boundary
  size_t image_bytes() const;     // of all rows
  const int32_t* labels() const;  // [rows]; 0 where there is no sample, and of a multi-label source
  const uint8_t* multi_hot()
      const;  // [rows, multi_hot_classes()]: 1 for each class that the sample has, of a multi-label source
  int64_t multi_hot_classes() const;  // 0 of other sources
  const float* mask() const;          // [rows]; 1, or 0 for a row that holds no sample
  const int64_t* samples() const;     // [rows]; index in the source, or -1 for a row past the end of an evaluation
  const int32_t* sets() const;        // [rows]; which data set of the mixture
  // The arrays of ids that the chains make beside the images, and the ids of one of them: [rows, its length], rows without a
  // sample filled with its pad.
  const std::vector<TokenField>& token_fields() const;
  const int32_t* tokens(size_t field) const;
  // [rows, augment_values()]: what the device needs to mix and erase, of each row MixedRow's numbers where the loader mixes,
  // then the boxes of its chain's Erasing.
  const float* augment() const;
  int64_t augment_values() const;

 private:
  friend class LoaderCore;
  explicit Batch(std::shared_ptr<LoaderSlot> slot) : slot_(std::move(slot)) {}
  std::shared_ptr<LoaderSlot> slot_;  // its deleter hands the slot back
};

struct SkippedFile {
  int32_t set = 0;
  int64_t sample = 0;
  std::string id, reason;
};

struct LoaderStats {
  int64_t batches = 0, images = 0;   // delivered; images counts rows with a sample
  double wait_seconds = 0;           // that next() spent waiting
  StageSeconds stages;               // of all threads together
  double busy_seconds = 0;           // that the threads worked: the stages, and putting batches together
  int64_t cut_texts = 0;             // texts longer than their array of ids, of delivered batches
  image::RepairCounts repairs;       // of the rows delivered
  int64_t skips = 0;                 // rows for which a file was skipped
  std::vector<SkippedFile> skipped;  // each file once
};

// Throws a data Error where `count` of the source's samples can't be read, and that is more than options.max_bad and than one.
void expect_few_unreadable(const Source& source, int64_t count, const SkippedFile& last, const LoaderOptions& options);
// The same for the files that an evaluation skipped, each once. Throws too where no file can be read.
void expect_readable(const Source& source, const std::vector<SkippedFile>& skipped, const LoaderOptions& options);

// Endless shuffled batches of a mixture (sample_order.h). Throws a data Error when the batch is larger than all sets together.
class TrainLoader {
 public:
  TrainLoader(std::vector<DataSet> sets, LoaderOptions options);
  ~TrainLoader();

  // Waits for the next batch. Throws what a worker threw. At most two batches may be held at a time.
  Batch next();
  // Waits until next() need not; false when `stop` said true before. However long a file takes to read or decode, and though it
  // take for ever, the loader can then be destroyed at once: the thread that is at it is left behind with all that it uses, and
  // a process that ends meanwhile must do so without running destructors of globals (cli/program/main.cc does).
  bool wait(const StopWaiting& stop);
  // What a batch that did not come for so long waits for, in words. From any thread; takes a fifth of a second at most.
  std::string what_hangs(double seconds) const;
  LoaderStats stats() const;
  StageSeconds stages() const;  // those of stats() alone: cheap, however many files were skipped
  size_t bytes() const;         // of all batch slots: fixed
  // Samples of each set in the first `batches` global batches of the run.
  std::vector<uint64_t> seen(int64_t batches) const;

 private:
  std::shared_ptr<const SampleOrder> order_;
  int64_t batch_ = 0;  // images
  std::unique_ptr<LoaderCore> core_;
};

// Every sample once, in the source's order, in ceil(N / batch) batches; rows past the end are zero with mask 0. At the end the
// loader checks that the masks it delivered sum to the number of samples less those skipped.
class EvalLoader {
 public:
  EvalLoader(DataSet set, LoaderOptions options);
  ~EvalLoader();

  // Nothing after the last batch. Throws a data Error then when not one sample could be read, unless others have rows of the
  // batches too: then nobody alone can tell.
  std::optional<Batch> next();
  bool wait(const StopWaiting& stop);  // TrainLoader's
  int64_t batches() const { return batches_; }
  LoaderStats stats() const;

 private:
  void check_sum() const;
  std::unique_ptr<LoaderCore> core_;
  std::shared_ptr<const Source> source_;
  LoaderOptions options_;
  int64_t batches_ = 0, expected_rows_ = 0;
  double mask_sum_ = 0;
};

}  // namespace tessera::data
