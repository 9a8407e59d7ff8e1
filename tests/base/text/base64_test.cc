#include "base/text/base64.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

// RFC 4648, section 10.
TEST(Base64, HasTheVectorsOfTheStandard) {
  for (const auto& [bytes, text] : {std::pair{"", ""},
                                    {"f", "Zg=="},
                                    {"fo", "Zm8="},
                                    {"foo", "Zm9v"},
                                    {"foob", "Zm9vYg=="},
                                    {"fooba", "Zm9vYmE="},
                                    {"foobar", "Zm9vYmFy"}}) {
    EXPECT_EQ(base64(bytes), text);
    EXPECT_EQ(bytes_of_base64(text), bytes);
  }
}

TEST(Base64, TakesAnyBytes) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  EXPECT_EQ(bytes_of_base64(base64(all)), all);
}

TEST(Base64, RefusesWhatIsNone) {
  for (const char* text : {"Zg=", "Z===", "Zm9 ", " m9v", "Zm-v", "Zm9v\n"}) EXPECT_FALSE(bytes_of_base64(text)) << text;
}

}  // namespace
}  // namespace tessera
