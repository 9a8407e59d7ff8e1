#include "data/loader/loader.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "data/forwarding_source.h"
#include "data/order/order.h"
#include "image/image_testing.h"
#include "store/file.h"
#include "support/no_more_files.h"
#include "support/paths.h"

namespace tessera::data {
namespace {

using image::testing::TempDir;
using image::testing::write_file;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kImages = 23;
constexpr const char* kChain = "decode | random_resized_crop(12) | flip_lr";

// Three classes of small PNGs; in some, files that are no images.
struct Images {
  explicit Images(const std::vector<int>& broken = {}) {
    for (int i = 0; i < kImages; ++i) {
      const bool bad = std::find(broken.begin(), broken.end(), i) != broken.end();
      const std::string name = fmt::format("{}/{}.png", static_cast<char>('a' + i % 3), 100 + i);
      write_file(dir / name, bad ? std::vector<uint8_t>{'b', 'a', 'd'}
                                 : image::testing::png_bytes(image::testing::photo(20 + i, 18, static_cast<uint32_t>(i))));
    }
    source = open_folder(dir.path());
  }
  TempDir dir;
  std::shared_ptr<const Source> source;
};

struct Copy {
  int64_t index = 0;
  std::vector<uint8_t> images;
  std::vector<int32_t> labels;
  std::vector<float> mask;
  std::vector<int64_t> samples;
  std::vector<int32_t> sets;
  bool operator==(const Copy&) const = default;
};

Copy copy(const Batch& batch) {
  const int64_t n = batch.rows();
  return {batch.index(),
          {batch.images(), batch.images() + batch.image_bytes()},
          {batch.labels(), batch.labels() + n},
          {batch.mask(), batch.mask() + n},
          {batch.samples(), batch.samples() + n},
          {batch.sets(), batch.sets() + n}};
}

int32_t label(const Source& source, int64_t index) {
  Sample sample;
  EXPECT_FALSE(source.read(index, sample));
  return sample.label;
}

std::shared_ptr<const Pp> train_chain() { return std::make_shared<const Pp>(kChain, PpUse::kTrain); }
std::shared_ptr<const Pp> eval_chain() { return std::make_shared<const Pp>("decode | resize(12)", PpUse::kEval); }

std::vector<Copy> train(const Images& data, const LoaderOptions& options, int batches) {
  TrainLoader loader({{data.source, train_chain(), {}}}, options);
  std::vector<Copy> result;
  for (int i = 0; i < batches; ++i) result.push_back(copy(loader.next()));
  return result;
}

std::vector<Copy> evaluate(const Images& data, const LoaderOptions& options) {
  EvalLoader loader({data.source, eval_chain(), {}}, options);
  std::vector<Copy> result;
  while (std::optional<Batch> batch = loader.next()) result.push_back(copy(*batch));
  EXPECT_EQ(static_cast<int64_t>(result.size()), loader.batches());
  return result;
}

template <class Function>
std::string error_of(Function function, Exit code) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "accepted";
}

TEST(TrainLoader, BatchesFollowTheOrder) {
  const Images data;
  const FullShuffle order(kImages, 5);
  const Pp pp(kChain, PpUse::kTrain);
  PpScratch scratch;
  Sample read;
  std::vector<uint8_t> expected(pp.image_bytes());
  std::map<int64_t, int> seen;
  uint64_t position = 0;
  for (const Copy& batch : train(data, {.batch = 5, .seed = 5, .threads = 2}, kImages * 2)) {
    EXPECT_EQ(batch.index, static_cast<int64_t>(position / 5));
    for (size_t row = 0; row < 5; ++row, ++position) {
      const Position at = order.at({0, position});
      EXPECT_EQ(batch.samples[row], at.sample);
      EXPECT_EQ(batch.mask[row], 1);
      ++seen[at.sample];
      ASSERT_FALSE(data.source->read(at.sample, read));
      EXPECT_EQ(batch.labels[row], read.label);
      ASSERT_FALSE(pp.run(read.image, {5, at.epoch, static_cast<uint64_t>(at.sample)}, scratch, expected.data()));
      EXPECT_TRUE(
          std::equal(expected.begin(), expected.end(), batch.images.begin() + static_cast<ptrdiff_t>(row * expected.size())));
    }
  }
  // 230 positions are ten epochs, and batches spanned their ends.
  for (const auto& [sample, count] : seen) EXPECT_EQ(count, 10) << sample;
}

TEST(TrainLoader, SameBatchesWhateverTheThreads) {
  const Images data({4, 11});
  const std::vector<Copy> one = train(data, {.batch = 6, .seed = 1, .threads = 1}, 20);
  EXPECT_EQ(one, train(data, {.batch = 6, .seed = 1, .threads = 3, .prefetch = 5}, 20));
  EXPECT_NE(one, train(data, {.batch = 6, .seed = 2, .threads = 3}, 20));
}

// Workers decode two JPEGs at a time: what they make of each is what it is alone.
TEST(TrainLoader, JpegsDecodedTogetherAreThoseDecodedAlone) {
  TempDir dir;
  for (int i = 0; i < kImages; ++i) {
    const image::Image image = image::testing::photo(40 + 7 * i, 150 - 4 * i, static_cast<uint32_t>(i));
    std::vector<uint8_t> file =
        i % 5 == 3 ? image::testing::png_bytes(image) : image::testing::encode_jpeg(image, {.progressive = i % 7 == 2});
    if (i % 6 == 4) file.resize(file.size() / 2);
    if (i % 6 == 5) file[file.size() / 2] ^= 0x55;
    write_file(dir / fmt::format("a/{}.jpg", 100 + i), file);
  }
  const auto source = open_folder(dir.path());
  for (const char* chain : {kChain, "decode | random_resized_crop(20) | color_jitter(0.4) | random_crop(12) | flip_lr"}) {
    const auto pp = std::make_shared<const Pp>(chain, PpUse::kTrain);
    for (const int threads : {1, 3}) {
      TrainLoader loader({{source, pp, {}}}, {.batch = 11, .seed = 3, .threads = threads});
      PpScratch scratch;
      Sample read;
      std::vector<uint8_t> expected(pp->image_bytes());
      for (int b = 0; b < 6; ++b) {
        const Copy batch = copy(loader.next());
        for (size_t row = 0; row < 11; ++row) {
          const uint64_t position = static_cast<uint64_t>(b) * 11 + row;
          const Position at = FullShuffle(kImages, 3).at({0, position});
          ASSERT_FALSE(source->read(at.sample, read));
          const bool failed =
              pp->run(read.image, {3, at.epoch, static_cast<uint64_t>(at.sample)}, scratch, expected.data()).has_value();
          ASSERT_EQ(failed, batch.samples[row] != at.sample);
          if (failed) continue;
          ASSERT_TRUE(std::equal(expected.begin(), expected.end(),
                                 batch.images.begin() + static_cast<ptrdiff_t>(row * expected.size())))
              << chain << " batch " << b << " row " << row;
        }
      }
    }
  }
}

TEST(TrainLoader, ResumesAtAnyBatch) {
  const Images data({4, 11});
  const std::vector<Copy> all = train(data, {.batch = 6, .seed = 1, .threads = 2}, 12);
  for (const int64_t start : {1, 3, 7}) {
    const std::vector<Copy> rest =
        train(data, {.batch = 6, .seed = 1, .threads = 2, .start_batch = start}, static_cast<int>(12 - start));
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), all.begin() + start)) << start;
  }
}

