// Listing files, and the index that is kept of what was listed and scanned.

#include <thread>

#include "base/rng.h"
#include "base/system/process.h"
#include "data/format_testing.h"
#include "data/formats/tfrecord.h"
#include "data/index/folder_index.h"
#include "data/index/listing.h"
#include "data/index/lru_cache.h"
#include "data/index/shard_names.h"
#include "data/records/record_set.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;
using image::testing::TempDir;
using image::testing::write_file;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::make_old;
using testing::TempCache;

std::vector<std::string> ids(const Source& source) {
  std::vector<std::string> out;
  for (int64_t i = 0; i < source.size(); ++i) out.push_back(source.id(i));
  return out;
}

TEST(Listing, ExpandsBraces) {
  EXPECT_THAT(expand_braces("a{8..11}b"), ElementsAre("a8b", "a9b", "a10b", "a11b"));
  EXPECT_THAT(expand_braces("{008..010}"), ElementsAre("008", "009", "010"));
  EXPECT_THAT(expand_braces("{2..0}"), ElementsAre("2", "1", "0"));
  EXPECT_THAT(expand_braces("{x,y{1..2}}-{a,b}"), ElementsAre("x-a", "x-b", "y1-a", "y1-b", "y2-a", "y2-b"));
  EXPECT_THAT(expand_braces("plain{"), ElementsAre("plain{"));
  EXPECT_THROW(expand_braces("{0..99999999}"), Error);
  EXPECT_THROW(expand_braces("{0..9999}{0..9999}"), Error);
}

