// Pages of package indexes, and pip's settings.
#include "pjrt/install/package_index.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "base/error.h"
#include "store/temp_dir.h"

namespace tessera::plugins {
namespace {

using ::testing::ElementsAre;
using testing::TempDir;

const std::string kHash(64, 'a'), kOther(64, 'b');
constexpr const char* kPage = "https://me:secret@index.org/root/simple/libtpu/";

std::string url_of(const std::string& page, const std::string& hash = kHash) {
  const auto found = find_in_page(page, kPage, hash, "page");
  return found ? found->url : "none";
}

TEST(PackageIndex, FindsTheFileWithTheHashInHtml) {
  const auto page = [](const std::string& link) {
    return "<!DOCTYPE html><html><body><h1>Links</h1>\n<a href=\"x.whl#sha256=" + kOther +
           "\">x</a><br/>\n<a data-requires-python=\"&gt;=3\" href=" + link + ">libtpu.whl</a></body></html>";
  };
  const std::string end = "#sha256=" + kHash;
  EXPECT_EQ(url_of(page("\"https://files.org/a/libtpu.whl" + end + "\"")), "https://files.org/a/libtpu.whl");
  EXPECT_EQ(url_of(page("'../../files/libtpu.whl?a=1&amp;b=2" + end + "'")),
            "https://me:secret@index.org/root/files/libtpu.whl?a=1&b=2");
  EXPECT_EQ(url_of(page("\"libtpu.whl" + end + "\" rel=\"x\"")), "https://me:secret@index.org/root/simple/libtpu/libtpu.whl");
  EXPECT_EQ(url_of(page("\"/files/libtpu.whl" + end + "\"")), "https://me:secret@index.org/files/libtpu.whl");
  EXPECT_EQ(url_of(page("\"//files.org/libtpu.whl" + end + "\"")), "https://files.org/libtpu.whl");
  EXPECT_EQ(url_of(page("\"https://index.org/libtpu.whl" + end + "\"")), "https://me:secret@index.org/libtpu.whl");
  EXPECT_EQ(url_of(page("\"http://index.org/libtpu.whl" + end + "\"")), "http://index.org/libtpu.whl");
  EXPECT_EQ(url_of(page("\"libtpu.whl\"")), "none");
  EXPECT_EQ(url_of("text with #sha256=" + kHash), "none");
  EXPECT_EQ(url_of("<a title=\"#sha256=" + kHash + "\" href=\"x.whl\">"), "none");
  EXPECT_EQ(url_of("<a href=\"x.whl#sha256=" + kHash), "none");
  EXPECT_EQ(url_of(""), "none");
}

TEST(PackageIndex, FindsTheFileWithTheHashInJson) {
  const std::string page = fmt::format(
      R"({{"meta": {{"api-version": "1.1"}}, "name": "libtpu", "files": [
          {{"filename": "a.whl", "url": "a.whl", "hashes": {{}}}},
          {{"filename": "b.whl", "url": "../b.whl", "hashes": {{"sha256": "{}"}}, "size": 1234}},
          {{"filename": "c.whl", "url": "https://files.org/c.whl", "hashes": {{"sha256": "{}"}}}}]}})",
      kHash, kOther);
  EXPECT_EQ(find_in_page(page, kPage, kHash, "page")->size, 1234);
  EXPECT_EQ(url_of(page), "https://me:secret@index.org/root/simple/b.whl");
  EXPECT_EQ(find_in_page(page, kPage, kOther, "page")->size, -1);
  EXPECT_EQ(url_of(page, kOther), "https://files.org/c.whl");
  EXPECT_EQ(url_of(page, std::string(64, 'c')), "none");
  for (const char* bad : {"{", R"({"files": 3})", R"({"files": [{"url": "x"}]})", "{}"}) {
    try {
      url_of(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kData);
      EXPECT_EQ(error.where(), "page");
    }
  }
}

TEST(PackageIndex, ShowsNoCredentials) {
  EXPECT_EQ(without_credentials(kPage), "https://index.org/root/simple/libtpu/");
  EXPECT_EQ(without_credentials("https://a@b@index.org"), "https://index.org");
  EXPECT_EQ(without_credentials("no address"), "no address");
}

// As pip: variables, then the files of the environment, the user and the system.
class PipSettings : public ::testing::Test {
 protected:
  PipSettings() {
    for (const char* name : {"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CERT", "PIP_CONFIG_FILE", "VIRTUAL_ENV"})
      ::unsetenv(name);
    ::setenv("HOME", (dir_ / "home").c_str(), 1);
    ::setenv("XDG_CONFIG_HOME", (dir_ / "config").c_str(), 1);
    std::filesystem::create_directories(dir_ / "config/pip");
    std::filesystem::create_directories(dir_ / "venv");
  }
  ~PipSettings() override {
    for (const char* name :
         {"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CERT", "PIP_CONFIG_FILE", "VIRTUAL_ENV", "XDG_CONFIG_HOME"})
      ::unsetenv(name);
    ::setenv("HOME", home_.c_str(), 1);
  }
  TempDir dir_;
  std::string home_ = ::getenv("HOME") ? ::getenv("HOME") : "";
};

TEST_F(PipSettings, AreThoseOfPip) {
  ::setenv("PIP_CONFIG_FILE", "/dev/null", 1);
  EXPECT_THAT(index_settings().urls, ElementsAre("https://pypi.org/simple"));
  ::unsetenv("PIP_CONFIG_FILE");
  testing::spill(dir_ / "config/pip/pip.conf",
                 "# mine\n[global]\nindex-url = https://one.org/simple/\nextra-index-url =\n    https://two.org/simple\n"
                 "    https://three.org/simple/\ncert: /etc/mine.pem\n[list]\nindex-url = https://no.org\n");
  EXPECT_THAT(index_settings().urls,
              ElementsAre("https://one.org/simple", "https://two.org/simple", "https://three.org/simple"));
  EXPECT_EQ(index_settings().authorities, "/etc/mine.pem");
  testing::spill(dir_ / "venv/pip.conf",
                 "[global]\nindex-url=https://venv.org/simple\n[install]\nindex_url = https://install.org/simple\n");
  ::setenv("VIRTUAL_ENV", (dir_ / "venv").c_str(), 1);
  EXPECT_EQ(index_settings().urls[0], "https://install.org/simple");
  ::setenv("PIP_INDEX_URL", "https://variable.org/simple", 1);
  ::setenv("PIP_CERT", "/etc/other.pem", 1);
  EXPECT_EQ(index_settings().urls[0], "https://variable.org/simple");
  EXPECT_EQ(index_settings().authorities, "/etc/other.pem");
}

}  // namespace
}  // namespace tessera::plugins
