#include "store/url.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "store/file.h"

namespace tessera::store {
namespace {

TEST(Url, IsASchemeAndTwoSlashes) {
  for (const char* url : {"gs://bucket/folder", "s3://b", "https://host:1/x", "hdfs+x.1-a://"}) EXPECT_TRUE(is_url(url)) << url;
  for (const char* path : {"", "gs:/bucket", "/data/a://b", "./gs://b", "://b", "1s://b", "runs/digits"})
    EXPECT_FALSE(is_url(path)) << path;
}

TEST(Url, IsNoFileOfThisMachine) {
  FileSystem& files = local_files();
  const std::string url = "gs://bucket/file";
  EXPECT_THROW(files.info(url), Error);
  EXPECT_THROW(files.open(url), Error);
  EXPECT_THROW(files.map(url), Error);
  EXPECT_THROW(files.create(url), Error);
  EXPECT_THROW(files.append(url), Error);
  EXPECT_THROW(files.list(url), Error);
  EXPECT_THROW(files.make_directories(url), Error);
  EXPECT_THROW(files.open_directory(url), Error);
}

// Quotes, recipes and --workdir=~/runs leave it to the program.
TEST(Url, ATildeIsNoFolder) {
  for (const char* path : {"~", "~/runs"}) {
    try {
      local_files().make_directories(path);
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("begins with ~"), std::string::npos) << error.message();
      EXPECT_NE(error.help().find(std::string("./") + path), std::string::npos) << error.help();
    }
  }
  for (const char* path : {"~user", "a/~/b", "./~/runs", "~$letter.doc"}) EXPECT_NO_THROW(refuse_url(path)) << path;
}

}  // namespace
}  // namespace tessera::store