TEST(TrainLoader, HostsShareAGlobalBatch) {
  const Images data({7});
  const std::vector<Copy> whole = train(data, {.batch = 6, .seed = 1, .threads = 2}, 5);
  for (int64_t host = 0; host < 3; ++host) {
    const std::vector<Copy> part = train(data, {.batch = 6, .seed = 1, .threads = 2, .row_begin = host * 2, .row_count = 2}, 5);
    for (size_t i = 0; i < part.size(); ++i) {
      const size_t bytes = part[i].images.size();
      EXPECT_TRUE(std::equal(part[i].images.begin(), part[i].images.end(),
                             whole[i].images.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(host) * bytes)));
      EXPECT_EQ(part[i].samples[1], whole[i].samples[static_cast<size_t>(host) * 2 + 1]);
    }
  }
}

TEST(TrainLoader, SkippedFilesAreReplacedAndNamed) {
  const Images data({4, 11});
  TrainLoader loader({{data.source, train_chain(), {}}}, {.batch = 23, .seed = 1, .threads = 2});
  for (int epoch = 0; epoch < 3; ++epoch) {
    const Copy batch = copy(loader.next());
    EXPECT_EQ(std::count(batch.mask.begin(), batch.mask.end(), 1.0f), 23);
    for (const int64_t sample : batch.samples)
      EXPECT_THAT(data.source->id(sample), Not(AnyOf(HasSubstr("104"), HasSubstr("111"))));
  }
  const LoaderStats stats = loader.stats();
  EXPECT_EQ(stats.batches, 3);
  EXPECT_EQ(stats.images, 69);
  EXPECT_GE(stats.skips, 6);
  ASSERT_EQ(stats.skipped.size(), 2u);
  EXPECT_THAT((std::vector<std::string>{stats.skipped[0].id, stats.skipped[1].id}),
              ::testing::UnorderedElementsAre("b/104.png", "c/111.png"));
  EXPECT_EQ(stats.skipped[0].reason, "not a JPEG, PNG, WebP, BMP, GIF or TIFF image (by its first bytes)");
  EXPECT_GT(stats.stages.decode, 0);
}

