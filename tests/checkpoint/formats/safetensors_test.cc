#include "checkpoint/formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/rng.h"
#include "store/encoding/crc32c.h"
#include "store/temp_dir.h"
#include "support/paths.h"

namespace tessera::checkpoint {
namespace {

using ::testing::HasSubstr;
using testing::slurp;
using testing::spill;
using testing::TempDir;

std::vector<std::byte> pattern(size_t n) {
  std::vector<std::byte> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(7 * i + 3);
  return bytes;
}

// Arrays of this test's own with the bytes of golden/make_golden.py.
struct Arrays {
  std::vector<std::vector<std::byte>> memory;
  std::vector<TensorView> views;
  void add(std::string name, DType dtype, Dims dims) {
    const TensorType type{dtype, std::move(dims)};
    memory.push_back(pattern(static_cast<size_t>(byte_count(type))));
    views.push_back({std::move(name), type, memory.back()});
  }
};

Arrays golden_arrays() {
  Arrays a;
  a.add("b/bias", DType::kF32, {3});
  a.add("a.weight", DType::kF32, {2, 3});
  a.add("half", DType::kBF16, {5});
  a.add("f16", DType::kF16, {2});
  a.add("step", DType::kI64, {});
  a.add("key", DType::kU32, {4});
  a.add("i32", DType::kI32, {1});
  a.add("image", DType::kU8, {1, 2, 2});
  a.add("i8", DType::kI8, {3});
  a.add("mask", DType::kBool, {2});
  a.add("empty", DType::kF32, {0, 4});
  a.add("wide", DType::kF64, {1});
  a.add("u64", DType::kU64, {1});
  a.add("i16", DType::kI16, {1});
  a.add("u16", DType::kU16, {1});
  a.add("quote\" \\ \u00e4", DType::kF32, {1});
  return a;
}

std::string golden() { return slurp(testing::source_path("tests/checkpoint/golden/reference.safetensors")); }

std::string with_header(const std::string& json, const std::string& data = {}) {
  std::string text(8, '\0');
  const uint64_t length = json.size();
  std::memcpy(text.data(), &length, 8);
  return text + json + data;
}

SafetensorsFile parse(const std::string& text) {
  return SafetensorsFile::parse(store::copy_bytes(store::as_bytes(text)), "w.safetensors");
}

std::string message_of(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kData);
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << text.substr(8);
  return {};
}

TEST(Safetensors, WritesTheBytesOfTheFormatsOwnLibrary) {
  const TempDir directory;
  const Arrays arrays = golden_arrays();
  const FileSum sum = write_safetensors(store::local_files(), directory / "f", arrays.views, {{"format", "tessera"}});
  const std::string written = slurp(directory / "f");
  EXPECT_EQ(written, golden());
  EXPECT_EQ(sum.size, static_cast<int64_t>(written.size()));
  EXPECT_EQ(sum.crc32c, store::crc32c(store::as_bytes(written)));
}

TEST(Safetensors, ReadsWhatTheFormatsOwnLibraryWrote) {
  const SafetensorsFile file = SafetensorsFile::open(testing::source_path("tests/checkpoint/golden/reference.safetensors"));
  const Arrays arrays = golden_arrays();
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "tessera"}}));
  ASSERT_EQ(file.tensors().size(), arrays.views.size());
  for (const TensorView& want : arrays.views) {
    const TensorView* got = file.find(want.name);
    ASSERT_NE(got, nullptr) << want.name;
    EXPECT_EQ(got->type, want.type) << want.name;
    EXPECT_EQ(store::as_text(got->data), store::as_text(want.data)) << want.name;
  }
  EXPECT_EQ(file.tensors().front().name, "u64");
  EXPECT_EQ(file.find("nothing"), nullptr);
}

TEST(Safetensors, NothingAtAllIsAValidFile) {
  const TempDir directory;
  write_safetensors(store::local_files(), directory / "f", {});
  EXPECT_EQ(slurp(directory / "f"), with_header("{}      "));
  EXPECT_TRUE(SafetensorsFile::open(directory / "f").tensors().empty());
}

