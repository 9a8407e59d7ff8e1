// Checkpoints of several files and of slices (format version 2): that they come back, and that no damage goes unseen.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/commit.h"
#include "checkpoint/manager.h"
#include "checkpoint/slices.h"
#include "checkpoint/snapshots.h"
#include "store/encoding/crc32c.h"
#include "store/memory_files.h"
#include "store/temp_dir.h"
#include "support/paths.h"

namespace tessera::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::expect_snapshot;
using ::testing::HasSubstr;
using testing::make_sliced_snapshot;
using testing::make_tensor;
using testing::MemoryFiles;
using testing::slice_of;
using testing::slurp;
using testing::spill;
using testing::TempDir;

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kData);
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return {};
}

// ---- what was written comes back ----

// Of files without a piece that is needed the header is read, and nothing else.
TEST(Sliced, APartIsReadFromTheFilesThatHaveIt) {
  const TempDir directory;
  const std::string path = write_checkpoint(store::local_files(), directory.path(), make_sliced_snapshot(1000));
  const LoadedCheckpoint whole = load(path);
  std::vector<std::string> fetched;
  const auto fetch = [&](const std::string& file) {
    fetched.push_back(store::last_part(file));
    return store::local_files().map(file);
  };
  const StoredArray& array = whole.arrays.at("params/w");
  const Placed wanted = array.pieces[0].place;
  const NeedsPiece needs = [&](const std::string& name, const Placed& place) {
    return name == "params/w" && place.offset == wanted.offset;
  };
  const LoadedCheckpoint part = load_part(path, store::local_files(), needs, fetch);
  EXPECT_EQ(fetched.size(), 2u) << "its file and state.json";
  EXPECT_EQ(part.state_json, whole.state_json);
  ASSERT_EQ(part.arrays.size(), whole.arrays.size());
  for (const auto& [name, one] : whole.arrays) EXPECT_EQ(part.arrays.at(name).type, one.type);
  std::vector<std::byte> expected(array.pieces[0].data.size()), read(expected.size());
  array.read(wanted, expected.data());
  part.arrays.at("params/w").read(wanted, read.data());
  EXPECT_TRUE(read == expected);

  // What is needed is checked, and what is not is not.
  for (const std::string& name :
       {std::string("state-00001-of-00005.safetensors"), std::string("state-00005-of-00005.safetensors")}) {
    const std::string file = store::join_path(path, name), bytes = slurp(file);
    std::string damaged = bytes;
    damaged.back() ^= 1;
    spill(file, damaged);
    const bool is_needed = std::ranges::find(fetched, name) != fetched.end();
    if (is_needed) {
      EXPECT_THROW(load_part(path, store::local_files(), needs, fetch), Error) << name;
    } else {
      EXPECT_EQ(load_part(path, store::local_files(), needs, fetch).step, 1000) << name;
    }
    spill(file, bytes);
  }
}

TEST(Sliced, RoundTripOfManyGroups) {
  const TempDir directory;
  const Snapshot snapshot = make_sliced_snapshot(1000);
  const std::string path = write_checkpoint(store::local_files(), directory.path(), snapshot);
  std::vector<std::string> names;
  for (const auto& entry : store::local_files().list(path)) names.push_back(entry.name);
  EXPECT_THAT(names, ElementsAre("COMMIT", "state-00001-of-00005.safetensors", "state-00002-of-00005.safetensors",
                                 "state-00003-of-00005.safetensors", "state-00004-of-00005.safetensors",
                                 "state-00005-of-00005.safetensors", "state.json"));
  const LoadedCheckpoint loaded = load(path);
  expect_snapshot(loaded, snapshot);
  EXPECT_EQ(loaded.files.size(), 5u);
  EXPECT_EQ(loaded.arrays.at("params/w").pieces.size(), 4u);
  EXPECT_FALSE(loaded.arrays.at("params/w").whole());
  EXPECT_TRUE(loaded.arrays.at("params/b").whole());
  EXPECT_TRUE(loaded.arrays.at("none").whole());
}

