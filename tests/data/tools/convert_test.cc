// tessera data convert: every format, from every kind of source, whole, interrupted, resized.

#include "data/tools/convert/convert.h"

#include <map>
#include <nlohmann/json.hpp>

#include "data/format_testing.h"
#include "data/formats/manifest.h"
#include "data/tools/check.h"
#include "image/codec/decode.h"
#include "image/codec/encode_jpeg.h"
#include "image/resize/resize.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;
using image::testing::TempDir;
using image::testing::write_file;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::expect_samples;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kFormats;
using testing::range;

ConvertSplit split(const std::string& call, const std::string& name = "train") { return {name, call, make_source(call)}; }

std::vector<ConvertSplit> toy() {
  const std::string end = ", data_dir=" + kFormats + "/tfds, text=caption)";
  return {split("tfds(toy, split=train" + end), split("tfds(toy/array, split=test" + end, "test")};
}

// How to read what was written.
std::string call_of(ConvertFormat format, const std::string& out, const std::string& split) {
  const std::string parent = fs::path(out).parent_path(), name = fs::path(out).filename();
  if (format == ConvertFormat::kTar)
    return "wds(" + out + "/" + name + "-" + split + "-*.tar, text=[txt, json.caption], classes=" + out + "/classes.txt)";
  return "tfds(" + name + ", data_dir=" + parent + ", split=" + split + ", text=[caption, file_name])";
}

const ConvertFormat kAll[] = {ConvertFormat::kTfrecord, ConvertFormat::kArrayRecord, ConvertFormat::kTar};

// Paths below `folder` with their bytes, but the lock.
std::map<std::string, std::vector<uint8_t>> content(const std::string& folder) {
  std::map<std::string, std::vector<uint8_t>> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().filename() != ".lock")
      files[entry.path().lexically_relative(folder).string()] = image::testing::read_file(entry.path());
  }
  return files;
}

TEST(Convert, WritesWhatReadsBackTheSame) {
  const TempDir dir;
  const std::string in_dir = ", data_dir=" + dir.path().string() + ")";
  for (const ConvertFormat format : kAll) {
    SCOPED_TRACE(convert_format_name(format));
    const std::string out = dir / (std::string("set_") + convert_format_name(format));
    const auto splits = convert(toy(), {.format = format, .out = out, .shard_bytes = 2000});
    ASSERT_EQ(splits.size(), 2u);
    EXPECT_EQ(splits[0].samples, 9);
    EXPECT_GT(splits[0].files.size(), 2u);
    EXPECT_EQ(splits[0].kept, 0);
    EXPECT_THAT(splits[0].unreadable, IsEmpty());
    const auto train = make_source(call_of(format, out, "train"));
    expect_samples(*train, range(0, 9));
    EXPECT_EQ(train->class_names(), testing::kClasses);
    expect_samples(*make_source(call_of(format, out, "test")), range(9, 12));
    Sample sample;
    ASSERT_FALSE(train->read(4, sample));
    EXPECT_EQ(sample.texts[1][0],
              format == ConvertFormat::kTar ? testing::reference_samples()[4].caption : "toy-train.tfrecord-00001-of-00002#0");
    // And from there to every other format.
    const std::string first = format == ConvertFormat::kTar
                                  ? "wds(" + out + "/*-train-*.tar, text=txt)"
                                  : "tfds(" + fs::path(out).filename().string() + ", text=caption" + in_dir;
    for (const ConvertFormat other : kAll) {
      const std::string name = std::string("from_") + convert_format_name(format) + "_to_" + convert_format_name(other);
      convert({split(first)}, {.format = other, .out = dir / name, .threads = 2});
      const std::string text = format == ConvertFormat::kTar ? "txt" : "caption";
      expect_samples(*make_source(other == ConvertFormat::kTar ? "wds(" + (dir / name) + "/*.tar, text=txt)"
                                                               : "tfds(" + name + ", text=" + text + in_dir),
                     range(0, 9));
    }
  }
}

// The reference samples with two texts each: a caption and a list of captions.
std::string lines_with_lists(const TempDir& dir) {
  std::string lines;
  for (size_t i = 0; i < testing::reference_samples().size(); ++i) {
    const auto& sample = testing::reference_samples()[i];
    const std::string name = std::to_string(i) + ".image";
    write_file(dir / name, sample.image);
    const nlohmann::json line = {{"image", name}, {"caption", sample.caption}, {"captions", sample.captions}};
    lines += line.dump() + "\n";
  }
  write_file(dir / "lines.jsonl", {lines.begin(), lines.end()});
  return "jsonl(" + (dir / "lines.jsonl") + ", text=[caption, captions])";
}