// Two batches of 4 are an epoch of 6 images, and have each once or twice.
TEST(TrainLoader, TellsWhatIsRepairedOnce) {
  TempDir dir;
  const auto picture = [](const char* name) {
    return image::testing::read_file(tessera::testing::source_path("tests/image/images/") + std::string(name));
  };
  write_file(dir / "a/rgba.png", picture("rgba.png"));
  for (int i = 0; i < 5; ++i) write_file(dir / fmt::format("a/{}.jpg", i), picture("420.jpg"));
  ::testing::internal::CaptureStderr();
  TrainLoader loader({{open_folder(dir.path()), train_chain(), {}}}, {.batch = 4, .seed = 1, .threads = 1});
  for (int i = 0; i < 40; ++i) loader.next();
  const std::string said = ::testing::internal::GetCapturedStderr();
  const size_t first = said.find("with transparency, dropped");
  ASSERT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("with transparency", first + 1), std::string::npos) << said;
}

TEST(TrainLoader, TooManyBadFilesStopTheRun) {
  const Images data({4, 11});
  const auto all = [&](double max_bad) {
    return error_of([&] { train(data, {.batch = 6, .threads = 2, .max_bad = max_bad, .where = "data"}, 8); }, Exit::kData);
  };
  EXPECT_THAT(all(0.05), AllOf(HasSubstr("2 of the 23 samples"), HasSubstr("more than 5 %"), HasSubstr("not a JPEG"),
                               HasSubstr("or leave them out: 'max_bad=20 %'")));
  EXPECT_EQ(all(0.1), "accepted");
  // One may always be skipped.
  const Images one({4});
  EXPECT_EQ(train(one, {.batch = 6, .threads = 2, .max_bad = 0.01}, 8).size(), 8u);
}

TEST(TrainLoader, PolicyErrorNamesTheFile) {
  const Images data({4});
  const auto all = [&] { train(data, {.batch = 6, .threads = 2, .unreadable = Unreadable::kError, .where = "data"}, 8); };
  EXPECT_THAT(error_of(all, Exit::kData),
              AllOf(HasSubstr("cannot read `" + data.dir.path().string() + "/b/104.png`"), HasSubstr("not a JPEG"),
                    HasSubstr("--> data"), HasSubstr("tessera data check")));
}