TEST(Sliced, SeveralFilesOfWholeArraysAreVersion2AndOnePlainFileIsVersion1) {
  const TempDir directory;
  Snapshot snapshot = testing::make_snapshot(1);
  write_checkpoint(store::local_files(), directory.path(), snapshot);
  snapshot.step = 2;
  snapshot.add({make_tensor("more", {DType::kF32, {2}}, 1)});
  const std::string path = write_checkpoint(store::local_files(), directory.path(), snapshot);
  expect_snapshot(load(path), snapshot);
  EXPECT_EQ(load(path).files[1].metadata(), (Metadata{{"format", "tessera"}, {"step", "2"}}));
  EXPECT_THAT(slurp(directory / "step_000000001/COMMIT"), HasSubstr("\"version\": 1,"));
  EXPECT_THAT(slurp(directory / "step_000000001/state.json"), HasSubstr("\"format_version\": 1,"));
  EXPECT_THAT(slurp(path + "/COMMIT"), HasSubstr("\"version\": 2,"));
  EXPECT_THAT(slurp(path + "/state.json"), HasSubstr("\"format_version\": 2,"));
}

TEST(Sliced, ASliceThatIsTheWholeArrayIsWrittenPlainly) {
  const TempDir plain, sliced;
  const HostTensor whole = make_tensor("a", {DType::kF32, {2, 3}}, 1);
  Snapshot one, other;
  one.add({whole});
  other.add({slice_of(whole, {{2, 3}, {0, 0}})});
  write_checkpoint(store::local_files(), plain.path(), one);
  write_checkpoint(store::local_files(), sliced.path(), other);
  for (const char* name : {"COMMIT", "state.json", "state.safetensors"}) {
    const std::string file = "step_000000000/" + std::string(name);
    EXPECT_EQ(slurp(plain / file), slurp(sliced / file));
  }
}

// The second worked example of docs/formats/checkpoint.md.
TEST(Sliced, WritesTheBytesOfTheDocument) {
  const TempDir directory;
  const TensorType type{DType::kF32, {2, 2}};
  Snapshot snapshot;
  snapshot.step = 8;
  snapshot.state_json = R"({"seed":0})";
  const std::string rows[] = {std::string("\0\0\x80\x3f\0\0\0\xc0", 8), std::string("\0\0\0\x3f\0\0\x80\x40", 8)};
  for (int64_t row = 0; row < 2; ++row) {
    snapshot.add({{"params/w", type, store::copy_bytes(store::as_bytes(rows[row])), Placed{{1, 2}, {row, 0}}}});
  }
  const std::string path = write_checkpoint(store::local_files(), directory.path(), snapshot);
  for (const char* name : {"COMMIT", "state.json", "state-00001-of-00002.safetensors", "state-00002-of-00002.safetensors"}) {
    EXPECT_EQ(slurp(path + "/" + name),
              slurp(testing::source_path("tests/checkpoint/golden/step_000000008/" + std::string(name))))
        << name;
  }
}

// Element i of an array is i, so that any box can be told without the code under test.
HostTensor counted(std::string name, Dims dims) {
  std::string bytes;
  for (uint32_t i = 0; i < static_cast<uint32_t>(element_count(dims)); ++i) {
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(i >> shift);
  }
  return {std::move(name), {DType::kU32, std::move(dims)}, store::copy_bytes(store::as_bytes(bytes))};
}

void expect_box(const StoredArray& array, const Placed& box) {
  std::vector<uint32_t> got(static_cast<size_t>(element_count(box.dims)));
  array.read(box, reinterpret_cast<std::byte*>(got.data()));
  for (size_t k = 0; k < got.size(); ++k) {
    auto rest = static_cast<int64_t>(k);
    int64_t index = 0, stride = 1;
    for (size_t d = box.dims.size(); d-- > 0;) {
      index += (box.offset[d] + rest % box.dims[d]) * stride;
      rest /= box.dims[d];
      stride *= array.type.dims[d];
    }
    ASSERT_EQ(got[k], static_cast<uint32_t>(index)) << array.name << " element " << k;
  }
}

TEST(Sliced, AnyBoxComesBackWhateverTheWriters) {
  const std::vector<HostTensor> arrays{counted("two", {16, 12}), counted("three", {4, 6, 10}), counted("line", {37})};
  for (const size_t writers : {1, 2, 8}) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      MemoryFiles files;
      const Snapshot snapshot = testing::sliced(arrays, writers, seed);
      const LoadedCheckpoint loaded = load(write_checkpoint(files, "c", snapshot), files);
      for (const auto& [name, array] : loaded.arrays) {
        EXPECT_EQ(array.whole().has_value(), writers == 1);
        expect_box(array, {array.type.dims, Dims(array.type.dims.size(), 0)});
        Rng rng(seed, hash_name(name));
        for (int k = 0; k < 50; ++k) {
          Placed box;
          for (const int64_t dim : array.type.dims) {
            box.offset.push_back(static_cast<int64_t>(rng.below(static_cast<uint64_t>(dim))));
            box.dims.push_back(static_cast<int64_t>(rng.below(static_cast<uint64_t>(dim - box.offset.back()) + 1)));
          }
          expect_box(array, box);
        }
      }
    }
  }
}

