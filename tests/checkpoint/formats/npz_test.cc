// NumPy's files: those that NumPy wrote (tools/references/models/big_vision_weights.py), and bytes that are not quite right.
#include "checkpoint/formats/npz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/rng.h"
#include "store/temp_dir.h"
#include "support/formula.h"
#include "support/paths.h"

namespace tessera::checkpoint {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

const std::string kFolder = testing::source_path("tests/references/weights/");

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

// A version 1 file of `header` and `data`.
std::vector<std::byte> npy(const std::string& header, const std::string& data) {
  std::string text = "\x93NUMPY";
  text += {'\x01', '\x00', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  return bytes_of(text + header + data);
}

std::string failure(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kData);
    return error.what();
  }
  return "no error";
}

std::vector<float> floats(const NpzArray& array) {
  std::vector<float> values;
  for (size_t i = 0; i < array.data.size(); i += static_cast<size_t>(element_bytes(array.type.dtype))) {
    if (array.type.dtype == DType::kBF16) {
      uint16_t bits = 0;
      std::memcpy(&bits, array.data.data() + i, sizeof bits);
      values.push_back(bf16_to_float(bits));
    } else {
      std::memcpy(&values.emplace_back(), array.data.data() + i, sizeof(float));
    }
  }
  return values;
}

TEST(Npz, ReadsWhatNumpyWrote) {
  const std::vector<NpzArray> arrays = read_npz(kFolder + "bv_scan.npz", {"params/"});
  std::map<std::string, const NpzArray*> by_name;
  for (const NpzArray& array : arrays) by_name[array.name] = &array;
  const auto formula = [](const std::string& name, int64_t count) { return testing::formula_array("bv/" + name, count, 0.3); };
  // Fortran's order, of 9 places and 16 features.
  ASSERT_TRUE(by_name.contains("pos_embedding"));
  EXPECT_EQ(by_name["pos_embedding"]->type, (TensorType{DType::kF32, {1, 9, 16}}));
  EXPECT_EQ(floats(*by_name["pos_embedding"]), formula("pos_embedding", 9 * 16));
  EXPECT_EQ(by_name["embedding/kernel"]->type, (TensorType{DType::kF16, {4, 4, 3, 16}}));
  EXPECT_EQ(by_name["head/kernel"]->type, (TensorType{DType::kBF16, {16, 5}}));
  const std::vector<float> head = formula("head/kernel", 80), rounded = floats(*by_name["head/kernel"]);
  for (size_t i = 0; i < head.size(); ++i) EXPECT_EQ(rounded[i], bf16_to_float(float_to_bf16(head[i])));
  const std::vector<NpzArray> step = read_npz(kFolder + "bv_map.npz", {"step"});
  ASSERT_EQ(step.size(), 1u);
  EXPECT_EQ(step[0].type, (TensorType{DType::kI32, {}}));
}

TEST(Npz, WritesWhatItReads) {
  const testing::TempDir dir;
  std::vector<NpzArray> arrays = read_npz(kFolder + "bv_map.npz");
  for (NpzArray& array : read_npz(kFolder + "bv_scan.npz", {"params/"})) arrays.push_back(std::move(array));
  arrays.push_back({"none", {DType::kI64, {3, 0}}, {}});
  write_npz(dir / "a.npz", arrays);
  const std::vector<NpzArray> back = read_npz(dir / "a.npz");
  ASSERT_EQ(back.size(), arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    EXPECT_EQ(back[i].name, arrays[i].name);
    EXPECT_EQ(back[i].type, arrays[i].type);
    EXPECT_EQ(back[i].data, arrays[i].data);
  }
  write_npz(dir / "b.npz", arrays);
  EXPECT_EQ(testing::slurp(dir / "a.npz"), testing::slurp(dir / "b.npz"));
  // numpy.savez stores as well: its files hold this .npy, header and all.
  const std::string first = "{'descr': '<f4', 'fortran_order': False, 'shape': (16,), }";
  for (const std::string& file : {dir / "a.npz", kFolder + "bv_map.npz"}) {
    EXPECT_THAT(testing::slurp(file), HasSubstr("\x93NUMPY\x01" + std::string(1, '\0') + "v" + std::string(1, '\0') + first));
  }
  EXPECT_THROW(write_npz(dir / "missing/a.npz", arrays), Error);
}