TEST(Convert, KeepsEveryText) {
  const TempDir dir;
  const std::string lines = lines_with_lists(dir), in_dir = ", data_dir=" + dir.path().string() + ")";
  const auto expect_whole = [](const std::string& call) {
    SCOPED_TRACE(call);
    const auto source = make_source(call);
    expect_samples(*source, range(0, 12));
    testing::expect_captions(*source, 1);
  };
  expect_whole(lines);
  for (const ConvertFormat format : kAll) {
    const std::string name = convert_format_name(format), out = dir / name;
    const ConvertOptions options{.format = format, .out = out, .shard_bytes = 2000};
    const auto splits = convert({split(lines)}, options);
    ASSERT_GT(splits[0].files.size(), 2u);
    const std::string archive = "wds(" + out + "/*.tar, text=[json.caption, json.captions])",
                      set = "tfds(" + name + ", text=[caption, captions]" + in_dir,
                      records = name + "(" + out + "/1.0.0/*-of-*, text=[caption, captions])";
    expect_whole(format == ConvertFormat::kTar ? archive : set);
    if (format != ConvertFormat::kTar) expect_whole(records);
    // Names stay on the way to every other format.
    for (const ConvertFormat other : kAll) {
      const std::string second = name + "_to_" + convert_format_name(other);
      convert({split(format == ConvertFormat::kTar ? archive : set)}, {.format = other, .out = dir / second});
      expect_whole(other == ConvertFormat::kTar ? "wds(" + (dir / second) + "/*.tar, text=[json.caption, json.captions])"
                                                : "tfds(" + second + ", text=[caption, captions]" + in_dir);
    }
    // What is found in shards that an interrupted conversion left is what was found when they were written.
    if (format == ConvertFormat::kTar) continue;
    const auto wanted = content(out);
    fs::remove(out + "/1.0.0/features.json");
    EXPECT_EQ(convert({split(lines)}, options)[0].kept, static_cast<int64_t>(splits[0].files.size()));
    EXPECT_EQ(content(out), wanted);
    EXPECT_THAT(testing::as_string(wanted.at("1.0.0/features.json")), HasSubstr("sequence_feature.Sequence"));
  }
  const std::string twice = "jsonl(" + (dir / "lines.jsonl") + ", text=[caption, caption])";
  EXPECT_THROW(convert({split(twice)}, {.out = dir / "twice"}), Error);
  // One text of each sample is no list.
  convert({split("jsonl(" + (dir / "lines.jsonl") + ", text=caption)")}, {.out = dir / "single"});
  EXPECT_THAT(testing::as_string(image::testing::read_file(dir / "single/1.0.0/features.json")),
              ::testing::Not(HasSubstr("sequence_feature")));
}

TEST(Convert, GoesOnWhereItStopped) {
  const TempDir dir;
  for (const ConvertFormat format : kAll) {
    SCOPED_TRACE(convert_format_name(format));
    const std::string out = dir / (std::string("set_") + convert_format_name(format));
    const ConvertOptions options{.format = format, .out = out, .shard_bytes = 2000, .threads = 1};
    const auto whole = convert(toy(), options);
    const auto wanted = content(out);
    // Stopped in the middle: the metadata, a shard and the end of another are missing.
    const std::string folder = format == ConvertFormat::kTar ? out : out + "/1.0.0";
    for (const char* name : {"dataset_info.json", "_info.json"}) fs::remove(fs::path(folder) / name);
    fs::remove(fs::path(folder) / whole[0].files[1]);
    write_file(folder + "/" + whole[0].files[1] + ".tmp-123", {1, 2, 3});
    const auto again = convert(toy(), options);
    EXPECT_EQ(again[0].kept, static_cast<int64_t>(whole[0].files.size()) - 1);
    EXPECT_EQ(again[0].samples, 9);
    EXPECT_EQ(content(out), wanted);
    // Threads change nothing.
    ConvertOptions other = options;
    other.out = dir / ("other/set_" + std::string(convert_format_name(format)));
    other.threads = 3;
    convert(toy(), other);
    EXPECT_EQ(content(other.out), wanted);
  }
}