TEST(TrainLoader, StaysFailed) {
  const Images data({4});
  TrainLoader loader({{data.source, train_chain(), {}}}, {.batch = 23, .threads = 2, .unreadable = Unreadable::kError});
  for (int i = 0; i < 3; ++i) EXPECT_THROW(loader.next(), Error);
}

TEST(TrainLoader, AllUnreadableIsAnErrorNotAHang) {
  std::vector<int> every(kImages);
  for (int i = 0; i < kImages; ++i) every[static_cast<size_t>(i)] = i;
  const Images data(every);
  EXPECT_THAT(error_of([&] { train(data, {.batch = 4, .threads = 2}, 1); }, Exit::kData),
              HasSubstr("23 images in a row cannot be read"));
  EXPECT_THAT(error_of([&] { evaluate(data, {.batch = 4, .threads = 2}); }, Exit::kData), HasSubstr("none of the 23 images"));
}

TEST(TrainLoader, BatchMustFitTheData) {
  const Images data;
  EXPECT_THAT(error_of([&] { train(data, {.batch = 24, .where = "data.batch"}, 1); }, Exit::kData),
              AllOf(HasSubstr("the batch of 24 is larger"), HasSubstr("has 23 images"), HasSubstr("at most 23")));
  EXPECT_THAT(error_of([&] { train(data, {.batch = 0}, 1); }, Exit::kUsage), HasSubstr("at least 1"));
}

TEST(TrainLoader, MemoryIsBounded) {
  const Images data;
  TrainLoader loader({{data.source, train_chain(), {}}}, {.batch = 5, .threads = 3, .prefetch = 3});
  const size_t row = 12 * 12 * 3 + 2 * sizeof(int32_t) + sizeof(float) + sizeof(int64_t);
  EXPECT_EQ(loader.bytes(), row * 5 * (3 + 2));
  for (int i = 0; i < 20; ++i) {
    const Batch batch = loader.next();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(batch.images()) % 4096, 0u);
  }
  EXPECT_EQ(loader.bytes(), row * 5 * (3 + 2));
}

TEST(TrainLoader, MemoryThatTheMachineLacksIsRefusedBeforeItIsTaken) {
  const auto pp = std::make_shared<const Pp>("decode | resize(1000)", PpUse::kEval);
  const auto source = make_source("fake(100000000)");
  EXPECT_THAT(error_of(
                  [&] {
                    TrainLoader({{source, pp, {}}}, {.batch = 50'000'000, .where = "data.batch"});
                  },
                  Exit::kUsage),
              AllOf(HasSubstr("4 batches of 136.43 TiB would take 545.70 TiB, and this machine has"), HasSubstr("data.batch")));
}

#if !defined(__SANITIZE_ADDRESS__)  // see no_more_files.h
// Another sample in its place would be a wrong result, and the file is as good as ever.
TEST(TrainLoader, NoMoreOpenFilesEndsTheRunAndReplacesNothing) {
  const Images data;
  {
    const tessera::testing::NoMoreFiles none;
    TrainLoader loader({{data.source, train_chain(), {}}}, {.batch = 5, .threads = 2});
    EXPECT_THROW(loader.next(), store::OutOfFiles);
    EXPECT_EQ(loader.stats().skips, 0);
  }
  EXPECT_EQ(train(data, {.batch = 5, .threads = 2}, 3).size(), 3u);
}
#endif

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(TrainLoader, ThreadsThatTheSystemRefusesAreAUsageError) {
  const Images data;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = rlim_t{4} << 30;  // of the stacks of some hundred threads
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  const std::string error = error_of(
      [&] {
        TrainLoader({{data.source, train_chain(), {}}}, {.batch = 5, .threads = 1000});
      },
      Exit::kUsage);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_THAT(error,
              ::testing::ContainsRegex("the system refuses thread [0-9]+ of the 1008 that the input wants: 1000 to decode"));
  EXPECT_THAT(error, HasSubstr("data.threads"));
  train(data, {.batch = 5, .threads = 2}, 3);  // those that had started are gone
}
#endif