TEST(Listing, BracesAreBounded) {
  const auto refused = [](const std::string& pattern, const std::string& what) {
    try {
      expand_braces(pattern);
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr(what));
      return true;
    }
    return false;
  };
  std::string many;
  for (int i = 0; i < 100'000; ++i) many += "{a}";
  EXPECT_TRUE(refused(std::string(100'000, '{') + std::string(100'000, '}'), "more than 64 braces"));
  EXPECT_TRUE(refused(many, "more than 64 braces"));
  EXPECT_TRUE(refused(std::string(100'000, 'a') + "{0..99999}", "too long"));
  EXPECT_TRUE(refused("{0..99999}{0..99999}", "more than 10,000,000 names"));
}

TEST(Listing, FindsMissingShards) {
  std::vector<std::string> paths;
  for (const int i : {0, 1, 3, 4}) paths.push_back("d/x.tfrecord-0000" + std::to_string(i) + "-of-00006");
  try {
    check_shards_complete(paths, "data.source");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("2 of the 6 shards of `d/x.tfrecord-*-of-00006` are missing, first "
                                        "`d/x.tfrecord-00002-of-00006`"));
  }
  check_shards_complete({"a-00000-of-00001", "b-of-c", "plain"}, "");
}

TEST(Listing, NamesThatClaimManyShardsTakeLittleMemory) {
  std::vector<std::string> paths;
  for (int i = 0; i < 1000; ++i) paths.push_back("x" + std::to_string(i) + "-0-of-9999999");
  const int64_t before = peak_resident_bytes();
  EXPECT_THROW(check_shards_complete(paths, ""), Error);
  EXPECT_LT(peak_resident_bytes() - before, 64 << 20);
}

// Two classes, one with a folder inside; everything an hour old.
void make_tree(const TempDir& dir) {
  for (const char* name : {"a/1.jpg", "a/deep/2.jpg", "b/3.jpg"}) write_file(dir / name, {1});
  for (const char* name : {"a/deep", "a", "b", "."}) make_old(dir / name);
}

TEST(FolderIndex, SidecarIsUsedUntilADirectoryChanges) {
  const TempCache cache;
  const TempDir dir;
  make_tree(dir);
  const auto open = [&] { return open_folder(dir.path()); };
  const auto first = open();
  EXPECT_EQ(first->facts().index, IndexOrigin::kBuilt);
  ASSERT_EQ(cache.indexes().size(), 1u);
  const auto second = open();
  EXPECT_EQ(second->facts().index, IndexOrigin::kSidecar);
  EXPECT_EQ(ids(*second), ids(*first));
  EXPECT_EQ(second->class_names(), first->class_names());
  Sample sample;
  ASSERT_FALSE(second->read(2, sample));
  EXPECT_EQ(sample.label, 1);
  // A new file anywhere; a removed one; a new class.
  for (const char* name : {"a/deep/0.jpg", "b/0.jpg", "c/0.jpg"}) {
    write_file(dir / name, {1});
    const auto changed = open();
    EXPECT_EQ(changed->facts().index, IndexOrigin::kBuilt) << name;
    EXPECT_THAT(ids(*changed), ::testing::Contains(name));
    // What changed this second is not kept.
    EXPECT_EQ(open()->facts().index, IndexOrigin::kBuilt);
    make_old(fs::path(dir / name).parent_path());
    make_old(dir.path());
    open();
    EXPECT_EQ(open()->facts().index, IndexOrigin::kSidecar);
  }
  fs::remove(dir / "a/deep/2.jpg");
  EXPECT_EQ(open()->size(), 5);
}

// It says which samples a run sees, so that it must be this user's own.
TEST(FolderIndex, SidecarsThatOthersCouldHaveWrittenAreNotRead) {
  const TempCache cache;
  const TempDir dir;
  make_tree(dir);
  const auto origin = [&] { return open_folder(dir.path())->facts().index; };
  EXPECT_EQ(origin(), IndexOrigin::kBuilt);
  const fs::path path = cache.indexes().at(0);
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(fs::status(path.parent_path()).permissions(), fs::perms::owner_all);
  EXPECT_EQ(origin(), IndexOrigin::kSidecar);
  fs::permissions(path, fs::perms::others_write, fs::perm_options::add);
  EXPECT_EQ(origin(), IndexOrigin::kBuilt);
  EXPECT_EQ(origin(), IndexOrigin::kSidecar) << "a new one took its place";
  fs::permissions(path.parent_path(), fs::perms::group_write, fs::perm_options::add);
  EXPECT_EQ(origin(), IndexOrigin::kBuilt);
  EXPECT_EQ(origin(), IndexOrigin::kBuilt) << "nothing is written there either";
}

// Cut short while it is in use, which is the same fault as a bad sector: an error, and never a wrong path.
TEST(FolderIndex, ASidecarThatCanNoLongerBeReadIsAnError) {
  const TempCache cache;
  const TempDir dir;
  const std::string tail(200, 'x');
  for (int i = 0; i < 500; ++i) write_file(dir / ("a/" + std::to_string(i) + tail), {1});
  for (const char* name : {"a", "."}) make_old(dir / name);
  open_folder(dir.path());
  const FolderIndex index(dir.path(), "");
  ASSERT_TRUE(index.from_sidecar());
  const std::string path = cache.indexes().at(0);
  ASSERT_GT(fs::file_size(path), 100'000u);
  EXPECT_EQ(index.path(0), "a/0" + tail);
  fs::resize_file(path, 4096);
  EXPECT_THROW(index.path(499), store::IoError);
}

TEST(FolderIndex, DamagedSidecarsAreMadeAgain) {
  const TempCache cache;
  const TempDir dir;
  make_tree(dir);
  const auto wanted = ids(*open_folder(dir.path()));
  const std::string path = cache.indexes().at(0);
  const std::vector<uint8_t> good = image::testing::read_file(path);
  Rng rng(5);
  for (int i = 0; i < 200; ++i) {
    std::vector<uint8_t> bad = good;
    if (i % 4 == 0) bad.resize(rng.below(bad.size()));
    for (uint64_t k = rng.below(4) + 1; k > 0 && !bad.empty(); --k) bad[rng.below(bad.size())] ^= 1u << rng.below(8);
    write_file(path, bad);
    EXPECT_EQ(ids(*open_folder(dir.path())), wanted);
  }
  write_file(path, {});
  EXPECT_EQ(open_folder(dir.path())->facts().index, IndexOrigin::kBuilt);
  EXPECT_EQ(open_folder(dir.path())->facts().index, IndexOrigin::kSidecar);
}

std::string shard(int begin, int end) {
  std::string bytes;
  for (int i = begin; i < end; ++i) {
    const std::string record(static_cast<size_t>(i * 997 % 5000), static_cast<char>(i));
    bytes += tfrecord_header(record) + record + tfrecord_footer(record);
  }
  return bytes;
}

void write_shard(const std::string& path, int begin, int end) {
  const std::string bytes = shard(begin, end);
  write_file(path, {bytes.begin(), bytes.end()});
  make_old(path);
}

std::unique_ptr<RecordSet> open_set(const TempDir& dir, std::optional<std::vector<int64_t>> counts = {}) {
  return open_tfrecords({dir / "a", dir / "b", dir / "c"}, {"test", "test", "data.source", {}, std::move(counts)});
}

void expect_records(const RecordSet& set, int count) {
  ASSERT_EQ(set.index().size(), count);
  Sample sample;
  for (int i = count - 1; i >= 0; --i) {
    std::string_view record;
    ASSERT_FALSE(set.read(i, sample, record));
    EXPECT_EQ(record, std::string(static_cast<size_t>(i * 997 % 5000), static_cast<char>(i)));
  }
}

TEST(ShardIndex, SidecarIsUsedUntilAShardChanges) {
  const TempCache cache;
  const TempDir dir;
  write_shard(dir / "a", 0, 20);
  write_shard(dir / "b", 20, 20);
  write_shard(dir / "c", 20, 50);
  EXPECT_EQ(open_set(dir)->index().facts().index, IndexOrigin::kBuilt);
  const auto set = open_set(dir);
  EXPECT_EQ(set->index().facts().index, IndexOrigin::kSidecar);
  EXPECT_EQ(set->index().facts().sidecar, cache.indexes().at(0));
  expect_records(*set, 50);
  write_shard(dir / "c", 20, 60);
  const auto longer = open_set(dir);
  EXPECT_EQ(longer->index().facts().index, IndexOrigin::kBuilt);
  expect_records(*longer, 60);
  EXPECT_EQ(open_set(dir)->index().facts().index, IndexOrigin::kSidecar);
  // Of the same size, but written later.
  fs::last_write_time(dir / "a", fs::last_write_time(dir / "a") + std::chrono::minutes(1));
  EXPECT_EQ(open_set(dir)->index().facts().index, IndexOrigin::kBuilt);
}

TEST(ShardIndex, DamagedSidecarsAreMadeAgain) {
  const TempCache cache;
  const TempDir dir;
  write_shard(dir / "a", 0, 20);
  write_shard(dir / "b", 20, 31);
  write_shard(dir / "c", 31, 50);
  open_set(dir);
  const std::string path = cache.indexes().at(0);
  const std::vector<uint8_t> good = image::testing::read_file(path);
  Rng rng(6);
  for (int i = 0; i < 200; ++i) {
    std::vector<uint8_t> bad = good;
    if (i % 4 == 0) bad.resize(rng.below(bad.size()));
    for (uint64_t k = rng.below(4) + 1; k > 0 && !bad.empty(); --k) bad[rng.below(bad.size())] ^= 1u << rng.below(8);
    write_file(path, bad);
    // Where a damaged block goes unseen at first, its shard is scanned when it is read.
    expect_records(*open_set(dir), 50);
  }
}

TEST(ShardIndex, CountsAreChecked) {
  const TempDir dir;
  write_shard(dir / "a", 0, 20);
  write_shard(dir / "b", 20, 31);
  write_shard(dir / "c", 31, 50);
  expect_records(*open_set(dir, {{20, 11, 19}}), 50);
  try {
    open_set(dir, {{20, 12, 19}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(HasSubstr("has 11 samples"), HasSubstr("says 12"), HasSubstr(dir / "b")));
  }
}

// Of a set too large to be scanned at once, a shard is scanned when it is read.
TEST(ShardIndex, HugeSetsOpenWithoutReading) {
  const TempDir dir;
  write_shard(dir / "a", 0, 20);
  write_shard(dir / "b", 20, 31);
  const auto set = open_set(dir, {{20, 11, int64_t{10'000'000'000}}});
  EXPECT_EQ(set->index().size(), int64_t{10'000'000'031});
  EXPECT_THAT(set->stretches(), ElementsAre(0, 20, 31));
  Sample sample;
  std::string_view record;
  ASSERT_FALSE(set->read(25, sample, record));
  EXPECT_EQ(record.size(), 25 * 997 % 5000u);
  EXPECT_EQ(set->index().id(25), "b#5");
  EXPECT_THAT(*set->read(100, sample, record), HasSubstr("No such file"));
  write_shard(dir / "c", 31, 50);
  EXPECT_THAT(*set->read(101, sample, record), HasSubstr("has 19 samples, but 10,000,000,000 are expected"));
}

// The text before the end of `count` extents, and whether they were there.
std::optional<std::vector<Extent>> decode_extents(std::string_view bytes, int64_t count, std::string_view rest = {}) {
  auto extents = take_extents(bytes, count);
  return bytes == rest ? extents : std::nullopt;
}

TEST(Extents, RoundTrip) {
  const std::vector<Extent> extents = {{0, 0}, {0, 5}, {12, 130}, {142, 1}, {int64_t{1} << 40, int64_t{1} << 33}};
  const std::string bytes = encode_extents(extents);
  EXPECT_EQ(decode_extents(bytes, 5), extents);
  EXPECT_EQ(decode_extents(bytes + "rest", 5, "rest"), extents);
  EXPECT_FALSE(decode_extents(bytes, 4));
  EXPECT_FALSE(decode_extents(bytes, 6));
  EXPECT_FALSE(decode_extents(bytes.substr(1), 5));
  EXPECT_FALSE(decode_extents(std::string(22, '\xff'), 1));
  EXPECT_FALSE(decode_extents("", -1));
  EXPECT_EQ(decode_extents("", 0)->size(), 0u);
}

TEST(LabelColumn, RoundTrip) {
  using Kind = CodedLabel::Kind;
  LabelColumn column;
  column.add(3);
  column.add("owl");
  column.add_none();
  column.add("cat");
  column.add(-70'000);
  column.add("owl");
  column.add(INT64_MIN);  // no class
  EXPECT_EQ(column.size(), 7);
  EXPECT_EQ(column.least(), INT64_MIN);
  EXPECT_EQ(column.most(), 3);
  const std::string bytes = column.encode({"cat", "dog", "owl"});
  const std::vector<CodedLabel> labels = {{Kind::kNumber, 3},       {Kind::kName, 2}, {}, {Kind::kName, 0},
                                          {Kind::kNumber, -70'000}, {Kind::kName, 2}, {}};
  EXPECT_EQ(decode_labels(bytes, 7, 3), labels);
  EXPECT_FALSE(decode_labels(bytes, 7, 2));
  EXPECT_FALSE(decode_labels(bytes, 6, 3));
  EXPECT_FALSE(decode_labels(bytes, 8, 3));
  EXPECT_FALSE(decode_labels(bytes, -1, 3));
  EXPECT_EQ(decode_labels(column.encode({"cat"}), 7, 1)->at(1), CodedLabel{});  // a text that is not among them
}

TEST(LabelColumn, ListsRoundTrip) {
  using Kind = CodedLabel::Kind;
  LabelColumn column;
  column.add(3), column.add("owl"), column.end_list();
  column.end_list();
  column.add("cat"), column.end_list();
  EXPECT_EQ(column.size(), 3);
  const std::string bytes = column.encode({"cat", "owl"});
  const auto lists = decode_label_lists(bytes, 3, 2);
  ASSERT_TRUE(lists);
  EXPECT_EQ(lists->labels, (std::vector<CodedLabel>{{Kind::kNumber, 3}, {Kind::kName, 1}, {Kind::kName, 0}}));
  EXPECT_EQ(lists->of(0).size(), 2u);
  EXPECT_TRUE(lists->of(1).empty());
  EXPECT_EQ(lists->of(2)[0], (CodedLabel{Kind::kName, 0}));
  for (const int64_t count : {-1, 0, 2, 4}) EXPECT_FALSE(decode_label_lists(bytes, count, 2)) << count;
  EXPECT_FALSE(decode_label_lists(bytes, 3, 1));
  EXPECT_FALSE(decode_label_lists("\xff\xff\xff\x7f", 1, 1));  // a list longer than the bytes
}

// Class sizes of sources whose labels an index holds, with ranges of a split and with classes that are given.
struct Counted {
  std::string call;
  std::vector<int64_t> sizes;
  size_t indexes;  // kept once labels were counted
};

TEST(ClassSizes, ComeFromLabelsInTheIndex) {
  const std::string& formats = testing::kFormats;
  const std::string records = formats + "/tfrecord/train-*", arrays = formats + "/array_record/zstd-5.array_record",
                    archives = formats + "/wds/train-{000..001}.tar", sets = ", data_dir=" + formats + "/tfds)";
  const std::vector<Counted> cases = {
      {"tfrecord(" + records + ", label_offset=-1)", {4, 4, 4}, 1},
      {"tfrecord(" + records + ", label=image/class/text)", {4, 4, 4}, 1},
      {"tfrecord(" + records + ", label_offset=-1, classes=4)", {4, 4, 4, 0}, 2},
      {"tfrecord(" + records + ", classes=3)", {0, 4, 4}, 2},  // from 1 on: the last class is out of range
      {"array_record(" + arrays + ", label_offset=-1)", {4, 4, 4}, 1},
      {"array_record(" + arrays + ", label_offset=-1, classes=3)", {4, 4, 4}, 2},
      {"wds(" + archives + ")", {4, 4, 4}, 1},
      {"wds(" + archives + ", label=json.name)", {4, 4, 4}, 1},
      {"wds(" + archives + ", classes=3)", {4, 4, 4}, 2},
      {"tfds(toy, split=all" + sets, {4, 4, 4}, 2},
      {"tfds(toy, split=train[:4]+test[1:]" + sets, {2, 2, 2}, 2},
      {"tfds(toy/array, split=train[1:2]+train[:1]" + sets, {1, 0, 1}, 2},
  };
  for (const Counted& wanted : cases) {
    SCOPED_TRACE(wanted.call);
    const TempCache cache;
    for (const bool again : {false, true}) {
      const auto source = make_source(wanted.call);
      EXPECT_EQ(source->facts().index, again ? IndexOrigin::kSidecar : IndexOrigin::kBuilt);
      EXPECT_EQ(source->class_sizes(), wanted.sizes);
      EXPECT_EQ(cache.indexes().size(), wanted.indexes);
    }
  }
  EXPECT_EQ(make_source("tfrecord(" + records + ", label=none)")->class_sizes(), std::nullopt);
  EXPECT_EQ(make_source("wds(" + archives + ", label=none)")->class_sizes(), std::nullopt);
  EXPECT_EQ(make_source("tfds(toy, label=none" + sets)->class_sizes(), std::nullopt);
}

TEST(ClassSizes, AreThoseOfWhatIsRead) {
  for (const char* call :
       {"tfrecord(%/tfrecord/train-*, label_offset=-1)", "wds(%/wds/train-{000..001}.tar)",
        "tfds(toy, split=train[2:7], data_dir=%/tfds)", "array_record(%/array_record/brotli-1.array_record)"}) {
    std::string text = call;
    const auto source = make_source(text.replace(text.find('%'), 1, testing::kFormats));
    std::vector<int64_t> sizes(source->class_names().size());
    Sample sample;
    for (int64_t i = 0; i < source->size(); ++i) {
      ASSERT_FALSE(source->read(i, sample));
      ++sizes[static_cast<size_t>(sample.label)];
    }
    EXPECT_EQ(source->class_sizes(), sizes) << call;
  }
}

TEST(ClassSizes, OfADamagedIndexAreScannedAgain) {
  const TempCache cache;
  const std::string call = "wds(" + testing::kFormats + "/wds/train-{000..001}.tar)";
  const auto wanted = make_source(call)->class_sizes();
  const std::string path = cache.indexes().at(0);
  const std::vector<uint8_t> good = image::testing::read_file(path);
  for (size_t at = good.size() - 40; at < good.size(); ++at) {  // the blocks come last
    std::vector<uint8_t> bad = good;
    bad[at] ^= 1;
    write_file(path, bad);
    EXPECT_EQ(make_source(call)->class_sizes(), wanted) << at;
  }
}

TEST(LruCache, KeepsTheLatestAndMakesOnce) {
  LruCache<int, int> cache(3);
  int made = 0;
  const auto get = [&](int key, int64_t cost = 1) {
    return *cache.get(key, [&] {
      ++made;
      return LruCache<int, int>::Made{std::make_shared<int>(10 * key), cost};
    });
  };
  for (const int key : {1, 2, 3, 1, 4}) EXPECT_EQ(get(key), 10 * key);
  EXPECT_EQ(made, 4);
  get(1), get(3), get(4);
  EXPECT_EQ(made, 4);
  get(2);
  EXPECT_EQ(made, 5);
  get(7, 100);  // alone, the latest stays
  get(7);
  EXPECT_EQ(made, 6);
  EXPECT_THROW(cache.get(9, []() -> LruCache<int, int>::Made { throw data_error("no"); }), Error);
  get(9);
  EXPECT_EQ(made, 7);
  // Threads that want the same value share one making of it.
  std::atomic<int> makings = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      EXPECT_EQ(*cache.get(50,
                           [&] {
                             ++makings;
                             std::this_thread::sleep_for(std::chrono::milliseconds(20));
                             return LruCache<int, int>::Made{std::make_shared<int>(5), 1};
                           }),
                5);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(makings, 1);
}

}  // namespace
}  // namespace tessera::data