// The disk failed while the plan was written, and when that was to be removed too.
TEST(Convert, BeginsOverWhatCouldNotWriteItsPlan) {
  const TempDir dir;
  const std::string out = dir / "set";
  fs::create_directories(out);
  write_file(out + "/convert.json.tmp-4194304", {1, 2, 3});  // of no process that can be
  EXPECT_EQ(convert(toy(), {.format = ConvertFormat::kTar, .out = out})[0].samples, 9);
  EXPECT_FALSE(fs::exists(out + "/convert.json.tmp-4194304"));
}

std::string open_error(const std::string& call) {
  try {
    make_source(call);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kData);
    return error.what();
  }
  return "";
}

// As a kill leaves it: some shards, the plan and the journal of what is finished.
TEST(Convert, WhatDidNotEndIsNotReadAsAWholeSet) {
  const TempDir dir;
  for (const ConvertFormat format : kAll) {
    SCOPED_TRACE(convert_format_name(format));
    const std::string name = std::string("set_") + convert_format_name(format), out = dir / name;
    const ConvertOptions options{.format = format, .out = out, .shard_bytes = 2000, .threads = 1};
    const auto whole = convert(toy(), options);
    const auto wanted = content(out);
    const std::string folder = format == ConvertFormat::kTar ? out : out + "/1.0.0";
    const auto entries =
        parse_manifest(testing::as_string(image::testing::read_file(folder + "/manifest.json")), "manifest.json").value();
    ASSERT_EQ(entries.size(), whole[0].files.size() + whole[1].files.size() + 1) << "and the list of classes";
    fs::remove(folder + "/manifest.json");
    fs::remove(folder + "/" + whole[0].files[2]);
    std::string journal = manifest_line(entries[0]) + manifest_line(entries[1]);
    journal += manifest_line(entries[2]).substr(0, 20);  // a torn line
    write_file(out + "/convert.journal", {journal.begin(), journal.end()});
    const std::string pattern =
        format == ConvertFormat::kTar ? "wds(" + out + "/*.tar)" : convert_format_name(format) + ("(" + folder + "/*-of-*)");
    if (format == ConvertFormat::kTar) {
      EXPECT_THAT(open_error(pattern), AllOf(HasSubstr("`" + folder + "` is a conversion that did not end"),
                                             HasSubstr("run the same `tessera data convert` again")));
    }
    EXPECT_NE(open_error(call_of(format, out, "train")), "");
    const auto again = convert(toy(), options);
    EXPECT_EQ(again[0].kept, 2) << "the others are made again: nothing says what they were";
    EXPECT_EQ(content(out), wanted);
    EXPECT_EQ(open_error(call_of(format, out, "train")), "");
  }
}

TEST(Convert, ReadersCompareShardsWithTheManifest) {
  const TempDir dir;
  const std::string out = dir / "set";
  convert(toy(), {.format = ConvertFormat::kTar, .out = out, .shard_bytes = 2000});
  const std::string shard = out + "/set-train-000001.tar", call = "wds(" + out + "/set-train-*.tar)";
  const std::vector<uint8_t> bytes = image::testing::read_file(shard);
  ASSERT_EQ(open_error(call), "");
  // At a member's boundary the archive is well formed, and its samples fewer.
  write_file(shard, {bytes.begin(), bytes.begin() + 1024});
  EXPECT_THAT(open_error(call),
              AllOf(HasSubstr("`" + shard + "` has 1,024 bytes, but manifest.json says"), HasSubstr("cut short")));
  fs::remove(shard);
  EXPECT_THAT(open_error(call), AllOf(HasSubstr("the shard `" + shard + "` is missing"), HasSubstr("manifest.json")));
  EXPECT_EQ(open_error("wds(" + out + "/set-test-*.tar)"), "") << "another split";
  fs::copy(out, dir / "fewer");
  fs::remove(dir / "fewer/manifest.json");
  fs::remove(dir / "fewer/convert.json");
  EXPECT_EQ(open_error("wds(" + dir / "fewer" + "/set-train-*.tar)"), "") << "as the message says how";
  write_file(shard, bytes);
  EXPECT_EQ(open_error("wds(" + out + "/set-train-000000.tar)"), "") << "some of the shards, where all are there";
  const std::string text = testing::as_string(image::testing::read_file(out + "/manifest.json"));
  const std::string damaged = text.substr(0, text.size() / 2), other = R"({"name": "an app", "icons": []})";
  write_file(out + "/manifest.json", {damaged.begin(), damaged.end()});
  EXPECT_THAT(open_error(call), HasSubstr("manifest.json` is damaged"));
  fs::remove(out + "/convert.json");
  write_file(out + "/manifest.json", {other.begin(), other.end()});
  EXPECT_EQ(open_error(call), "") << "the name is common; what isn't ours is nobody's business";
}