TEST(TrainLoader, HeldBatchesKeepTheirContents) {
  const Images data;
  std::optional<Batch> outlives;
  std::optional<Copy> contents;
  {
    TrainLoader loader({{data.source, train_chain(), {}}}, {.batch = 5, .threads = 2});
    std::optional<Batch> previous = loader.next();
    for (int i = 0; i < 20; ++i) {
      const Copy before = copy(*previous);
      Batch current = loader.next();
      EXPECT_EQ(copy(*previous), before);
      previous = std::move(current);
    }
    contents = copy(*previous);
    outlives = std::move(previous);
  }
  EXPECT_EQ(copy(*outlives), *contents);
}

TEST(TrainLoader, MixesSetsByTheOrder) {
  const Images first, second({4});
  const std::vector<DataSet> sets = {{first.source, train_chain(), "a", 3}, {second.source, train_chain(), "b", 1}};
  const auto batches = [&](LoaderOptions options) {
    options.batch = 8;
    options.seed = 3;
    TrainLoader loader(sets, options);
    std::vector<Copy> result;
    for (int i = 0; i < 20; ++i) result.push_back(copy(loader.next()));
    EXPECT_EQ(loader.seen(20), (std::vector<uint64_t>{120, 40}));
    EXPECT_EQ(loader.stats().skipped.size(), 1u);
    EXPECT_EQ(loader.stats().skipped[0].set, 1);
    return result;
  };
  for (const char* shuffle : {"full", "window(16, lanes=4, stretch=4)"}) {
    const std::vector<Copy> one = batches({.threads = 1, .shuffle = parse_shuffle(shuffle)});
    EXPECT_EQ(one, batches({.threads = 4, .prefetch = 4, .shuffle = parse_shuffle(shuffle)}));
    int from_second = 0;
    for (const Copy& batch : one) from_second += static_cast<int>(std::count(batch.sets.begin(), batch.sets.end(), 1));
    EXPECT_EQ(from_second, 40);
  }
}

TEST(TrainLoader, MixesUntilTheEpochToldAndErasesByChain) {
  const Images data;
  image::MixupOptions mixup;
  mixup.mixup = 0.8;
  mixup.mode = "elem";
  mixup.off_epoch = 2;
  const auto pp = std::make_shared<const Pp>("decode | resize(12) | value_range | random_erasing(0.5, count=2)", PpUse::kTrain);
  LoaderOptions options{.batch = 23, .seed = 4, .threads = 2};
  options.mixup.emplace(mixup, 12, 12, "data.mixup");
  TrainLoader loader({{data.source, pp, {}}}, options);
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    const Batch batch = loader.next();
    ASSERT_EQ(batch.augment_values(), image::kMixedRowValues + 2 * kEraseValues);
    int mixed = 0, erased = 0;
    for (int64_t row = 0; row < 23; ++row) {
      const float* values = batch.augment() + row * batch.augment_values();
      const image::MixedRow drawn = options.mixup->draw(4, epoch, row, 23);
      EXPECT_EQ(values[0], epoch < 2 ? drawn.own : 1);
      mixed += values[1] != 1;
      float boxes[2 * kEraseValues];
      pp->draw_erasing({4, static_cast<uint64_t>(epoch), static_cast<uint64_t>(batch.samples()[row])}, boxes);
      EXPECT_TRUE(std::equal(std::begin(boxes), std::end(boxes), values + image::kMixedRowValues));
      erased += boxes[2] > 0;
    }
    EXPECT_EQ(mixed > 0, epoch < 2);
    EXPECT_TRUE(erased > 3 && erased < 20);
  }
}

