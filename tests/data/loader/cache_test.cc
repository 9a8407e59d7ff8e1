#include "data/cache/cache.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "config/byte_size.h"
#include "data/format_testing.h"
#include "data/forwarding_source.h"
#include "data/loader/loader.h"
#include "data/tools/convert/shard_writer.h"
#include "image/codec/pixels_file.h"
#include "image/image_testing.h"
#include "support/paths.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;
using image::testing::TempDir;
using image::testing::write_file;
using ::testing::HasSubstr;

// Pictures of every kind, some of them damaged, and one that is none.
struct Pictures {
  Pictures() {
    const fs::path images = tessera::testing::source_path("tests/image/images");
    for (const fs::directory_entry& entry : fs::directory_iterator(images)) {
      if (!entry.is_directory())
        write_file(dir / ("a/" + entry.path().filename().string()), image::testing::read_file(entry.path()));
    }
    for (int i = 0; i < 12; ++i) {
      std::vector<uint8_t> file = image::testing::encode_jpeg(image::testing::photo(50 + i, 61 - i, static_cast<uint32_t>(i)));
      if (i % 4 == 3) file[file.size() / 2] ^= 0x55;
      write_file(dir / fmt::format("b/{}.jpg", i), file);
    }
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(dir.path())) {
      if (entry.is_regular_file()) testing::make_old(entry.path());
    }
    source = open_folder(dir.path());
  }
  TempDir dir;
  std::shared_ptr<const Source> source;
};

// Counts what is read of a source, which has captions.
class Counted final : public ForwardingSource {
 public:
  using ForwardingSource::ForwardingSource;
  std::vector<std::string> text_fields() const override { return {"caption", "note", "none"}; }
  std::optional<std::string> read(int64_t index, Sample& sample) const override {
    ++reads;
    std::optional<std::string> failed = source_->read(index, sample);
    sample.text_memory = fmt::format("picture {}", index);
    const std::string_view text = sample.text_memory;
    sample.texts = {{text, text.substr(0, static_cast<size_t>(index) % 4)}, {text.substr(1)}, {}};
    return failed;
  }
  mutable std::atomic<int64_t> reads = 0;
};

std::vector<uint8_t> batches(const std::shared_ptr<const Source>& source, int threads, std::string& repairs) {
  const char* chain = "decode(exif=apply, truncated=fill) | random_resized_crop(14) | color_jitter(0.4) | flip_lr";
  const auto pp = std::make_shared<const Pp>(chain, PpUse::kTrain);
  TrainLoader loader({{source, pp, {}}}, {.batch = 16, .seed = 4, .threads = threads});
  std::vector<uint8_t> all;
  for (int64_t i = 0; i < 3 * source->size() / 16; ++i) {
    const Batch batch = loader.next();
    all.insert(all.end(), batch.images(), batch.images() + batch.image_bytes());
    const auto* labels = reinterpret_cast<const uint8_t*>(batch.labels());
    all.insert(all.end(), labels, labels + batch.rows() * static_cast<int64_t>(sizeof(int32_t)));
  }
  repairs = loader.stats().repairs.text();
  return all;
}

int64_t bytes_under(const fs::path& path) {
  int64_t bytes = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) bytes += static_cast<int64_t>(entry.file_size());
  }
  return bytes;
}