TEST(Npz, FirstPrefixOfWhichThereIsAnything) {
  EXPECT_EQ(read_npz(kFolder + "bv_map.npz", {"params/head/", ""}).size(), 2u);
  EXPECT_EQ(read_npz(kFolder + "bv_map.npz", {"opt/", "params/head/"})[0].name, "bias");
}

TEST(Npz, FortransOrderOfThreeDimensions) {
  // a[i][j][k] = 12 i + 4 j + k of shape (2, 3, 4), first index fastest.
  std::string data;
  for (int k = 0; k < 4; ++k) {
    for (int j = 0; j < 3; ++j) {
      for (int i = 0; i < 2; ++i) data += static_cast<char>(12 * i + 4 * j + k);
    }
  }
  const NpzArray array = parse_npy("a", npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 4), }\n", data), "f");
  for (size_t i = 0; i < 24; ++i) EXPECT_EQ(static_cast<size_t>(array.data[i]), i);
}

TEST(Npz, SaysWhatIsWrong) {
  EXPECT_THAT(failure([] { read_npz(kFolder + "none.npz"); }), HasSubstr("cannot be read as an .npz file"));
  EXPECT_EQ(failure([] { read_npz(kFolder + "bv_map.npz", {"opt/"}); }),
            "holds no array whose name begins with `opt/`\n  --> " + kFolder +
                "bv_map.npz\nhelp: its names begin with logits, params, step");
  // Packed and unpacked sizes of gigabytes in a file of 576 bytes.
  EXPECT_THAT(failure([] { read_npz(testing::source_path("tests/fuzz/corpus/npz/sizes_too_large.npz")); }),
              HasSubstr("claims more bytes than its packed ones can hold"));
  const auto parse = [](const std::string& header, const std::string& data) {
    return failure([&] { parse_npy("a", npy(header, data), "f.npz"); });
  };
  EXPECT_EQ(parse("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "1234"),
            "the array `a` is f32[2] and has 4 bytes\n  --> f.npz");
  EXPECT_THAT(parse("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "1234"), HasSubstr("the kind `>f4`"));
  EXPECT_THAT(parse("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", ""), HasSubstr("numpy did not write"));
  EXPECT_THAT(parse("{'descr': '<f4', 'shape': (1,), }", "1234"), HasSubstr("numpy did not write"));
  EXPECT_THAT(parse("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8), }", ""),
              HasSubstr("and has 0 bytes"));
  EXPECT_THAT(failure([] { parse_npy("a", bytes_of("\x93NUMPY\x01"), "f"); }), HasSubstr("is no .npy file"));
  EXPECT_THAT(failure([] { parse_npy("a", bytes_of("no numbers at all"), "f"); }), HasSubstr("is no .npy file"));
}

// Whatever is changed in a file: the arrays, or a data error.
NpzArray zeros(std::string name, int64_t count) {
  NpzArray array;
  array.name = std::move(name);
  array.type.dtype = DType::kU8;
  array.type.dims = {count};
  array.data.resize(static_cast<size_t>(count));
  return array;
}

// The directory at the end of the archive claims it; nothing is unpacked to find out.
TEST(Npz, WhatUnpacksToFarMoreIsRefused) {
  const testing::TempDir dir;
  const std::string path = dir / "a.npz";
  write_npz(path, {zeros("a", 2 << 20)});
  std::string bytes = testing::slurp(path);
  const size_t entry = bytes.rfind("PK\x01\x02");
  ASSERT_NE(entry, std::string::npos);
  constexpr size_t kSize = 24;
  const uint32_t claimed = 2'000'000'000;
  std::memcpy(bytes.data() + entry + kSize, &claimed, sizeof claimed);
  testing::spill(path, bytes);
  EXPECT_THAT(failure([&] { read_npz(path); }), HasSubstr("unpacks to more than 1.86 GiB, from 2.00 MiB"));
}

// Headers are read alone: elements that are damaged, and as many as a header claims, are not looked at before they are asked
// for.
TEST(Npz, ArraysAreDescribedBeforeTheyAreUnpacked) {
  const testing::TempDir dir;
  const std::string path = dir / "a.npz";
  NpzArray array = zeros("w/a", 1 << 20);
  array.data.back() = std::byte{1};
  write_npz(path, {array, zeros("w/b", 3)});
  std::string bytes = testing::slurp(path);
  const size_t at = bytes.find('\x01', bytes.find("(1048576,)"));
  bytes[at] = 2;
  testing::spill(path, bytes);
  const NpzFile file(path, {"w/"});
  ASSERT_EQ(file.entries().size(), 2u);
  EXPECT_EQ(file.entries()[0].name, "a");
  EXPECT_EQ(file.entries()[0].type, (TensorType{DType::kU8, {1 << 20}}));
  EXPECT_EQ(file.read(file.entries()[1]).data, std::vector<std::byte>(3));
  EXPECT_THAT(failure([&] { static_cast<void>(file.read(file.entries()[0])); }), HasSubstr("the array `w/a.npy` is damaged"));
  bytes.replace(bytes.find("(1048576,)"), 10, "(1048577,)");
  testing::spill(path, bytes);
  EXPECT_THAT(failure([&] { const NpzFile other(path); }), HasSubstr("is u8[1048577] and has 1048576 bytes"));
}

// [0, 2^40, 2^40] has no elements; what multiplies two of its dimensions would leave 64 bits.
TEST(Npz, DimensionsOfNoElementsAreBoundedToo) {
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 1099511627776, 1099511627776), }";
  EXPECT_THAT(failure([&] { parse_npy("a", npy(header, ""), "f"); }), HasSubstr("and has 0 bytes"));
  EXPECT_TRUE(parse_npy("a", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (7, 0, 5), }", ""), "f").data.empty());
}

TEST(Npz, NamesGivenTwiceAreRefused) {
  const testing::TempDir dir;
  const std::string path = dir / "a.npz";
  write_npz(path, {zeros("a", 1), zeros("b", 1)});
  std::string bytes = testing::slurp(path);
  for (size_t at = 0; (at = bytes.find("b.npy", at)) != std::string::npos;) bytes[at] = 'a';
  testing::spill(path, bytes);
  EXPECT_THAT(failure([&] { read_npz(path); }),
              AnyOf(HasSubstr("is there twice"), HasSubstr("cannot be read as an .npz file")));
}

TEST(Npz, SurvivesDamage) {
  std::ifstream in(kFolder + "bv_scan.npz", std::ios::binary);
  const std::string file((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const std::string path = ::testing::TempDir() + "/damaged.npz";
  int refused = 0;
  for (uint64_t i = 0; i < 120; ++i) {
    Rng rng(7, i);
    std::string changed = file;
    if (i % 4 == 0) changed.resize(rng.below(changed.size()));
    for (int c = 0; c < 4 && !changed.empty(); ++c) {
      // The archive's directory, at the end, more often than packed data.
      const uint64_t back = i % 2 == 0 ? changed.size() : std::min<uint64_t>(changed.size(), 2500);
      changed[changed.size() - 1 - rng.below(back)] = static_cast<char>(rng.next());
    }
    std::ofstream(path, std::ios::binary) << changed;
    try {
      read_npz(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kData);
      ++refused;
    }
  }
  EXPECT_GT(refused, 90);
  std::vector<std::byte> whole = npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", std::string(24, 'x'));
  for (uint64_t i = 0; i < 5000; ++i) {
    Rng rng(8, i);
    std::vector<std::byte> changed = whole;
    for (int c = 0; c < 3; ++c) changed[rng.below(70)] = static_cast<std::byte>(rng.next());
    try {
      parse_npy("a", changed, "f");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kData);
    }
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tessera::checkpoint