// Each host draws what its own rows of the global batch are mixed by.
TEST(TrainLoader, HostsMixTheirOwnRows) {
  const Images data;
  image::MixupOptions mixup;
  mixup.mixup = 0.8;
  mixup.mode = "elem";
  for (int64_t host = 0; host < 3; ++host) {
    LoaderOptions options{.batch = 6, .seed = 4, .threads = 2, .row_begin = host * 2, .row_count = 2};
    options.mixup.emplace(mixup, 12, 12, "data.mixup");
    TrainLoader loader({{data.source, train_chain(), {}}}, options);
    const Batch batch = loader.next();
    for (int64_t row = 0; row < 2; ++row) {
      EXPECT_EQ(batch.augment()[row * batch.augment_values()], options.mixup->draw(4, 0, host * 2 + row, 6).own) << host;
    }
  }
}

// A disk on which every file takes a while to arrive, and many may be under way at once.
class SlowDisk final : public Source {
 public:
  explicit SlowDisk(std::shared_ptr<const Source> files) : files_(std::move(files)), arrival_(static_cast<size_t>(size())) {}
  int64_t size() const override { return files_->size(); }
  const std::vector<std::string>& class_names() const override { return files_->class_names(); }
  std::string id(int64_t index) const override { return files_->id(index); }
  const std::string& name() const override { return files_->name(); }
  void prefetch(int64_t index) const override { order(index); }
  std::optional<std::string> read(int64_t index, Sample& sample) const override {
    const auto arrival = order(index);
    late_ += std::chrono::steady_clock::now() < arrival;
    std::this_thread::sleep_until(arrival);
    {
      const std::lock_guard lock(mutex_);
      arrival_[static_cast<size_t>(index)].reset();  // the next epoch fetches it anew
    }
    return files_->read(index, sample);
  }
  int64_t late() const { return late_; }

 private:
  std::chrono::steady_clock::time_point order(int64_t index) const {
    const std::lock_guard lock(mutex_);
    auto& arrival = arrival_[static_cast<size_t>(index)];
    if (!arrival) arrival = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    return *arrival;
  }
  std::shared_ptr<const Source> files_;
  mutable std::mutex mutex_;
  mutable std::vector<std::optional<std::chrono::steady_clock::time_point>> arrival_;
  mutable std::atomic<int64_t> late_ = 0;
};

TEST(TrainLoader, ReadsAheadOfASlowDisk) {
  const Images data;
  const auto disk = std::make_shared<SlowDisk>(data.source);
  TrainLoader loader({{disk, train_chain(), {}}}, {.batch = 4, .seed = 3, .threads = 1});
  std::vector<Copy> batches;
  for (int i = 0; i < 20; ++i) {
    // What a step takes.
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    batches.push_back(copy(loader.next()));
  }
  EXPECT_EQ(batches, train(data, {.batch = 4, .seed = 3, .threads = 2}, 20));
  // Only the first batches, asked for before anything could be read ahead, waited for the disk: 16 rows of four slots.
  EXPECT_LE(disk->late(), 24);
}

class BrokenPrefetch final : public ForwardingSource {
 public:
  BrokenPrefetch(std::shared_ptr<const Source> files, std::atomic<bool>& begun)
      : ForwardingSource(std::move(files)), begun_(begun) {}
  std::optional<std::string> read(int64_t index, Sample& sample) const override { return source_->read(index, sample); }
  void prefetch(int64_t) const override {
    if (begun_.exchange(true)) return;  // a second thread that ends the program hides the words of the first
    begun_.notify_all();
    TESSERA_CHECK(false, "of the test");
  }

 private:
  std::atomic<bool>& begun_;
};

// Reading ahead may fail, since the row is read again; a mistake of ours may not.
TEST(TrainLoaderDeathTest, AFailedCheckWhileReadingAheadEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const Images data;
        std::atomic<bool> begun = false;
        const auto source = std::make_shared<BrokenPrefetch>(data.source, begun);
        TrainLoader loader({{source, train_chain(), {}}}, {.batch = 4, .seed = 3, .threads = 1});
        begun.wait(false);
      },
      "internal error at .*: of the test");
}