TEST(Cache, BatchesAreTheSameWithAndWithout) {
  const Pictures pictures;
  std::string repairs, plain_repairs;
  const std::vector<uint8_t> plain = batches(pictures.source, 2, plain_repairs);
  EXPECT_THAT(plain_repairs, HasSubstr("damaged"));
  EXPECT_THAT(plain_repairs, HasSubstr("truncated"));
  for (const int threads : {1, 3}) {
    for (const int64_t limit : {25, 20'000, 100'000, 10'000'000}) {
      SCOPED_TRACE(fmt::format("{} threads, {} bytes", threads, limit));
      const auto ram = std::make_shared<ByteBudget>(limit), disk = std::make_shared<ByteBudget>(limit);
      EXPECT_TRUE(batches(cache_in_ram(pictures.source, ram), threads, repairs) == plain);
      EXPECT_EQ(repairs, plain_repairs);
      EXPECT_LE(ram->used(), limit);
      EXPECT_EQ(ram->used() > 0, limit > 25);
      const TempDir folder;
      for (int run = 0; run < 2; ++run) {  // empty, and as the first run left it
        const auto budget = std::make_shared<ByteBudget>(limit);
        EXPECT_TRUE(batches(cache_on_disk(pictures.source, folder.path(), budget), threads, repairs) == plain);
        EXPECT_EQ(repairs, plain_repairs);
        EXPECT_EQ(bytes_under(folder.path()), budget->used());
        EXPECT_LE(budget->used(), limit);
        EXPECT_EQ(budget->used() > 0, limit > 25);
      }
    }
  }
}

// Reads all, and says what samples show besides pictures.
std::vector<std::string> read_all(const Source& source) {
  std::vector<std::string> shown;
  Sample sample;
  for (int64_t i = 0; i < source.size(); ++i) {
    if (const auto failed = source.read(i, sample)) {
      shown.push_back(*failed);
    } else {
      shown.push_back(fmt::format("{} {}", sample.label, fmt::join(sample.texts[0], ",")));
      EXPECT_EQ(sample.texts.size(), 3u);
      EXPECT_EQ(sample.texts[1], std::vector<std::string_view>{sample.texts[0][0].substr(1)});
      EXPECT_TRUE(sample.texts[2].empty());
    }
  }
  return shown;
}