TEST(Safetensors, ViewsOutliveMovesAndTheFileName) {
  const TempDir directory;
  spill(directory / "f", golden());
  SafetensorsFile file = SafetensorsFile::open(directory / "f");
  store::local_files().remove_file(directory / "f");
  const SafetensorsFile moved = std::move(file);
  ASSERT_NE(moved.find("step"), nullptr);
  EXPECT_EQ(store::as_text(moved.find("step")->data), store::as_text(pattern(8)));
}

TEST(Safetensors, TheHeaderAloneTellsOfTheArrays) {
  const TempDir directory;
  const std::string path = directory / "golden.safetensors";
  write_safetensors(store::local_files(), path, golden_arrays().views, {{"format", "tessera"}});
  const SafetensorsFile whole = SafetensorsFile::open(path);
  const SafetensorsFile header = SafetensorsFile::open_header(path, store::local_files());
  EXPECT_EQ(header.metadata(), whole.metadata());
  EXPECT_EQ(header.size(), static_cast<int64_t>(slurp(path).size()));
  EXPECT_EQ(header.size(), whole.size());
  ASSERT_EQ(header.tensors().size(), whole.tensors().size());
  for (size_t i = 0; i < whole.tensors().size(); ++i) {
    EXPECT_EQ(header.tensors()[i].name, whole.tensors()[i].name);
    EXPECT_EQ(header.tensors()[i].type, whole.tensors()[i].type);
    EXPECT_TRUE(header.tensors()[i].data.empty());
  }
  const std::string bytes = slurp(path);
  for (const size_t kept : {size_t{0}, size_t{7}, size_t{100}, bytes.size() - 1}) {
    spill(path, bytes.substr(0, kept));
    EXPECT_THROW(SafetensorsFile::open_header(path, store::local_files()), Error) << kept;
  }
}

TEST(Safetensors, OurOwnMistakesAreBugs) {
  const TempDir directory;
  EXPECT_THROW(layout_safetensors({{"a", {DType::kF32, {1}}}, {"a", {DType::kF32, {2}}}}), InternalError);
  EXPECT_THROW(layout_safetensors({{"__metadata__", {DType::kF32, {0}}}}), InternalError);
  const std::vector<TensorView> too_short{{"a", {DType::kF32, {3}}, {}}};
  EXPECT_THROW(write_safetensors(store::local_files(), directory / "f", too_short), InternalError);
}

TEST(Safetensors, ArraysMayComeOneAtATime) {
  const TempDir directory;
  const Arrays arrays = golden_arrays();
  std::vector<NamedType> types;
  for (const TensorView& view : arrays.views) types.push_back({view.name, view.type});
  std::vector<int> asked(types.size());
  std::weak_ptr<const void> before;
  write_safetensors(store::local_files(), directory / "f", types,
                    [&](size_t i) {
                      ++asked[i];
                      EXPECT_TRUE(before.expired());
                      store::Bytes bytes = store::copy_bytes(arrays.views[i].data);
                      before = bytes.owner;
                      return bytes;
                    },
                    {{"format", "tessera"}});
  EXPECT_EQ(slurp(directory / "f"), golden());
  EXPECT_EQ(asked, std::vector<int>(types.size(), 1));
}

TEST(Safetensors, RefusesBadLengthsBeforeReadingOn) {
  EXPECT_THAT(message_of("1234567"), HasSubstr("only 7 bytes"));
  EXPECT_THAT(message_of(""), HasSubstr("only 0 bytes"));
  std::string text = golden();
  for (const uint64_t length : {uint64_t{100'000'001}, ~uint64_t{0}, uint64_t{1} << 63, uint64_t{text.size() - 7}}) {
    std::memcpy(text.data(), &length, 8);
    EXPECT_THAT(message_of(text), HasSubstr(fmt::format("a header of {} bytes in a file of {}", length, text.size())));
  }
}

