// MAT-files: those that scipy wrote, as scipy reads them (tools/references/formats/mat_files.py).

#include "data/formats/mat.h"

#include <nlohmann/json.hpp>

#include "data/format_testing.h"
#include "data/formats/deflate.h"
#include "support/paths.h"

namespace tessera::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kFolder = tessera::testing::source_path("tests/references/mat/");

std::string file(const std::string& name) { return testing::as_string(image::testing::read_file(kFolder + name)); }

std::string error_of(const std::string& bytes, const std::string& variable = "synsets",
                     const std::vector<std::string>& fields = {"WNID"}) {
  try {
    read_mat_structs(bytes, "meta.mat", variable, fields);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kData);
    return error.what();
  }
  return "read";
}

TEST(Mat, ReadsWhatScipyWrites) {
  const auto expected = nlohmann::json::parse(file("mat.json"));
  ASSERT_EQ(expected.size(), 2u);
  for (const auto& [name, rows] : expected.items()) {
    SCOPED_TRACE(name);
    const auto structs =
        read_mat_structs(file(name + ".mat"), name, "synsets", {"ILSVRC2012_ID", "WNID", "words", "num_train_images"});
    ASSERT_EQ(structs.size(), rows.size());
    for (size_t i = 0; i < structs.size(); ++i) {
      EXPECT_EQ(structs[i][0].number, rows[i][0].get<double>());
      EXPECT_EQ(structs[i][1].text, rows[i][1].get<std::string>());
      EXPECT_EQ(structs[i][2].text, rows[i][2].get<std::string>());
      EXPECT_EQ(structs[i][3].number, rows[i][3].get<double>());
    }
  }
}

TEST(Mat, ReadsNumbersOfEveryKind) {
  const auto structs =
      read_mat_structs(file("numbers.mat"), "numbers", "values", {"int8", "uint16", "single", "int64", "text", "yes"});
  ASSERT_EQ(structs.size(), 1u);
  EXPECT_EQ(structs[0][0].number, -3);
  EXPECT_EQ(structs[0][1].number, 65535);
  EXPECT_EQ(structs[0][2].number, 0.5);
  EXPECT_EQ(structs[0][3].number, 0x1p40);
  EXPECT_EQ(structs[0][4].text, "x");
  EXPECT_FALSE(structs[0][4].number);
  EXPECT_EQ(structs[0][5].number, 1);
}

TEST(Mat, LeavesWhatIsNoTextAndNoNumber) {
  const auto structs = read_mat_structs(file("devkit.mat"), "devkit", "synsets", {"children", "gloss"});
  ASSERT_EQ(structs.size(), 4u);
  EXPECT_FALSE(structs[3][0].number);  // a row of three
  EXPECT_EQ(structs[1][1].text, "");
  EXPECT_EQ(structs[0][1].text, "small grey fox");
}

TEST(Mat, SaysWhatIsWrong) {
  EXPECT_THAT(error_of("text"), AllOf(HasSubstr("no MAT-file of version 5"), HasSubstr("--> meta.mat")));
  EXPECT_THAT(error_of(std::string("MATLAB 7.3 MAT-file").append(600, ' ')), HasSubstr("version 7.3, which is HDF5"));
  EXPECT_THAT(error_of(file("devkit.mat"), "classes"), HasSubstr("has no variable `classes`"));
  EXPECT_THAT(error_of(file("devkit.mat"), "synsets", {"WNID", "id"}),
              HasSubstr("has no field `id` but ILSVRC2012_ID, WNID, words"));
  EXPECT_THAT(error_of(file("devkit_plain.mat"), "extra"), HasSubstr("`extra` is no array of structs"));
  std::string bytes = file("devkit.mat");
  EXPECT_THAT(error_of(bytes.substr(0, bytes.size() - 20)), HasSubstr("cut short"));
  bytes[300] = static_cast<char>(bytes[300] ^ 0x55);
  EXPECT_THAT(error_of(bytes), HasSubstr("damaged"));
  bytes = file("devkit.mat");
  std::swap(bytes[126], bytes[127]);
  EXPECT_THAT(error_of(bytes), HasSubstr("big-endian"));
  const std::string plain = file("devkit_plain.mat");
  // The last 64 bytes are another variable.
  for (size_t size = 0; size < plain.size() - 64; size += 7) EXPECT_NE(error_of(plain.substr(0, size)), "read") << size;
}

// A kilobyte that unpacks to a gigabyte is given up in time.
TEST(Mat, StopsUnpackingInTime) {
  EXPECT_THROW(inflate_bytes(testing::as_string({0x78, 0x9c}), 100), Error);
  EXPECT_THROW(inflate_bytes("", 100), Error);
}

}  // namespace
}  // namespace tessera::data