TEST(Sliced, ABoxOutsideTheArrayIsABug) {
  MemoryFiles files;
  const LoadedCheckpoint loaded = load(write_checkpoint(files, "c", make_sliced_snapshot(1)), files);
  std::vector<std::byte> out(4096);
  EXPECT_THROW(loaded.arrays.at("params/w").read({{6, 4}, {1, 0}}, out.data()), InternalError);
}

TEST(Sliced, WholeArraysArePutTogether) {
  MemoryFiles files;
  const std::vector<HostTensor> arrays{counted("params/a", {5, 3}), counted("params/b", {4}), counted("q", {2})};
  LoadedCheckpoint loaded = load(write_checkpoint(files, "c", testing::sliced(arrays, 2, 1)), files);
  const WholeArrays whole = whole_arrays(loaded.arrays, "params/");
  ASSERT_EQ(whole.views.size(), 2u);
  EXPECT_EQ(whole.assembled.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(whole.views[i].name, std::string(1, "ab"[i]));
    EXPECT_EQ(whole.views[i].type, arrays[i].type);
    EXPECT_EQ(store::as_text(whole.views[i].data), store::as_text(arrays[i].data.data));
  }
  loaded = load(write_checkpoint(files, "c", testing::sliced(arrays, 1, 1)), files);
  EXPECT_TRUE(whole_arrays(loaded.arrays).assembled.empty());
  EXPECT_EQ(whole_arrays(loaded.arrays).views.size(), 3u);
}

TEST(Sliced, OurOwnMistakesAreBugsAndCommitNothing) {
  const HostTensor a = counted("a", {4, 4});
  const auto commit = [](const std::vector<std::vector<HostTensor>>& groups) {
    const TempDir directory;
    Snapshot snapshot;
    for (const auto& group : groups) snapshot.add(group);
    EXPECT_THROW(write_checkpoint(store::local_files(), directory.path(), snapshot), InternalError);
    EXPECT_TRUE(store::local_files().list(directory.path()).empty());
  };
  const HostTensor top = slice_of(a, {{2, 4}, {0, 0}}), bottom = slice_of(a, {{2, 4}, {2, 0}});
  commit({{top}});
  commit({{top}, {slice_of(a, {{3, 4}, {1, 0}})}});
  commit({{top, bottom}, {a}});
  commit({{a}, {a}});
  commit({{counted("a@b", {2})}});
  HostTensor other_type = bottom;
  other_type.type.dims = {4, 5};
  commit({{top}, {other_type}});
  HostTensor too_short = bottom;
  too_short.data.data = too_short.data.data.first(8);
  commit({{top}, {too_short}});
}

TEST(Groups, AreCutInOrderByBytes) {
  const auto arrays = [](std::initializer_list<int64_t> sizes) {
    std::vector<NamedType> list;
    for (const int64_t size : sizes) list.push_back({"x", {DType::kU8, {size}}});
    return list;
  };
  EXPECT_TRUE(split_into_groups({}, 10).empty());
  EXPECT_THAT(split_into_groups(arrays({3, 3, 3, 3}), 10), ElementsAre(GroupRange{0, 3, 9}, GroupRange{3, 4, 3}));
  EXPECT_THAT(split_into_groups(arrays({5, 5, 1}), 10), ElementsAre(GroupRange{0, 2, 10}, GroupRange{2, 3, 1}));
  EXPECT_THAT(split_into_groups(arrays({1, 99, 1}), 10),
              ElementsAre(GroupRange{0, 1, 1}, GroupRange{1, 2, 99}, GroupRange{2, 3, 1}));
  EXPECT_THAT(split_into_groups(arrays({0, 0}), 0), ElementsAre(GroupRange{0, 2, 0}));
  EXPECT_THAT(split_into_groups(arrays({1, 1}), 0), ElementsAre(GroupRange{0, 1, 1}, GroupRange{1, 2, 1}));
}

