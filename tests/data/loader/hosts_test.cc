// Any number of hosts and threads, stopped anywhere, make the same global batches, byte for byte, from every kind of source.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/rng.h"
#include "data/loader/loader.h"
#include "data/tools/convert/convert.h"
#include "image/image_testing.h"

namespace tessera::data {
namespace {

using image::testing::TempDir;

constexpr int kImages = 61;
constexpr int64_t kBatch = 20, kBatches = 14;  // more than four epochs

struct Sources {
  Sources() {
    for (int i = 0; i < kImages; ++i) {
      const std::string name = fmt::format("images/{}/{}.png", static_cast<char>('a' + i % 3), 100 + i);
      image::testing::write_file(dir / name,
                                 image::testing::png_bytes(image::testing::photo(14 + i % 5, 12, static_cast<uint32_t>(i))));
    }
    const std::string folder = fmt::format("folder({}/images)", dir.path().string());
    all["folder"] = make_source(folder);
    const auto converted = [&](ConvertFormat format, const char* name) {
      ConvertOptions options;
      options.format = format;
      options.out = dir.path() / name;
      options.shard_bytes = 2'500;
      EXPECT_GT(convert({{"train", folder, all["folder"]}}, options)[0].files.size(), 3u);
      return options.out;
    };
    converted(ConvertFormat::kTfrecord, "records");
    all["tfds"] = make_source(fmt::format("tfds(records, split=train, data_dir={})", dir.path().string()));
    const std::string tar = converted(ConvertFormat::kTar, "tar");
    all["wds"] = make_source(fmt::format("wds({0}/tar-train-*.tar, classes={0}/classes.txt)", tar));
  }
  TempDir dir;
  std::map<std::string, std::shared_ptr<const Source>> all;
};

const Sources& sources() {
  static const Sources made;
  return made;
}

// A global batch, row after row.
struct Rows {
  std::vector<uint8_t> images;
  std::vector<int32_t> labels;
  std::vector<int64_t> samples;
  bool operator==(const Rows&) const = default;
  void append(const Batch& batch) {
    images.insert(images.end(), batch.images(), batch.images() + batch.image_bytes());
    labels.insert(labels.end(), batch.labels(), batch.labels() + batch.rows());
    samples.insert(samples.end(), batch.samples(), batch.samples() + batch.rows());
  }
};

// The batches of `hosts` hosts, each of which is stopped three times on its way, at batches of its own.
std::vector<Rows> run(const std::shared_ptr<const Source>& source, const char* shuffle, int64_t hosts, int threads) {
  const auto pp = std::make_shared<const Pp>("decode | random_resized_crop(8) | flip_lr", PpUse::kTrain);
  std::vector<Rows> batches(kBatches);
  for (int64_t host = 0; host < hosts; ++host) {
    Rng rng(static_cast<uint64_t>(hosts), static_cast<uint64_t>(threads), static_cast<uint64_t>(host));
    for (int64_t at = 0; at < kBatches;) {
      LoaderOptions options{.batch = kBatch, .seed = 9, .threads = threads, .start_batch = at};
      options.shuffle = parse_shuffle(shuffle);
      options.row_begin = kBatch / hosts * host;
      options.row_count = kBatch / hosts;
      TrainLoader loader({{source, pp, {}}}, options);
      const int64_t stop = std::min(kBatches, at + 1 + static_cast<int64_t>(rng.below(kBatches / 2)));
      for (; at < stop; ++at) batches[static_cast<size_t>(at)].append(loader.next());
    }
  }
  return batches;
}

TEST(Hosts, MakeTheSameGlobalBatches) {
  for (const auto& [name, source] : sources().all) {
    ASSERT_EQ(source->size(), kImages) << name;
    for (const char* shuffle : {"full", "window(24, lanes=10, stretch=4)"}) {
      const std::vector<Rows> whole = run(source, shuffle, 1, 1);
      for (const int64_t hosts : {1, 2, 5}) {
        for (const int threads : {1, 2, 7}) {
          EXPECT_EQ(run(source, shuffle, hosts, threads), whole)
              << name << ", " << shuffle << ", " << hosts << " hosts, " << threads;
        }
      }
    }
  }
}

// A conversion keeps the order of samples, so that the source's format changes nothing at all.
TEST(Hosts, FormatsHoldTheSameBatches) {
  const std::vector<Rows> folder = run(sources().all.at("folder"), "full", 1, 2);
  EXPECT_EQ(run(sources().all.at("tfds"), "full", 1, 2), folder);
  EXPECT_EQ(run(sources().all.at("wds"), "full", 1, 2), folder);
}

}  // namespace
}  // namespace tessera::data