// Samples would get other labels' names, or none.
TEST(Convert, ReadersCompareTheListOfClassesWithTheManifest) {
  const TempDir dir;
  for (const ConvertFormat format : kAll) {
    SCOPED_TRACE(convert_format_name(format));
    const std::string out = dir / (std::string("set_") + convert_format_name(format));
    convert(toy(), {.format = format, .out = out, .shard_bytes = 2000});
    const std::string call = call_of(format, out, "train");
    const std::string list = format == ConvertFormat::kTar ? out + "/classes.txt" : out + "/1.0.0/label.labels.txt";
    const std::vector<uint8_t> bytes = image::testing::read_file(list);
    ASSERT_EQ(open_error(call), "");
    std::vector<uint8_t> other = bytes;
    other[0] ^= 1;
    write_file(list, other);
    EXPECT_THAT(open_error(call), AllOf(HasSubstr("the list of classes `" + list + "` is damaged or was changed"),
                                        HasSubstr("manifest.json says")));
    write_file(list, {bytes.begin(), bytes.end() - 1});
    EXPECT_THAT(open_error(call), HasSubstr("`" + list + "` has "));
    fs::remove(list);
    EXPECT_NE(open_error(call), "");
    write_file(list, bytes);
    EXPECT_EQ(open_error(call), "");
  }
}

// Of the same size, so that no reader sees it.
TEST(Convert, CheckComparesTheShardsChecksums) {
  const TempDir dir;
  for (const ConvertFormat format : kAll) {
    SCOPED_TRACE(convert_format_name(format));
    const std::string out = dir / (std::string("set_") + convert_format_name(format));
    const auto splits = convert(toy(), {.format = format, .out = out, .shard_bytes = 2000});
    const std::string shard = (format == ConvertFormat::kTar ? out : out + "/1.0.0") + "/" + splits[0].files[1];
    const auto damaged = [&] { return check_source(*make_source(call_of(format, out, "train"))).damaged_shards; };
    EXPECT_THAT(damaged(), IsEmpty());
    std::vector<uint8_t> bytes = image::testing::read_file(shard);
    bytes[bytes.size() / 2] ^= 1;
    write_file(shard, bytes);
    const std::vector<DamagedShard> found = damaged();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].path, shard);
    EXPECT_THAT(found[0].reason, AllOf(HasSubstr("its SHA-256 is "), HasSubstr(", and manifest.json says ")));
    EXPECT_THAT(check_source(*make_source(call_of(format, out, "test"))).damaged_shards, IsEmpty()) << "another split";
  }
}

// Found by adding up what manifests claim: the sum of two numbers of samples left 64 bits.
TEST(Manifest, ClaimsAreAddedUpWithoutOverflow) {
  ManifestFile file{.name = "a.tar", .split = "train", .samples = INT64_MAX, .size = 1024, .sha256 = std::string(64, '0')};
  EXPECT_FALSE(parse_manifest_line(manifest_line(file)));
  file.samples = int64_t{1} << 50;
  EXPECT_TRUE(parse_manifest_line(manifest_line(file)));
  std::vector<ManifestFile> files(1024, file);
  EXPECT_EQ(parse_manifest(manifest_text(files), "m").value().size(), files.size());
  files.push_back(file);
  EXPECT_THROW(parse_manifest(manifest_text(files), "m"), Error);
}

TEST(Manifest, AmountsAreWholeNumbers) {
  const ManifestFile file{.name = "a.tar", .split = "train", .samples = 7, .size = 1024, .sha256 = std::string(64, '0')};
  const std::string line = manifest_line(file);
  const size_t at = line.find("7,");
  for (const char* other : {"1e300,", "-1e300,", "7.5,", "-7,", "\"7\",", "null,", "18446744073709551615,"})
    EXPECT_FALSE(parse_manifest_line(std::string(line).replace(at, 2, other))) << other;
}