// ---- damage ----

TEST(Sliced, EveryFileIsCheckedAndNamedAndThePreviousStepIsOffered) {
  const TempDir directory;
  auto& files = store::local_files();
  write_checkpoint(files, directory.path(), make_sliced_snapshot(1));
  const std::string path = write_checkpoint(files, directory.path(), make_sliced_snapshot(2));
  for (size_t i = 0; i < 5; ++i) {
    const std::string file = path + "/" + state_file_name(i, 5), whole = slurp(file);
    const auto expect_refused = [&](const std::string& why) {
      EXPECT_THAT(message_of([&] { load(path); }), AllOf(HasSubstr("`" + file + "` is"), HasSubstr(why)));
      const LatestCheckpoint latest = find_latest(directory.path());
      ASSERT_TRUE(latest.checkpoint);
      expect_snapshot(*latest.checkpoint, make_sliced_snapshot(1));
    };
    for (size_t byte = 0; byte < whole.size(); byte += 41) {
      std::string damaged = whole;
      damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << (byte % 8)));
      spill(file, damaged);
      expect_refused("its checksum does not fit");
    }
    spill(file, whole.substr(0, whole.size() - 1));
    expect_refused("bytes");
    files.remove_file(file);
    expect_refused("missing");
    spill(file, whole);
    EXPECT_EQ(find_latest(directory.path()).checkpoint->step, 2);
  }
}

TEST(Sliced, OfSeveralDamagedFilesTheFirstIsNamed) {
  const TempDir directory;
  const std::string path = write_checkpoint(store::local_files(), directory.path(), make_sliced_snapshot(1));
  for (const size_t i : {1, 3, 4}) {
    std::string text = slurp(path + "/" + state_file_name(i, 5));
    text.back() = static_cast<char>(text.back() ^ 1);
    spill(path + "/" + state_file_name(i, 5), text);
  }
  for (int k = 0; k < 30; ++k) EXPECT_THAT(message_of([&] { load(path); }), HasSubstr("state-00002-of-00005"));
}

TEST(Sliced, TheListMustHaveEveryNumberedFileOnce) {
  const auto parse = [](int64_t version, const std::vector<std::string>& names) {
    Commit commit{1, {{"state.json", 1, 0}}, version};
    for (const std::string& name : names) commit.files.push_back({name, 1, 0});
    return parse_commit(commit_text(commit), "COMMIT");
  };
  const std::string one = "state-00001-of-00002.safetensors", two = "state-00002-of-00002.safetensors";
  EXPECT_THAT(*state_files(parse(2, {two, "notes.txt", one})), ElementsAre(3, 1));
  EXPECT_THAT(*state_files(parse(2, {"state.safetensors"})), ElementsAre(1));
  EXPECT_THAT(*state_files(parse(1, {one, "state.safetensors"})), ElementsAre(2));
  const std::vector<std::string> bad[] = {{},
                                          {one},
                                          {two},
                                          {one, one},
                                          {one, two, two},
                                          {one, two, "state.safetensors"},
                                          {"state-00001-of-00001.safetensors"},
                                          {one, two, "state-00003-of-00003.safetensors"},
                                          {one, "state-00002-of-00003.safetensors"},
                                          {"state-1-of-2.safetensors", "state-2-of-2.safetensors"},
                                          {one, two, "state-x.safetensors"},
                                          {"state-00000-of-00002.safetensors", one}};
  for (const auto& names : bad) {
    EXPECT_THAT(message_of([&] { parse(2, names); }),
                HasSubstr("it must list `state.safetensors`, or else each of its numbered"));
  }
  EXPECT_THAT(message_of([&] { parse(1, {one, two}); }), HasSubstr("it must list `state.safetensors` once"));
}

// A checkpoint whose files are as given, with sizes and checksums that fit: only the arrays can be wrong.
struct RawFile {
  std::vector<NamedType> entries;  // their bytes are zeros
  Metadata metadata;
};

