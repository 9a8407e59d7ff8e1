// tfrecord(…) and array_record(…): files of the libraries that own the formats, and everything that can be wrong with them.

#include <zstd.h>

#include <protozero/buffer_string.hpp>
#include <protozero/varint.hpp>

#include "data/format_testing.h"
#include "data/formats/array_record/array_record.h"
#include "data/formats/bytes/bytes_file.h"
#include "data/formats/example.h"
#include "data/formats/tfrecord.h"

namespace tessera::data {
namespace {

using image::testing::TempDir;
using image::testing::write_file;
using ::testing::AllOf;
using testing::as_string;
using ::testing::ElementsAre;
using testing::expect_samples;
using ::testing::HasSubstr;
using testing::kFormats;
using testing::open_error;
using testing::range;

const std::string kTfrecords = kFormats + "/tfrecord/train-*";

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

std::string framed(const std::string& record) { return tfrecord_header(record) + record + tfrecord_footer(record); }

std::string example(const std::string& image, int64_t label) {
  ExampleWriter writer;
  writer.bytes("image", image);
  writer.integer("label", label);
  return writer.finish();
}

std::string reason(const Source& source, int64_t index) {
  Sample sample;
  return source.read(index, sample).value_or("read");
}

TEST(TfrecordSource, ReadsTensorFlowsFiles) {
  const auto source = make_source("tfrecord(" + kTfrecords + ", label_offset=-1, text=image/caption)");
  EXPECT_THAT(source->class_names(), ElementsAre("0", "1", "2"));
  EXPECT_THAT(source->text_fields(), ElementsAre("image/caption"));
  EXPECT_EQ(source->id(0), "train-00000-of-00002#0");
  EXPECT_EQ(source->id(8), "train-00001-of-00002#1");
  EXPECT_EQ(source->name(), kFormats + "/tfrecord");
  EXPECT_EQ(source->facts().shards, 2);
  EXPECT_TRUE(source->stretches().empty());
  expect_samples(*source, range(0, 12));
  // Labels that are texts are classes in the order of their names; here that is the order of the numbers.
  const auto named = make_source("tfrecord(" + kTfrecords + ", label=image/class/text)");
  EXPECT_EQ(named->class_names(), testing::kClasses);
  expect_samples(*named, range(0, 12));
  const auto unlabelled = make_source("tfrecord(" + kTfrecords + ", label=none)");
  EXPECT_TRUE(unlabelled->class_names().empty());
  expect_samples(*unlabelled, range(0, 12));
}

TEST(TfrecordSource, TakesClassesFromAFile) {
  const TempDir dir;
  write_file(dir / "names.txt", bytes_of("owl\ncat\r\n\ndog\n"));
  const auto source = make_source("tfrecord(" + kTfrecords + ", label=image/class/text, classes=" + (dir / "names.txt") + ")");
  EXPECT_THAT(source->class_names(), ElementsAre("owl", "cat", "dog"));
  Sample sample;
  ASSERT_FALSE(source->read(1, sample));
  EXPECT_EQ(sample.label, 0);  // sample 1 is an owl
  const auto counted = make_source("tfrecord(" + kTfrecords + ", label_offset=-1, classes=1000)");
  EXPECT_EQ(counted->class_names().size(), 1000u);
  expect_samples(*counted, range(0, 12));
  // Labels run from 1 to 3.
  const auto shifted = make_source("tfrecord(" + kTfrecords + ", classes=3)");
  EXPECT_THAT(reason(*shifted, 1), AllOf(HasSubstr("its label 3 is not one of 3 classes"), HasSubstr("label_offset=-1")));
  const auto short_list = make_source("tfrecord(" + kTfrecords + ", label=image/class/text, classes=7)");
  EXPECT_THAT(reason(*short_list, 1), HasSubstr("its label `owl` is not one of 7 classes"));
  write_file(dir / "twice.txt", bytes_of("cat\ndog\ncat\n"));
  EXPECT_THAT(open_error("tfrecord(" + kTfrecords + ", classes=" + (dir / "twice.txt") + ")"), HasSubstr("stands twice"));
  EXPECT_THAT(open_error("tfrecord(" + kTfrecords + ", classes=" + (dir / "none.txt") + ")"), HasSubstr("one a line"));
  EXPECT_THAT(open_error("tfrecord(" + kTfrecords + ", classes=0)", Exit::kUsage), HasSubstr("no number of classes"));
  EXPECT_THAT(open_error("tfrecord(" + kTfrecords + ", label_offset=-2)"),
              AllOf(HasSubstr("labels run from -1 to 1"), HasSubstr("label_offset=-1")));
}

TEST(TfrecordSource, MistakesAreExplained) {
  const TempDir dir;
  const std::string largest = framed(example("x", INT64_MAX));
  write_file(dir / "largest", bytes_of(largest));
  EXPECT_THAT(open_error("tfrecord(" + (dir / "largest") + ", label_offset=1)"), HasSubstr("far from any classes"));
  EXPECT_THAT(open_error("tfrecord(" + (dir / "largest") + ", classes=1e300)", Exit::kUsage),
              HasSubstr("no number of classes"));
  EXPECT_THAT(open_error("tfrecord(" + (dir / "x-*") + ")"),
              AllOf(HasSubstr("no file matches"), HasSubstr("working directory")));
  EXPECT_THAT(open_error("tfrecord(" + (dir / "x") + ")"), HasSubstr("No such file"));
  EXPECT_THAT(open_error("tfrecord(" + dir.path().string() + ")"), AllOf(HasSubstr("is a folder"), HasSubstr("/*")));
  EXPECT_THAT(open_error("tfrecord(" + kFormats + "/tfrecord/train-00000-of-00002)"),
              AllOf(HasSubstr("1 of the 2 shards"), HasSubstr("train-00001-of-00002"), HasSubstr("copy the missing")));
  EXPECT_THAT(open_error("tfrecord(" + kFormats + "/tfrecord/gzip.tfrecord)"), AllOf(HasSubstr("GZIP"), HasSubstr("gzip -dc")));
  EXPECT_THAT(open_error("tfrecord(" + kFormats + "/tfrecord/zlib.tfrecord)"), AllOf(HasSubstr("ZLIB"), HasSubstr("without")));
  EXPECT_THAT(open_error("tfrecord(" + kTfrecords + ", image=image/encodd)"), HasSubstr("did you mean image=image/encoded?"));
  EXPECT_THAT(open_error("tfrecord(" + kTfrecords + ", label=zzzzzzzz)"),
              AllOf(HasSubstr("no feature `zzzzzzzz`"), HasSubstr("image/class/label (integers)"), HasSubstr("(floats)")));
  EXPECT_THAT(open_error("tfrecord(" + kTfrecords + ", text=[image/caption, nothing-of-this])"), HasSubstr("nothing-of-this"));
  EXPECT_THAT(open_error("tfrecord(" + kTfrecords + ", imge=x)", Exit::kUsage), HasSubstr("`image`"));
  write_file(dir / "empty", {});
  EXPECT_THAT(open_error("tfrecord(" + (dir / "empty") + ")"), HasSubstr("no records"));
  write_file(dir / "text", bytes_of("this is a text and no TFRecord file"));
  EXPECT_THAT(open_error("tfrecord(" + (dir / "text") + ")"), HasSubstr("no TFRecord file"));
  write_file(dir / "other", bytes_of(framed("\xff\xff\xff")));
  EXPECT_THAT(open_error("tfrecord(" + (dir / "other") + ")"), HasSubstr("no tf.train.Examples"));
}

TEST(TfrecordSource, DamageIsNamed) {
  const TempDir dir;
  const std::string first = framed(example("one", 0)), second = framed(example("two", 1));
  const auto cut = [&](size_t size) {
    write_file(dir / "a", bytes_of((first + second).substr(0, size)));
    return open_error("tfrecord(" + (dir / "a") + ")");
  };
  EXPECT_THAT(cut(first.size() + 5),
              AllOf(HasSubstr("cut short at offset " + std::to_string(first.size())), HasSubstr("copy it")));
  EXPECT_THAT(cut(first.size() + second.size() - 1), HasSubstr("is cut short at offset " + std::to_string(first.size())));
  std::string wrong = first + second;
  wrong[first.size() + 2] ^= 1;
  write_file(dir / "a", bytes_of(wrong));
  EXPECT_THAT(open_error("tfrecord(" + (dir / "a") + ")"), HasSubstr("wrong checksum of a record's length at offset"));
  // A wrong byte in the data concerns that record alone.
  wrong = first + second;
  wrong[first.size() + 30] ^= 1;
  write_file(dir / "a", bytes_of(wrong));
  const auto source = make_source("tfrecord(" + (dir / "a") + ", classes=2)");
  EXPECT_EQ(reason(*source, 0), "read");
  EXPECT_THAT(reason(*source, 1),
              AllOf(HasSubstr("wrong checksum"), HasSubstr(dir / "a"), HasSubstr("offset " + std::to_string(first.size()))));
}

TEST(TfrecordSource, OddRecordsAreReasons) {
  const TempDir dir;
  ExampleWriter odd;
  odd.integer("image", 7);
  odd.integer("label", 0);
  std::string no_label, two_images;
  {
    ExampleWriter writer;
    writer.bytes("image", "x");
    no_label = writer.finish();
  }
  write_file(dir / "a",
             bytes_of(framed(example("one", 0)) + framed(odd.finish()) + framed(no_label) + framed("\xff") + framed("")));
  const auto source = make_source("tfrecord(" + (dir / "a") + ")");
  EXPECT_EQ(source->size(), 5);
  EXPECT_EQ(reason(*source, 0), "read");
  EXPECT_THAT(reason(*source, 1), HasSubstr("its feature `image` is not one image but 1 integers"));
  EXPECT_THAT(reason(*source, 2), HasSubstr("no label `label`"));
  EXPECT_THAT(reason(*source, 3), HasSubstr("no tf.train.Example"));
  EXPECT_THAT(reason(*source, 4), HasSubstr("no label"));
}

TEST(Example, ReadsListsPackedAndNot) {
  // Features{1: {1: "a", 2: {3: {1: [5, 6]}}}}, not packed and packed, and an integer of another wire type.
  const auto message = [](const std::string& list) {
    const auto field = [](char tag, const std::string& bytes) {
      return std::string(1, tag) + static_cast<char>(bytes.size()) + bytes;
    };
    return field(0x0a, field(0x0a, field(0x0a, "a") + field(0x12, field(0x1a, list))));
  };
  for (const std::string& list : {std::string("\x08\x05\x08\x06"), std::string("\x0a\x02\x05\x06")}) {
    const auto found = parse_example(message(list), {"a", "b"});
    ASSERT_TRUE(found);
    EXPECT_EQ((*found)[0].kind, FeatureKind::kIntegers);
    EXPECT_EQ((*found)[0].count, 2);
    EXPECT_EQ((*found)[0].integer, 5);
    EXPECT_EQ((*found)[1].kind, FeatureKind::kAbsent);
  }
  EXPECT_FALSE(parse_example("\x0a\x7f", {"a"}));
  EXPECT_EQ((*parse_example("", {"a"}))[0].kind, FeatureKind::kAbsent);
  ExampleWriter writer;
  writer.integer("b", -3);
  writer.bytes("a", std::string("\0x", 2));
  const std::string bytes = writer.finish();
  const auto back = parse_example(bytes, {"a", "b"});
  EXPECT_EQ((*back)[0].bytes, std::string_view("\0x", 2));
  EXPECT_EQ((*back)[1].integer, -3);
  EXPECT_THAT(example_keys(bytes), ElementsAre("a (bytes)", "b (integers)"));
}

TEST(Example, EmptyListsAreWritten) {
  ExampleWriter writer;
  EXPECT_EQ(writer.finish(), std::string("\x0a\0", 2));
  writer.integer_list("a", {});
  writer.bytes_list("b", {});
  const std::string integers("\x0a\x09\x0a\x01\x61\x12\x04\x1a\x02\x0a\0", 11), bytes("\x0a\x07\x0a\x01\x62\x12\x02\x0a\0", 9);
  EXPECT_EQ(writer.finish(), "\x0a\x14" + integers + bytes);
}

TEST(Example, LabelsAreReadWithoutTheRest) {
  ExampleWriter writer;
  writer.bytes("image", std::string(1 << 20, 'x'));
  writer.integer("label", 7);
  writer.bytes("labels", "no");
  const std::string bytes = "before" + writer.finish() + "after";
  const int64_t size = static_cast<int64_t>(bytes.size()) - 11;
  const BytesFile file(bytes);
  Window window(file);
  const std::string found = read_example_entries(window, {6, size}, "label");
  EXPECT_THAT(example_keys(found), ElementsAre("label (integers)"));
  EXPECT_EQ((*parse_example(found, {"label"}))[0].integer, 7);
  EXPECT_TRUE(example_keys(read_example_entries(window, {6, size}, "none")).empty());
  EXPECT_EQ(read_example_entries(window, {6, size - 1}, "label"), "");  // cut short
  EXPECT_EQ(read_example_entries(window, {0, size}, "label"), "");      // something else
  EXPECT_TRUE(example_keys(read_example_entries(window, {6, 0}, "label")).empty());
}

TEST(Example, LabelsOfAnySizeTakeLittleMemory) {
  ExampleWriter writer;
  writer.integer_list("label", std::vector<int64_t>(2 << 20));
  const std::string large = writer.finish();
  EXPECT_FALSE(parse_example(large, {"label"}));
  EXPECT_TRUE(parse_example(large, {"image"})) << "which is not there, and no other feature is read";
  const BytesFile file(large);
  Window window(file);
  EXPECT_EQ(read_example_entries(window, {0, file.size()}, "label"), "");

  std::string features;
  for (int i = 0; i <= kMaxExampleParts; ++i) features += std::string("\x0a\0", 2);
  std::string length;
  for (size_t rest = features.size(); rest > 0; rest >>= 7) length += static_cast<char>((rest & 127) | (rest > 127 ? 128 : 0));
  EXPECT_TRUE(example_keys("\x0a" + length + features).empty());
}

// A file whose record is a hole, of more bytes than anybody reads.
TEST(Example, HolesAreNoExamples) {
  class Hole final : public store::ReadableFile {
   public:
    int64_t size() const override { return int64_t{1} << 40; }
    void read(int64_t, std::span<std::byte> out) const override {
      read_ += static_cast<int64_t>(out.size());
      std::ranges::fill(out, std::byte{0});
    }
    mutable int64_t read_ = 0;
  } hole;
  Window window(hole);
  EXPECT_EQ(read_example_entries(window, {0, hole.size()}, "label"), "");
  EXPECT_EQ(read_example_entries(window, {0, kMaxSampleBytes}, "label"), "");
  EXPECT_LE(hole.read_, 8 << 10);
}

TEST(ArrayRecordSource, ReadsTheLibrarysFiles) {
  for (const char* name : {"zstd", "brotli", "snappy", "uncompressed"}) {
    for (const int group : {1, 5}) {
      SCOPED_TRACE(std::string(name) + std::to_string(group));
      const auto source = make_source("array_record(" + kFormats + "/array_record/" + name + "-" + std::to_string(group) +
                                      ".array_record, label_offset=-1, text=image/caption)");
      EXPECT_EQ(source->class_names().size(), 3u);
      expect_samples(*source, range(0, 12));
      if (group == 1) {
        EXPECT_TRUE(source->stretches().empty());
      } else {
        EXPECT_THAT(source->stretches(), ElementsAre(0, 5, 10));
      }
    }
  }
  EXPECT_THAT(open_error("array_record(" + kFormats + "/array_record/transposed.array_record)"),
              AllOf(HasSubstr("transposed"), HasSubstr("transpose:false")));
  EXPECT_THAT(open_error("array_record(" + kFormats + "/tfrecord/train-00000-of-00002)"), HasSubstr("shards"));
  EXPECT_THAT(open_error("array_record(" + kFormats + "/tfrecord/gzip.tfrecord)"), HasSubstr("no ArrayRecord file"));
}

// Records that cross the borders of blocks.
std::string block_record(int i) {
  std::string record(i == 3 ? 0 : static_cast<size_t>(20000 + i), '\0');
  for (size_t j = 0; j < record.size(); ++j) record[j] = static_cast<char>((static_cast<size_t>(i) * 37 + j * j) % 251);
  return record;
}

void expect_block_records(const std::string& path, int64_t records) {
  const auto file = store::local_files().open(path);
  const ArrayRecordIndex index = read_array_record_index(path, *file);
  ASSERT_EQ(index.records(), records);
  RecordGroup group;
  for (size_t chunk = 0; chunk + 1 < index.offsets.size(); ++chunk) {
    const int64_t count = index.first[chunk + 1] - index.first[chunk];
    read_record_group(path, *file, index.offsets[chunk], index.offsets[chunk + 1], count, group);
    for (int64_t i = 0; i < count; ++i)
      EXPECT_EQ(group[static_cast<size_t>(i)], block_record(static_cast<int>(index.first[chunk] + i)));
  }
}

TEST(ArrayRecord, RecordsCrossBlocks) { expect_block_records(kFormats + "/array_record/blocks.array_record", 6); }

// The library's own bytes, whatever lies at the borders of blocks.
TEST(ArrayRecord, WritesWhatTheLibraryWrites) {
  const TempDir dir;
  std::vector<std::string> records;
  const auto file = store::local_files().open(kFormats + "/array_record/uncompressed-1.array_record");
  const ArrayRecordIndex index = read_array_record_index("", *file);
  RecordGroup group;
  const auto out = store::local_files().create(dir / "a");
  ArrayRecordWriter writer(*out);
  for (size_t i = 0; i + 1 < index.offsets.size(); ++i) {
    read_record_group("", *file, index.offsets[i], index.offsets[i + 1], 1, group);
    writer.add(group[0]);
  }
  writer.finish();
  out->close();
  EXPECT_EQ(image::testing::read_file(dir / "a"),
            image::testing::read_file(kFormats + "/array_record/uncompressed-1.array_record"));
  for (const int count : {0, 1, 4, 40}) {
    const auto more = store::local_files().create(dir / "b");
    ArrayRecordWriter blocks(*more);
    for (int i = 0; i < count; ++i) blocks.add(block_record(i));
    blocks.finish();
    more->close();
    expect_block_records(dir / "b", count);
  }
}

TEST(ArrayRecordSource, DamageIsNamed) {
  const TempDir dir;
  const std::string good = as_string(image::testing::read_file(kFormats + "/array_record/uncompressed-1.array_record"));
  const auto with = [&](size_t at, size_t size) {
    std::string bytes = good.substr(0, size);
    if (at < size) bytes[at] ^= 1;
    write_file(dir / "a", bytes_of(bytes));
    return "array_record(" + (dir / "a") + ", classes=4)";
  };
  EXPECT_THAT(open_error(with(good.size(), good.size() / 2)), HasSubstr("no ArrayRecord file"));
  EXPECT_THAT(open_error(with(good.size(), 1000)), AllOf(HasSubstr("cut short"), HasSubstr(dir / "a")));
  const auto source = make_source(with(5000, good.size()));
  int bad = 0;
  for (int64_t i = 0; i < source->size(); ++i) {
    const std::string text = reason(*source, i);
    if (text == "read") continue;
    ++bad;
    EXPECT_THAT(text, AllOf(HasSubstr("wrong checksum of a chunk"), HasSubstr("at offset"), HasSubstr(dir / "a")));
  }
  EXPECT_EQ(bad, 1);
}

// Test vectors of the algorithm's authors (highwayhash_test.cc): key 0x0706050403020100 …, data 0, 1, 2, ….
// A sparse file takes no place on the disk, and would take all memory.
TEST(TfrecordSource, RecordsOfMoreThanIsReadAtOnceAreReasons) {
  const TempDir dir;
  const std::string path = dir / "sparse";
  constexpr uint64_t kLength = uint64_t{100} << 30;
  std::string header(reinterpret_cast<const char*>(&kLength), sizeof kLength);
  const uint32_t crc = store::masked_crc32c(header);
  header.append(reinterpret_cast<const char*>(&crc), sizeof crc);
  const std::string begin = framed(example("x", 3)) + header;
  write_file(path, bytes_of(begin));
  std::filesystem::resize_file(path, begin.size() + kLength + 4);
  const auto source = make_source("tfrecord(" + path + ", image=image, label=none)");
  ASSERT_EQ(source->size(), 2);
  EXPECT_EQ(reason(*source, 0), "read");
  EXPECT_THAT(reason(*source, 1), HasSubstr("it has 100.00 GiB, and samples of up to 1.00 GiB are read"));
}

// Some kilobytes that unpack to 65 MiB of zeros: one of the many that would be unpacked at a time.
TEST(ArrayRecord, ChunksThatUnpackToFarMoreAreRefused) {
  const auto chunk = [](size_t bytes) {
    const std::string zeros(bytes, '\0');
    const auto packed = [](const std::string& in) {
      std::string out(ZSTD_compressBound(in.size()), '\0');
      out.resize(ZSTD_compress(out.data(), out.size(), in.data(), in.size(), 1));
      std::string sized;
      protozero::add_varint_to_buffer(&sized, in.size());
      return sized + out;
    };
    std::string size;
    protozero::add_varint_to_buffer(&size, bytes);
    const std::string sizes = packed(size);
    std::string data = "z";
    protozero::add_varint_to_buffer(&data, sizes.size());
    return data + sizes + packed(zeros);
  };
  RecordGroup group;
  EXPECT_TRUE(decode_simple_chunk(chunk(60 << 20), 1, 60 << 20, group));
  const std::string bomb = chunk(65 << 20);
  EXPECT_LT(bomb.size(), 10'000u);
  EXPECT_FALSE(decode_simple_chunk(bomb, 1, 65 << 20, group));
}

}  // namespace
}  // namespace tessera::data
