#include "pages/board/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera::board {
namespace {

using ::testing::HasSubstr;

TEST(Address, IsReadInManyForms) {
  for (const auto& [text, url] : {std::pair{"", "http://127.0.0.1:6070/"},
                                  {"6080", "http://127.0.0.1:6080/"},
                                  {":6080", "http://127.0.0.1:6080/"},
                                  {"0", "http://127.0.0.1:0/"},
                                  {"localhost", "http://127.0.0.1:6070/"},
                                  {"localhost:6080", "http://127.0.0.1:6080/"},
                                  {"127.0.0.2:1", "http://127.0.0.2:1/"},
                                  {"[::1]:6080", "http://[::1]:6080/"},
                                  {"[::1]", "http://[::1]:6070/"}}) {
    EXPECT_EQ(parse_address(text).url(), url) << text;
  }
}

TEST(Address, OthersAreRefusedWithWhatWorks) {
  for (const char* text :
       {"0.0.0.0", "0.0.0.0:6070", "[::]:6070", "192.168.1.5:80", "example.org:80", "127.0.0.1.example.org"}) {
    try {
      parse_address(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kUsage);
      EXPECT_THAT(error.help(), HasSubstr("ssh -L")) << text;
    }
  }
  for (const char* text : {"127.0.0.1:", "127.0.0.1:x", "localhost:70000", "[::1]:-1"})
    EXPECT_THROW(parse_address(text), Error) << text;
  try {
    parse_address("99999");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("`99999` is no port"));
  }
}

TEST(Address, KnowsThisMachinesNames) {
  for (const char* host : {"localhost", "localhost:8000", "127.0.0.1:1", "127.1.2.3", "[::1]", "[::1]:80"}) {
    EXPECT_TRUE(is_loopback_host(host)) << host;
  }
  for (const char* host :
       {"", "example.org", "localhost.example.org", "127.0.0.1.example.org", "localhost:x", "10.0.0.1", "[::2]"}) {
    EXPECT_FALSE(is_loopback_host(host)) << host;
  }
}

}  // namespace
}  // namespace tessera::board