LoadedCheckpoint load_raw(const std::vector<RawFile>& raw, int64_t version = kPiecesVersion) {
  MemoryFiles files;
  const std::string path = "c/step_000000001";
  files.make_directories(path);
  Commit commit{1, {}, version};
  for (size_t i = 0; i < raw.size(); ++i) {
    const std::string name = state_file_name(i, raw.size());
    const FileSum sum = write_safetensors(
        files, store::join_path(path, name), raw[i].entries,
        [&](size_t k) {
          return store::own_bytes(std::vector<std::byte>(static_cast<size_t>(byte_count(raw[i].entries[k].type))));
        },
        raw[i].metadata);
    commit.files.push_back({name, sum.size, sum.crc32c});
  }
  const std::string json = fmt::format(R"({{"format_version":{},"step":1,"state":{{}}}})", version);
  store::write_atomic(files, path + "/state.json", json);
  commit.files.push_back({"state.json", static_cast<int64_t>(json.size()), store::crc32c(store::as_bytes(json))});
  store::write_atomic(files, path + "/COMMIT", commit_text(commit));
  return load(path, files);
}

NamedType f32(std::string name, Dims dims) { return {std::move(name), {DType::kF32, std::move(dims)}}; }

TEST(Sliced, PiecesThatDoNotMakeTheArrayAreRefused) {
  const Metadata shapes{{"shapes", R"({"a":[4,6]})"}};
  const RawFile left{{f32("a@0,0", {4, 3})}, shapes}, right{{f32("a@0,3", {4, 3})}, shapes};
  EXPECT_EQ(load_raw({left, right}).arrays.at("a").type, (TensorType{DType::kF32, {4, 6}}));
  struct Case {
    std::vector<RawFile> files;
    std::string message;
  };
  const std::string first = "`c/step_000000001/state-00001-of-00002.safetensors` is damaged: ";
  const std::string second = "`c/step_000000001/state-00002-of-00002.safetensors` is damaged: ";
  const std::string all = "`c/step_000000001` is damaged: ";
  const Case cases[] = {
      {{left}, all + "its pieces hold 12 of the 24 elements\n  --> array `a`"},
      {{left, {}}, all + "its pieces hold 12 of the 24 elements"},
      {{left, {{f32("a@0,2", {4, 4})}, shapes}}, all + "the pieces at [0, 0] and [0, 2] overlap"},
      {{left, right, {{f32("a@3,5", {1, 1})}, shapes}}, all + "the pieces at "},
      {{left, {{f32("a@0,4", {4, 3})}, shapes}}, all + "the piece [4, 3] at [0, 4] does not lie inside [4, 6]"},
      {{left, {{f32("a@1,3", {4, 3})}, shapes}}, "does not lie inside"},
      {{left, {{f32("a@9223372036854775807,3", {4, 3})}, shapes}}, "does not lie inside"},
      {{left, {{f32("a@3", {12})}, shapes}}, "does not lie inside"},
      {{left, {{f32("a@0,3,0", {4, 3, 1})}, shapes}}, "does not lie inside"},
      {{left, {{f32("a@0,3", {3, 4})}, shapes}}, "does not lie inside"},
      {{left, {{{"a@0,3", {DType::kI32, {4, 3}}}}, shapes}},
       second + "it is a piece of i32[4, 6], another one of f32[4, 6]\n  --> array `a@0,3`"},
      {{left, {{f32("a@0,3", {4, 3})}, {{"shapes", R"({"a":[4,7]})"}}}}, second + "it is a piece of f32[4, 7], another one"},
      {{left, {{f32("a@0,3", {4, 3})}, {}}}, second + "the metadata lack the shape of the whole array"},
      {{left, {{f32("a@0,3", {4, 3})}, {{"shapes", "{}"}}}}, second + "the metadata lack the shape"},
      {{left, {{f32("a@0,3", {4, 3})}, {{"shapes", R"({"a":[4,"6"]})"}}}}, second + "the metadata `shapes`: a string stands"},
      {{left, right, {{}, shapes}}, "the metadata give its shape, but the file has no slice of it\n  --> array `a`"},
      {{left, {{f32("a", {4, 6})}, {}}}, second + "it is there twice"},
      {{left, {{f32("a", {4, 6})}, shapes}}, second + "the metadata say that it is sliced, but it is not"},
      {{{{f32("b", {2})}, {}}, {{f32("b", {2})}, {}}}, second + "it is there twice"},
      {{{{f32("e", {0})}, {}}, {{f32("e", {0})}, {}}}, second + "it is there twice"},
      {{left, {{f32("a@0,3", {4, 3}), f32("b@0", {2})}, shapes}}, second + "the metadata lack the shape"},
      {{{{f32("a@0,0", {4, 3})}, {{"shapes", R"({"a":[4611686018427387904,4]})"}}}, right},
       first + "the shape [4611686018427387904, 4] is too large"},
      {{{{f32("a@0,0", {0, 0})}, {{"shapes", R"({"a":[4611686018427387904,4,0]})"}}}, right}, first + "the shape"},
  };
  for (const Case& c : cases) EXPECT_THAT(message_of([&] { load_raw(c.files); }), HasSubstr(c.message));
}