TEST(TrainLoader, StopsAtOnceWhenUnused) {
  const Images data;
  for (int i = 0; i < 50; ++i) {
    TrainLoader loader({{data.source, train_chain(), {}}}, {.batch = 5, .threads = 1 + i % 4});
    if (i % 2) loader.next();
  }
}

TEST(EvalLoader, EverySampleOnceWithMask) {
  const Images data;
  for (const int64_t batch : {1, 4, 22, 23, 24, 64}) {
    for (const int threads : {1, 3}) {
      int64_t next = 0;
      for (const Copy& b : evaluate(data, {.batch = batch, .threads = threads})) {
        for (size_t row = 0; row < static_cast<size_t>(batch); ++row, ++next) {
          const bool real = next < kImages;
          EXPECT_EQ(b.samples[row], real ? next : -1);
          EXPECT_EQ(b.mask[row], real ? 1 : 0);
          EXPECT_EQ(b.labels[row], real ? label(*data.source, next) : 0);
          const auto begin = b.images.begin() + static_cast<ptrdiff_t>(row * 432);
          EXPECT_EQ(std::any_of(begin, begin + 432, [](uint8_t v) { return v != 0; }), real);
        }
      }
      EXPECT_EQ(next, (kImages + batch - 1) / batch * batch);
    }
  }
}

TEST(EvalLoader, UnreadableRowsAreMasked) {
  const Images data({4, 11});
  EvalLoader loader({data.source, eval_chain(), {}}, {.batch = 10, .threads = 2});
  double sum = 0;
  while (const std::optional<Batch> batch = loader.next()) {
    for (int64_t row = 0; row < batch->rows(); ++row) {
      sum += batch->mask()[row];
      const int64_t sample = batch->samples()[row];
      const std::string id = sample < 0 ? "b/104.png" : data.source->id(sample);
      EXPECT_EQ(batch->mask()[row] == 0, id == "b/104.png" || id == "c/111.png") << id;
    }
  }
  EXPECT_EQ(sum, kImages - 2);
  EXPECT_EQ(loader.stats().skips, 2);
  EXPECT_EQ(loader.stats().skipped.size(), 2u);
  EXPECT_THAT(error_of([&] { evaluate(data, {.batch = 10, .unreadable = Unreadable::kError}); }, Exit::kData),
              HasSubstr("b/104.png"));
}

TEST(EvalLoader, CountsWhatWasRepaired) {
  TempDir dir;
  for (const char* name :
       {"rgba.png", "rgba_16bit.png", "grey_alpha.png", "ycck_adobe.jpg", "exif_5.jpg", "420.jpg", "truncated.jpg"}) {
    write_file(dir / (std::string("a/") + name),
               image::testing::read_file(tessera::testing::source_path("tests/image/images/") + std::string(name)));
  }
  const auto pp = std::make_shared<const Pp>("decode(exif=apply, truncated=fill) | resize(12)", PpUse::kEval);
  for (const int threads : {1, 2}) {
    EvalLoader loader({open_folder(dir.path()), pp, {}}, {.batch = 4, .threads = threads});
    while (loader.next()) {
    }
    EXPECT_EQ(
        loader.stats().repairs.text(),
        "1 truncated JPEGs, filled; 1 turned as their EXIF says; 1 in CMYK or YCCK, made RGB; 3 with transparency, dropped; "
        "1 of 16 bits a channel, made 8");
    EXPECT_EQ(loader.stats().skips, 0);
  }
}

TEST(EvalLoader, HostsTogetherSeeEverySampleOnce) {
  const Images data({4});
  std::map<int64_t, int> seen;
  for (const auto& [begin, count] : {std::pair<int64_t, int64_t>{0, 3}, {3, 1}, {4, 3}}) {
    for (const Copy& b : evaluate(data, {.batch = 7, .threads = 2, .row_begin = begin, .row_count = count})) {
      for (const int64_t sample : b.samples) seen[sample] += sample >= 0;
    }
  }
  seen.erase(-1);
  EXPECT_EQ(seen.size(), static_cast<size_t>(kImages));
  for (const auto& [sample, count] : seen) EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace tessera::data