TEST(Convert, MakesDamagedShardsAgainAndRefusesAChangedSource) {
  const TempDir dir;
  write_file(dir / "in/a/1.jpg", image::encode_jpeg(image::testing::photo(40, 30).view(), 90));
  write_file(dir / "in/b/2.jpg", image::encode_jpeg(image::testing::photo(20, 30).view(), 90));
  const std::string call = "folder(" + (dir / "in") + ")", out = dir / "out";
  const ConvertOptions options{.format = ConvertFormat::kTar, .out = out, .shard_bytes = 1};
  const auto first = convert({split(call)}, options);
  ASSERT_EQ(first[0].files.size(), 2u);
  const auto wanted = content(out);
  std::vector<uint8_t> shard = image::testing::read_file(out + "/" + first[0].files[1]);
  shard[600] ^= 1;
  write_file(out + "/" + first[0].files[1], shard);
  const auto again = convert({split(call)}, options);
  EXPECT_EQ(again[0].kept, 1);
  EXPECT_THAT(again[0].remade, ElementsAre(first[0].files[1]));
  EXPECT_EQ(content(out), wanted);
  write_file(dir / "in/b/2.jpg", image::encode_jpeg(image::testing::photo(21, 30).view(), 90));
  try {
    convert({split(call)}, options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kUsage);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("changed since the conversion in `" + out), HasSubstr("--out")));
  }
  EXPECT_EQ(content(out), wanted);
}

TEST(Convert, AClassNameOfTwoLinesIsRefused) {
  const TempDir dir;
  write_file(dir / "in/a\nb/1.jpg", image::encode_jpeg(image::testing::photo(40, 30).view(), 90));
  for (const ConvertFormat format : kAll) {
    try {
      convert({split("folder(" + (dir / "in") + ")")}, {.format = format, .out = dir / "out"});
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(R"(`a\nb` has a line end)"), HasSubstr("rename it")));
    }
    EXPECT_FALSE(fs::exists(dir / "out"));
  }
}

// Names that only look like what a killed process leaves are the user's.
TEST(Convert, RemovesNothingOfTheUsers) {
  const TempDir dir;
  const std::string out = dir / "mine", dead = ".tmp-4194304";  // of no process that can be
  const std::vector<std::string> own = {"thesis.tex", "notes" + dead, "papers/deep/draft" + dead, "convert.json" + dead,
                                        "mine-train-000000.tar" + dead};
  for (const std::string& name : own) write_file(out + "/" + name, {1});
  EXPECT_THROW(convert(toy(), {.format = ConvertFormat::kTar, .out = out}), Error);
  for (const std::string& name : own) EXPECT_TRUE(fs::exists(out + "/" + name)) << name;
  // Nor where the conversion is its own.
  const std::vector<std::string> later = {"notes" + dead, "mine-notes" + dead, "papers/mine-train-000000.tar" + dead};
  for (const ConvertFormat format : kAll) {
    const ConvertOptions options{.format = format, .out = dir / (std::string(convert_format_name(format)) + "/mine")};
    convert(toy(), options);
    for (const std::string& name : later) {
      for (const std::string& folder : {options.out, options.out + "/1.0.0"}) write_file(folder + "/" + name, {1});
    }
    convert(toy(), options);
    for (const std::string& name : later) {
      for (const std::string& folder : {options.out, options.out + "/1.0.0"})
        EXPECT_TRUE(fs::exists(folder + "/" + name)) << name;
    }
  }
}