TEST(Sliced, HostileNamesAreRefused) {
  const Metadata shapes{{"shapes", R"({"a":[4]})"}};
  for (const char* name : {"a@", "a@x", "a@-1", "a@00", "a@+0", "a@0,", "a@0.0", "a@9223372036854775808", "a@ 0",
                           "a@99999999999999999999999999999", "@0", "@", "a@@0", "b@0"}) {
    const RawFile file{{f32(name, {4})}, shapes};
    EXPECT_THAT(message_of([&] { load_raw({file}); }), HasSubstr("` is damaged: ")) << name;
  }
}

TEST(Sliced, InVersion1EveryNameIsAName) {
  const LoadedCheckpoint loaded = load_raw({{{f32("a@0,0", {4}), f32("a@x", {1})}, {{"shapes", "nonsense"}}}}, kPlainVersion);
  EXPECT_EQ(loaded.arrays.at("a@0,0").type, (TensorType{DType::kF32, {4}}));
  EXPECT_TRUE(loaded.arrays.at("a@x").whole());
}

TEST(Sliced, TheVersionsOfTheFilesMustAgree) {
  const TempDir directory;
  const std::string path = write_checkpoint(store::local_files(), directory.path(), make_sliced_snapshot(1));
  Commit commit = read_commit(store::local_files(), path);
  std::string json = slurp(path + "/state.json");
  json.replace(json.find("version\": 2"), 11, "version\": 1");
  spill(path + "/state.json", json);
  commit.files.back().crc32c = store::crc32c(store::as_bytes(json));
  spill(path + "/COMMIT", commit_text(commit));
  EXPECT_THAT(message_of([&] { load(path); }), HasSubstr("state.json` belongs to another checkpoint"));
}

// Files damaged behind the back of their checksums either give a data error or whole arrays that lie inside the files (run
// under sanitizers). TESSERA_FUZZ sets the number of rounds.
TEST(Sliced, DamagedHeadersNeverDoHarm) {
  const char* wanted = std::getenv("TESSERA_FUZZ");
  const int rounds = wanted ? std::atoi(wanted) : 3000;
  MemoryFiles memory;
  std::vector<std::string> texts;
  for (const SafetensorsFile& file : load(write_checkpoint(memory, "c", make_sliced_snapshot(1)), memory).files) {
    texts.emplace_back(store::as_text(file.bytes().data));
  }
  const std::string tokens = "{}[]\",:@0123456789-\\pw ";
  int accepted = 0, refused = 0;
  for (int round = 0; round < rounds; ++round) {
    Rng rng(11, static_cast<uint64_t>(round));
    try {
      std::vector<SafetensorsFile> files;
      const size_t target = rng.below(texts.size());
      for (size_t i = 0; i < texts.size(); ++i) {
        std::string text = texts[i];
        for (uint64_t edits = i == target ? rng.below(3) : 0; edits > 0; --edits) {
          const size_t at = 8 + rng.below(texts[i].find("}}") + 2 - 8);  // in the header's text
          text[at] = tokens[rng.below(tokens.size())];
        }
        files.push_back(SafetensorsFile::parse(store::copy_bytes(store::as_bytes(text)), fmt::format("file {}", i)));
      }
      const StoredArrays arrays = collect_arrays(files, true, "c");
      size_t bytes = 0, stored = 0;
      for (const auto& [name, array] : arrays) bytes += whole_bytes(array).size();
      for (const SafetensorsFile& file : files) {
        for (const TensorView& tensor : file.tensors()) stored += tensor.data.size();
      }
      ASSERT_EQ(bytes, stored);
      ++accepted;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), Exit::kData);
      ++refused;
    }
  }
  EXPECT_EQ(accepted + refused, rounds);
  EXPECT_TRUE(rounds < 1000 || std::min(accepted, refused) > rounds / 50) << accepted << " accepted";
}

}  // namespace
}  // namespace tessera::checkpoint
