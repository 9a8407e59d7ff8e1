#include "checkpoint/slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/formats/safetensors.h"

namespace tessera::checkpoint {
namespace {

using ::testing::HasSubstr;

TEST(SliceNames, RoundTrip) {
  EXPECT_EQ(slice_name("params/w", {128, 0}), "params/w@128,0");
  for (const Dims& offset : {Dims{}, Dims{0}, Dims{128, 0}, Dims{INT64_MAX, 1, 2}, Dims(kMaxSafetensorsRank, 7)}) {
    for (const char* array : {"params/w", "", "a@b", "@"}) {
      const auto name = parse_slice_name(slice_name(array, offset));
      ASSERT_TRUE(name) << array;
      EXPECT_EQ(name->array, array);
      EXPECT_EQ(name->offset, offset);
    }
  }
}

TEST(SliceNames, HostileOnesAreNone) {
  for (const char* text : {"a",
                           "",
                           "a@x",
                           "a@-1",
                           "a@+1",
                           "a@00",
                           "a@01",
                           "a@0,",
                           "a@,0",
                           "a@,",
                           "a@0,,0",
                           "a@0 ",
                           "a@ 0",
                           "a@0;0",
                           "a@0x10",
                           "a@1.0",
                           "a@1e3",
                           "a@9223372036854775808",
                           "a@18446744073709551616",
                           "a@99999999999999999999999999",
                           "a@0,0\n",
                           "a@\u0660"}) {
    EXPECT_FALSE(parse_slice_name(text)) << text;
  }
  EXPECT_FALSE(parse_slice_name(std::string("a@0\0", 4)));
  EXPECT_FALSE(parse_slice_name(slice_name("a", Dims(kMaxSafetensorsRank + 1, 0))));
  EXPECT_FALSE(parse_slice_name("a@" + std::string(1'000'000, '9')));
}

TEST(Shapes, RoundTrip) {
  const Shapes shapes{{"params/w", {256, 64}}, {"quote\" \\ \u00e4", {INT64_MAX}}, {"scalar", {}}};
  EXPECT_EQ(shapes_text({{"b", {3}}, {"a", {256, 64}}}), R"({"a":[256,64],"b":[3]})");
  EXPECT_EQ(parse_shapes(shapes_text(shapes), "f"), shapes);
  EXPECT_TRUE(parse_shapes("{}", "f").empty());
}

TEST(Shapes, EveryMistakeIsADataErrorThatNamesTheFile) {
  struct Case {
    std::string text;
    const char* message;
  };
  std::string deep = R"({"a":[)";
  for (size_t i = 0; i <= kMaxSafetensorsRank; ++i) deep += i ? ",1" : "1";
  const Case cases[] = {
      {"", "not JSON"},
      {"{", "not JSON"},
      {"{} x", "not JSON"},
      {R"({"a":[1,]})", "not JSON"},
      {"[]", "a list stands"},
      {"1", "a number stands"},
      {"null", "null stands"},
      {R"("a")", "a string stands"},
      {R"({"a":1})", "a number stands"},
      {R"({"a":{}})", "an object stands"},
      {R"({"a":[[1]]})", "a list stands"},
      {R"({"a":["1"]})", "a string stands"},
      {R"({"a":[-1]})", "a negative number"},
      {R"({"a":[1.5]})", "with a fraction"},
      {R"({"a":[true]})", "true or false"},
      {R"({"a":[9223372036854775808]})", "too large"},
      {R"({"a":[99999999999999999999]})", "with a fraction"},
      {R"({"a":[1],"a":[1]})", "`a` is given twice"},
      {deep + "]}", "more than 32 dimensions"},
      {std::string(1'000'000, '['), "a list stands"},
  };
  for (const Case& c : cases) {
    try {
      parse_shapes(c.text, "state.safetensors");
      ADD_FAILURE() << "accepted: " << c.text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kData);
      EXPECT_THAT(error.what(), HasSubstr("`state.safetensors` is damaged: the metadata `shapes`: "));
      EXPECT_THAT(error.what(), HasSubstr(c.message)) << c.text.substr(0, 100);
    }
  }
}

}  // namespace
}  // namespace tessera::checkpoint
