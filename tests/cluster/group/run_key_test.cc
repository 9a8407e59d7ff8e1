#include "cluster/group/run_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "base/system/temporary_directory.h"
#include "http/client.h"

namespace tessera::group {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string message_of(const std::string& text) {
  try {
    read_run_key(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kUsage);
    return error.what();
  }
  return "none";
}

TEST(RunKey, IsAnotherEachTime) {
  const std::string one = new_run_key(), other = new_run_key();
  EXPECT_TRUE(http::is_key(one));
  EXPECT_TRUE(http::is_key(other));
  EXPECT_NE(one, other);
}

TEST(RunKey, IsReadFromTextOrFile) {
  const TemporaryDirectory directory("run-key");
  const std::string key = new_run_key(), path = directory.path() + "/key.pem";
  std::ofstream(path) << key;
  EXPECT_EQ(read_run_key(""), "");
  EXPECT_EQ(read_run_key(key), key);
  EXPECT_EQ(read_run_key(path), key);
}

TEST(RunKey, MistakesAreExplained) {
  const TemporaryDirectory directory("run-key");
  const std::string key = new_run_key(), path = directory.path() + "/key.pem";
  std::ofstream(path) << "no key";
  EXPECT_THAT(message_of(directory.path() + "/none"), HasSubstr("cannot read"));
  EXPECT_THAT(message_of(path), AllOf(HasSubstr("holds no private key with its certificate"), HasSubstr("tessera launch key")));
  // Of two keys, one's half and the other's.
  const std::string other = new_run_key(), begin = "-----BEGIN CERTIFICATE";
  EXPECT_THAT(message_of(key.substr(0, key.find(begin)) + other.substr(other.find(begin))), HasSubstr("holds no private key"));
  EXPECT_THAT(message_of(key.substr(0, key.find(begin))), HasSubstr("holds no private key"));
}

}  // namespace
}  // namespace tessera::group