TEST(Safetensors, RefusesEveryMistakeInTheHeader) {
  struct Case {
    const char* header;
    const char* message;
  };
  const char* const fine = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  EXPECT_EQ(parse(with_header(fine, "1234")).tensors().size(), 1u);
  const Case cases[] = {
      {"[1]", "does not begin with {"},
      {" {}", "does not begin with {"},
      {"{", "not JSON"},
      {"{} x", "not JSON"},
      {R"({"a":1})", "a number stands where it must not"},
      {R"({"a":null})", "null stands"},
      {R"({"a":[]})", "a list stands"},
      {R"({"__metadata__":{"k":1}})", "a number stands"},
      {R"({"__metadata__":{"k":"v","k":"w"}})", "`k` is given twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", "the name is given twice"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", "`data_offsets` is missing"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":"y"}})", "unknown field `x`"},
      {R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "`dtype` is given twice"},
      {R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})", "dtype `F8_E4M3` is not supported"},
      {R"({"a":{"dtype":["F32"],"shape":[1],"data_offsets":[0,4]}})", "a list stands"},
      {R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", "a list stands"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "a negative number"},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", "with a fraction"},
      {R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})", "too large"},
      {R"({"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,4]}})", "with a fraction"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", "two numbers"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", "two numbers"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "outside the 4 bytes"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "outside the 4 bytes"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "it has 4 bytes, but f32[2] needs 8"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", "is too large"},
      {R"({"a":{"dtype":"U8","shape":[9223372036854775807,2,0],"data_offsets":[0,0]}})", "is too large"},
      {R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[1,4]}})", "begin at 1, but the array before ends at 0"},
      {R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", "1 bytes after the last array belong to none"},
      {R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
       "array `b`"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[0],"data_offsets":[4,4]}})",
       "the name is given twice"},
  };
  for (const Case& c : cases) EXPECT_THAT(message_of(with_header(c.header, "1234")), HasSubstr(c.message)) << c.header;
  std::string deep = R"({"a":{"dtype":"F32","shape":[)";
  for (size_t i = 0; i <= kMaxSafetensorsRank; ++i) deep += i ? ",1" : "1";
  EXPECT_THAT(message_of(with_header(deep + R"(],"data_offsets":[0,4]}})", "1234")), HasSubstr("more than 32 dimensions"));
  EXPECT_THAT(message_of(with_header("{" + std::string(1'000'000, '['))), HasSubstr("not JSON"));
}

TEST(Safetensors, NamesAreNeverPaths) {
  const auto file = parse(with_header(R"({"../../etc/passwd":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x"));
  EXPECT_EQ(file.tensors().front().name, "../../etc/passwd");
}

// Damaged files either fail with a data error or give arrays inside the file; nothing else may happen (run under sanitizers).
// TESSERA_FUZZ sets the number of rounds.
TEST(Safetensors, DamagedFilesNeverDoHarm) {
  const char* wanted = std::getenv("TESSERA_FUZZ");
  const int rounds = wanted ? std::atoi(wanted) : 3000;
  const std::string whole = golden();
  const std::string tokens = "{}[]\",:0123456789-.eFUIBOL \\n";
  int accepted = 0, refused = 0;
  for (int round = 0; round < rounds; ++round) {
    Rng rng(7, static_cast<uint64_t>(round));
    std::string text = whole;
    if (rng.below(4) == 0) text.resize(rng.below(text.size()));
    for (uint64_t edits = rng.below(4); edits > 0 && !text.empty(); --edits) {
      const size_t at = rng.below(rng.below(2) ? text.size() : std::min<size_t>(text.size(), 200));
      const uint64_t kind = rng.below(4);
      if (kind == 0) text[at] = static_cast<char>(text[at] ^ (1 << rng.below(8)));
      if (kind == 1) text[at] = tokens[rng.below(tokens.size())];
      if (kind == 2) text.insert(at, 1, tokens[rng.below(tokens.size())]);
      if (kind == 3) text.erase(at, 1 + rng.below(8));
    }
    try {
      const SafetensorsFile file = parse(text);
      size_t bytes = 0;
      for (const TensorView& tensor : file.tensors()) {
        ASSERT_EQ(tensor.data.size(), static_cast<size_t>(byte_count(tensor.type)));
        store::crc32c(tensor.data);
        bytes += tensor.data.size();
      }
      ASSERT_LT(bytes, text.size());
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