TEST(Convert, RefusesWhatIsNotItsOwn) {
  const TempDir dir;
  const auto error_of = [&](const ConvertOptions& options) -> std::string {
    try {
      convert(toy(), options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kUsage);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(error_of({.out = dir / "a"}), "accepted");
  EXPECT_THAT(error_of({.out = dir / "a", .quality = 50}), AllOf(HasSubstr("another conversion"), HasSubstr("convert.json")));
  write_file(dir / "b/x", {1});
  EXPECT_THAT(error_of({.out = dir / "b"}), HasSubstr("is not empty"));
  EXPECT_THROW(convert({split("fake(images=3, classes=2)")}, {.out = dir / "c"}), Error);
  EXPECT_THROW(
      convert({toy()[0], split("tfds(toy, data_dir=" + kFormats + "/tfds, label=none, text=caption)")}, {.out = dir / "c"}),
      Error);
}

TEST(Convert, LeavesOutWhatCannotBeRead) {
  const TempDir dir;
  write_file(dir / "in/a/1.jpg", image::encode_jpeg(image::testing::photo(40, 30).view(), 90));
  write_file(dir / "in/a/2.jpg", {'b', 'a', 'd'});
  write_file(dir / "in/b/3.jpg", image::testing::png_bytes(image::testing::photo(20, 60)));
  const std::string call = "folder(" + (dir / "in") + ")";
  const auto plain = convert({split(call)}, {.out = dir / "plain"});
  EXPECT_EQ(plain[0].samples, 2);
  EXPECT_THAT(plain[0].unreadable, ElementsAre("a/2.jpg: not a JPEG, PNG, WebP, BMP, GIF or TIFF image (by its first bytes)"));
  const auto resized = convert({split(call)}, {.out = dir / "small", .resize = 24, .quality = 80});
  EXPECT_EQ(resized[0].samples, 2);
  EXPECT_THAT(resized[0].unreadable,
              ElementsAre("a/2.jpg: not a JPEG, PNG, WebP, BMP, GIF or TIFF image (by its first bytes)"));
  // The next time they are tried again: a disk may be well again.
  const auto again = convert({split(call)}, {.out = dir / "small", .resize = 24, .quality = 80});
  EXPECT_EQ(again[0].kept, 0);
  EXPECT_EQ(again[0].unreadable, resized[0].unreadable);
  const auto back = make_source("tfds(small, data_dir=" + dir.path().string() + ")");
  ASSERT_EQ(back->size(), 2);
  EXPECT_THAT(back->class_names(), ElementsAre("a", "b"));
  Sample sample;
  ASSERT_FALSE(back->read(0, sample));
  // The same steps by hand.
  image::Image image, small(32, 24);
  ASSERT_FALSE(image::Decoder().decode(image::testing::read_file(dir / "in/a/1.jpg"), image));
  image::Resizer().resize(image.view(), image::Filter::kBicubic, false, 32, 24, small.row(0), small.stride());
  EXPECT_TRUE(std::ranges::equal(sample.image, image::encode_jpeg(small.view(), 80)));
  // A short side that is short enough stays; quality alone encodes all the same.
  ASSERT_FALSE(back->read(1, sample));
  image::Image second;
  ASSERT_FALSE(image::Decoder().decode(sample.image, second));
  EXPECT_EQ(second.width(), 20);
  EXPECT_EQ(sample.label, 1);
  EXPECT_EQ(image::sniff_format(sample.image), image::ImageFormat::kJpeg);
  const auto kept = convert({split(call)}, {.out = dir / "kept", .resize = 100});
  EXPECT_EQ(kept[0].unreadable.size(), 1u);
  const auto same = make_source("tfds(kept, data_dir=" + dir.path().string() + ")");
  ASSERT_FALSE(same->read(1, sample));
  EXPECT_TRUE(std::ranges::equal(sample.image, image::testing::read_file(dir / "in/b/3.jpg")));
}

TEST(Convert, LeavesOutWhatIsOverTheLimits) {
  const TempDir dir;
  write_file(dir / "in/a/1.jpg", image::encode_jpeg(image::testing::photo(40, 30).view(), 90));
  write_file(dir / "in/b/2.jpg", image::encode_jpeg(image::testing::photo(41, 30).view(), 90));
  ConvertSplit data = split("folder(" + (dir / "in") + ")");
  data.limits.pixels = 1200;
  const ConvertOptions options{.out = dir / "out", .quality = 80};
  EXPECT_THAT(convert({data}, options)[0].unreadable, ElementsAre("b/2.jpg: 41x30 pixels are over the limit of 1200"));
  data.limits.pixels = 2000;
  EXPECT_THAT(convert({data}, options)[0].unreadable, IsEmpty());
}

TEST(EncodeJpeg, DecodesToNearlyTheSame) {
  const image::Image image = image::testing::photo(61, 37);
  const std::vector<uint8_t> small = image::encode_jpeg(image.view(), 50), large = image::encode_jpeg(image.view(), 100);
  EXPECT_LT(small.size(), large.size());
  image::Image back;
  ASSERT_FALSE(image::Decoder().decode(large, back));
  ASSERT_EQ(back.width(), 61);
  ASSERT_EQ(back.height(), 37);
  int64_t difference = 0;
  for (size_t i = 0; i < image.byte_count(); ++i) difference += std::abs(image.bytes()[i] - back.bytes()[i]);
  EXPECT_LT(static_cast<double>(difference) / static_cast<double>(image.byte_count()), 6.0);
}

}  // namespace
}  // namespace tessera::data