TEST(Cache, WhatIsKeptIsNotReadAgain) {
  const Pictures pictures;
  const auto counted = std::make_shared<Counted>(pictures.source);
  const std::vector<std::string> shown = read_all(*counted);
  const TempDir folder;
  const auto ram = cache_in_ram(counted, std::make_shared<ByteBudget>(10'000'000));
  const auto disk = cache_on_disk(counted, folder.path(), std::make_shared<ByteBudget>(10'000'000));
  for (const auto& cache : {ram, disk}) {
    EXPECT_EQ(read_all(*cache), shown);
    counted->reads = 0;
    EXPECT_EQ(read_all(*cache), shown);
    // In memory all that can't be decoded, or is damaged, is read as ever.
    if (cache == ram) {
      EXPECT_GT(counted->reads, 3);
      EXPECT_LT(counted->reads, 25);
    } else {
      EXPECT_EQ(counted->reads, 0);
    }
  }
  // A later run.
  counted->reads = 0;
  EXPECT_EQ(read_all(*cache_on_disk(counted, folder.path(), std::make_shared<ByteBudget>(10'000'000))), shown);
  EXPECT_EQ(counted->reads, 0);
  // With less room, the files that are too many go.
  const auto less = std::make_shared<ByteBudget>(30'000);
  cache_on_disk(counted, folder.path(), less);
  EXPECT_LE(bytes_under(folder.path()), 30'000);
  EXPECT_EQ(bytes_under(folder.path()), less->used());
}

// As the runs of a sweep do: both look at the folder before anything is kept.
TEST(Cache, ProcessesShareWhatOneDecoded) {
  const Pictures pictures;
  const auto counted = std::make_shared<Counted>(pictures.source);
  const std::vector<std::string> shown = read_all(*counted);
  const TempDir folder;
  const auto budget = std::make_shared<ByteBudget>(10'000'000);
  const auto open = [&](std::shared_ptr<const Source> source) {
    return cache_on_disk(std::move(source), folder.path(), budget, image::DecodeLimits{});
  };
  const auto first = open(counted), second = open(counted);
  EXPECT_EQ(read_all(*first), shown);
  const int64_t used = budget->used();
  EXPECT_EQ(bytes_under(folder.path()), used);
  counted->reads = 0;
  EXPECT_EQ(read_all(*second), shown);
  EXPECT_EQ(counted->reads, 0);
  EXPECT_EQ(budget->used(), 2 * used) << "each counts what there is";
  // What is damaged is kept as its file, all else as pixels.
  Sample sample;
  int64_t decoded = 0;
  for (int64_t i = 0; i < second->size(); ++i) {
    ASSERT_FALSE(second->read(i, sample));
    decoded += image::is_pixels_file(sample.image) ? 1 : 0;
  }
  EXPECT_GT(decoded, 12);
  EXPECT_LT(decoded, second->size());
  std::string repairs, plain_repairs;
  const std::vector<uint8_t> plain = batches(pictures.source, 2, plain_repairs);
  for (const int64_t limit : {20'000, 10'000'000}) {
    const TempDir other;
    for (int run = 0; run < 2; ++run) {
      const auto own = std::make_shared<ByteBudget>(limit);
      const auto cache = cache_on_disk(pictures.source, other.path(), own, image::DecodeLimits{});
      EXPECT_TRUE(batches(cache, 2, repairs) == plain);
      EXPECT_EQ(repairs, plain_repairs);
      EXPECT_LE(bytes_under(other.path()), limit);
    }
  }
}

// Several runs that began together may have kept more than one of them alone; the next run of a sweep takes nothing from them.
TEST(Cache, ARunThatSharesLeavesWhatOthersKept) {
  const Pictures pictures;
  const TempDir folder;
  const auto counted = std::make_shared<Counted>(pictures.source);
  const auto open = [&](int64_t limit, std::shared_ptr<ByteBudget>& budget) {
    budget = std::make_shared<ByteBudget>(limit);
    return cache_on_disk(counted, folder.path(), budget, image::DecodeLimits{}, /*shared=*/true);
  };
  std::shared_ptr<ByteBudget> large, small;
  const auto first = open(10'000'000, large);
  const std::vector<std::string> shown = read_all(*first);
  const int64_t kept = bytes_under(folder.path());
  ASSERT_GT(kept, 30'000);
  const auto second = open(30'000, small);
  EXPECT_EQ(bytes_under(folder.path()), kept);
  EXPECT_EQ(small->used(), kept);
  EXPECT_FALSE(small->take(1)) << "it keeps nothing more";
  counted->reads = 0;
  for (const auto& cache : {first, second}) EXPECT_EQ(read_all(*cache), shown);
  EXPECT_EQ(counted->reads, 0);
}

TEST(Cache, WhatAnotherProcessIsWritingStays) {
  const Pictures pictures;
  const TempDir folder;
  read_all(*cache_on_disk(std::make_shared<Counted>(pictures.source), folder.path(), std::make_shared<ByteBudget>(10'000'000)));
  const fs::path kept = fs::directory_iterator(folder.path())->path() / "0";
  const std::string of_another = fmt::format("1.{}", ::getppid()), of_dead = "1.999999999";
  for (const std::string& name : {of_another, of_dead}) write_file(kept / name, {1});
  cache_on_disk(std::make_shared<Counted>(pictures.source), folder.path(), std::make_shared<ByteBudget>(10'000'000));
  EXPECT_TRUE(fs::exists(kept / of_another));
  EXPECT_FALSE(fs::exists(kept / of_dead));
}

TEST(Cache, DamagedFilesOfADiskCacheAreReadFromTheSource) {
  const Pictures pictures;
  const auto counted = std::make_shared<Counted>(pictures.source);
  const std::vector<std::string> shown = read_all(*counted);
  const TempDir folder;
  read_all(*cache_on_disk(counted, folder.path(), std::make_shared<ByteBudget>(10'000'000)));
  int64_t damaged = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder.path())) {
    if (!entry.is_regular_file()) continue;
    std::vector<uint8_t> file = image::testing::read_file(entry.path());
    switch (damaged++ % 4) {
      case 0: file[file.size() / 2] ^= 1; break;
      case 1: file.resize(file.size() - 1); break;
      case 2: file.resize(7); break;
      default: file.clear();
    }
    write_file(entry.path(), file);
  }
  EXPECT_EQ(damaged, pictures.source->size());
  counted->reads = 0;
  EXPECT_EQ(read_all(*cache_on_disk(counted, folder.path(), std::make_shared<ByteBudget>(10'000'000))), shown);
  EXPECT_EQ(counted->reads, pictures.source->size());
}

TEST(Cache, FilesThatChangedAreReadAnew) {
  const Pictures pictures;
  const auto counted = std::make_shared<Counted>(pictures.source);
  const TempDir folder;
  const auto open = [&] { return cache_on_disk(counted, folder.path(), std::make_shared<ByteBudget>(10'000'000)); };
  read_all(*open());
  // The same size, and another hour; the same hour, and another size; neither changed.
  const std::string first = pictures.dir / "b/0.jpg", second = pictures.dir / "b/1.jpg";
  std::vector<uint8_t> edited = image::testing::read_file(first), longer = image::testing::read_file(second);
  edited.back() ^= 1;
  write_file(first, edited);
  fs::last_write_time(first, fs::file_time_type::clock::now() - std::chrono::hours(2));
  const auto before = fs::last_write_time(second);
  longer.push_back(0);
  write_file(second, longer);
  fs::last_write_time(second, before);
  const auto image_of = [&](const Source& source, const std::string& id) {
    Sample sample;
    for (int64_t i = 0; i < source.size(); ++i) {
      if (source.id(i) != id) continue;
      EXPECT_FALSE(source.read(i, sample));
      return std::vector<uint8_t>(sample.image.begin(), sample.image.end());
    }
    return std::vector<uint8_t>();
  };
  for (int run = 0; run < 2; ++run) {  // kept anew by the first
    const auto budget = std::make_shared<ByteBudget>(10'000'000);
    const auto cache = cache_on_disk(counted, folder.path(), budget);
    counted->reads = 0;
    for (int epoch = 0; epoch < 2; ++epoch) {
      EXPECT_TRUE(image_of(*cache, "b/0.jpg") == edited);
      EXPECT_TRUE(image_of(*cache, "b/1.jpg") == longer);
      EXPECT_FALSE(image_of(*cache, "b/2.jpg").empty());
    }
    EXPECT_EQ(counted->reads, run == 0 ? 2 : 0);
    EXPECT_EQ(bytes_under(folder.path()), budget->used());
  }
  // What changed this second is not kept: it may change again without a trace.
  write_file(first, edited);
  for (int run = 0; run < 2; ++run) {
    counted->reads = 0;
    EXPECT_TRUE(image_of(*open(), "b/0.jpg") == edited);
    EXPECT_EQ(counted->reads, 1);
  }
}

// One sample with the text `t`, as a source of this kind reads it.
void write_shard(const std::string& kind, const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  if (kind == "jsonl") {
    const std::string image = fs::path(path).parent_path() / "x", line = R"({"image": "x", "t": ")" + text + "\"}\n";
    write_file(image, {'x'});
    testing::make_old(image);
    return write_file(path, {line.begin(), line.end()});
  }
  const auto file = store::local_files().create(path);
  const ConvertFields fields{false, {"t"}};
  const auto writer = make_shard_writer(*parse_convert_format(kind == "wds" ? "tar" : kind), fields, *file);
  const uint8_t image = 'x';
  Sample sample;
  sample.image = {&image, 1};
  sample.texts = {{text}};
  writer->add(0, "id", sample);
  writer->finish();
  file->close();
}

TEST(Cache, ShardsThatChangedAreReadAnew) {
  const TempDir dir, folder;
  for (const std::string kind : {"tfrecord", "array_record", "wds", "jsonl"}) {
    SCOPED_TRACE(kind);
    const std::string path = dir / (kind + "/a.tar");
    const auto open = [&] {
      return cache_on_disk(make_source(fmt::format("{}({}, text={})", kind, path, kind == "wds" ? "json.t" : "t")),
                           folder.path(), std::make_shared<ByteBudget>(1'000'000));
    };
    const auto text_of = [&](const Source& of) {
      Sample sample;
      EXPECT_FALSE(of.read(0, sample));
      return std::string(sample.texts.at(0).at(0));
    };
    write_shard(kind, path, "before");
    testing::make_old(path);
    EXPECT_EQ(text_of(*open()), "before");
    write_shard(kind, path, "after!");
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(3));
    EXPECT_EQ(text_of(*open()), "after!");
  }
}

TEST(Cache, AnotherColumnOfTheSameTableIsAnotherCache) {
  const TempDir dir, folder;
  std::string table = "image,species,sex\n";
  for (int i = 0; i < 6; ++i) {
    write_file(dir / fmt::format("{}.jpg", i), image::testing::encode_jpeg(image::testing::photo(12, 10)));
    table += fmt::format("{}.jpg,{},{}\n", i, i % 2, i / 3);
  }
  write_file(dir / "list.csv", std::vector<uint8_t>(table.begin(), table.end()));
  for (const fs::directory_entry& entry : fs::directory_iterator(dir.path())) testing::make_old(entry.path());
  const auto labels_of = [&](const char* column) {
    const auto source = make_source(fmt::format("csv({}, label={}, classes=2)", dir / "list.csv", column));
    const auto cache = cache_on_disk(source, folder.path(), std::make_shared<ByteBudget>(10'000'000));
    std::vector<int32_t> labels;
    Sample sample;
    for (int64_t i = 0; i < cache->size(); ++i) {
      EXPECT_EQ(cache->read(i, sample), std::nullopt);
      labels.push_back(sample.label);
    }
    return labels;
  };
  for (int times = 0; times < 2; ++times) {
    EXPECT_EQ(labels_of("species"), (std::vector<int32_t>{0, 1, 0, 1, 0, 1}));
    EXPECT_EQ(labels_of("sex"), (std::vector<int32_t>{0, 0, 0, 1, 1, 1}));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 2);
}

TEST(Cache, ADiskThatCantBeWrittenIsNoError) {
  const Pictures pictures;
  const TempDir folder;
  write_file(folder / "file", {1});
  const auto budget = std::make_shared<ByteBudget>(10'000'000);
  const auto cache = cache_on_disk(pictures.source, folder / "file", budget);
  Sample sample;
  for (int64_t i = 0; i < cache->size(); ++i) EXPECT_FALSE(cache->read(i, sample));
  EXPECT_EQ(budget->used(), 0);
}

TEST(Cache, IsWrittenAsACall) {
  EXPECT_EQ(parse_cache("none").kind, CacheOptions::Kind::kNone);
  const CacheOptions ram = parse_cache("ram(8 GiB)"), disk = parse_cache("disk(/mnt/fast, 1.5TB)");
  EXPECT_EQ(ram.kind, CacheOptions::Kind::kRam);
  EXPECT_EQ(ram.limit, int64_t{8} << 30);
  EXPECT_EQ(disk.kind, CacheOptions::Kind::kDisk);
  EXPECT_EQ(disk.path, "/mnt/fast");
  EXPECT_EQ(disk.limit, 1'500'000'000'000);
  EXPECT_FALSE(disk.decoded);
  EXPECT_TRUE(parse_cache("disk(/dev/shm/mine, 1 GiB, decoded=true)").decoded);
  const auto why = [](const char* text) -> std::string {
    try {
      parse_cache(text, "data.cache");
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("data.cache"));
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(why("memory(8 GiB)"), HasSubstr("unknown cache `memory`"));
  EXPECT_THAT(why("ram(lots)"), HasSubstr("\"lots\" is no size in bytes"));
  EXPECT_THAT(why("ram(0 GiB)"), HasSubstr("no size"));
  EXPECT_THAT(why("ram"), HasSubstr("for example ram(8 GiB)"));
  EXPECT_THAT(why("disk(8 GiB)"), HasSubstr("limit"));
}

}  // namespace
}  // namespace tessera::data
