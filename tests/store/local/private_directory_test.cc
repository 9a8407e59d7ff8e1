#include "store/local/private_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>

#include "base/error.h"
#include "store/encoding/digest.h"
#include "store/file.h"
#include "store/temp_dir.h"

namespace tessera::store {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::slurp;
using testing::spill;
using testing::TempDir;

mode_t mode_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class Umask {
 public:
  explicit Umask(mode_t mask) : before_(umask(mask)) {}
  ~Umask() { umask(before_); }

 private:
  mode_t before_;
};

class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

constexpr uid_t kOther = 12345;

TEST(PrivateDirectory, IsThisUsersAloneWhateverTheUmask) {
  for (const mode_t mask : {0, 022, 0777}) {
    TempDir dir;
    const Umask set(mask);
    const auto directory = PrivateDirectory::make(dir / "a/b");
    directory.write("file", {"one ", "two"});
    EXPECT_EQ(mode_of(dir / "a"), 0700u);
    EXPECT_EQ(mode_of(dir / "a/b"), 0700u);
    EXPECT_EQ(mode_of(dir / "a/b/file"), 0600u);
    EXPECT_EQ(directory.read("file"), "one two");
    EXPECT_EQ(directory.list().size(), 1u) << "no temporary file is left";
  }
}

TEST(PrivateDirectory, NothingIsThereAtFirst) {
  TempDir dir;
  EXPECT_FALSE(PrivateDirectory::find(dir / "none").has_value());
  const auto directory = PrivateDirectory::make(dir / "some");
  EXPECT_EQ(directory.read("none"), std::nullopt);
  EXPECT_FALSE(directory.map("none").has_value());
  EXPECT_FALSE(directory.remove("none"));
}

TEST(PrivateDirectory, OneThatOthersMayWriteToIsRefusedAndLeftAlone) {
  TempDir dir;
  for (const mode_t mode : {0777, 01777, 0770, 0702}) {
    ASSERT_EQ(chmod(dir.path().c_str(), mode), 0);
    for (const auto& open : {std::function<void()>([&] { PrivateDirectory::find(dir.path()); }),
                             std::function<void()>([&] { PrivateDirectory::make(dir.path()); })}) {
      EXPECT_THAT(refusal(open),
                  AllOf(HasSubstr("others may write to `" + dir.path() + "`"), HasSubstr("chmod 700 " + dir.path())));
    }
    EXPECT_EQ(mode_of(dir.path()), mode);
  }
  ASSERT_EQ(chmod(dir.path().c_str(), 0755), 0);
  EXPECT_EQ(refusal([&] { PrivateDirectory::find(dir.path()); }), "") << "others who only read it can't put anything there";
}

TEST(PrivateDirectory, AnotherUsersIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  TempDir dir;
  PrivateDirectory::make(dir / "mine").write("file", {"content"});
  ASSERT_EQ(chown((dir / "mine").c_str(), kOther, kOther), 0);
  EXPECT_THAT(refusal([&] { PrivateDirectory::find(dir / "mine"); }),
              AllOf(HasSubstr("belongs to user 12345"), HasSubstr("runs as user 0"), HasSubstr("a directory of your own")));
}

TEST(PrivateDirectory, AFileIsTrustedOnlyWhereItIsThisUsersOwn) {
  TempDir dir;
  const auto directory = PrivateDirectory::make(dir / "d");
  const std::string path = dir / "d/file";
  directory.write("file", {"content"});
  ASSERT_EQ(chmod(path.c_str(), 0620), 0);
  EXPECT_THAT(refusal([&] { directory.read("file"); }), HasSubstr("others may write to `" + path));
  EXPECT_THAT(refusal([&] { directory.map("file"); }), HasSubstr("others may write to `" + path));
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_EQ(directory.read("file"), "content");
  EXPECT_THAT(refusal([&] { directory.read_secret("file"); }), HasSubstr("others may read `" + path));

  spill(dir / "elsewhere", "planted");
  fs::remove(path);
  fs::create_symlink(dir / "elsewhere", path);
  EXPECT_THAT(refusal([&] { directory.read("file"); }), HasSubstr("cannot open `" + path)) << "a link is not followed";
  directory.write("file", {"new"});
  EXPECT_EQ(slurp(dir / "elsewhere"), "planted") << "a link is replaced, not written through";
  EXPECT_EQ(directory.read("file"), "new");

  fs::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(refusal([&] { directory.read("file"); }), HasSubstr("cannot open `" + path)) << "and a FIFO not waited for";
  fs::remove(path);
  if (geteuid() != 0) return;
  directory.write("file", {"content"});
  ASSERT_EQ(chown(path.c_str(), kOther, kOther), 0);
  EXPECT_THAT(refusal([&] { directory.read("file"); }), HasSubstr("belongs to user 12345"));
}

// The directory stays the one that was looked at, whatever takes its name.
TEST(PrivateDirectory, ASwapAfterTheLookChangesNothing) {
  TempDir dir;
  const auto directory = PrivateDirectory::make(dir / "d");
  directory.write("file", {"mine"});
  fs::rename(dir / "d", dir / "moved");
  fs::create_directory(dir / "d");
  spill(dir / "d/file", "planted");
  EXPECT_EQ(directory.read("file"), "mine");
}

TEST(PrivateDirectory, WhatIsThereIsNotReplacedByWriteNew) {
  TempDir dir;
  const auto directory = PrivateDirectory::make(dir / "d");
  EXPECT_TRUE(directory.write_new("file", "first"));
  EXPECT_FALSE(directory.write_new("file", "second"));
  EXPECT_EQ(directory.read("file"), "first");
  EXPECT_EQ(directory.list().size(), 1u);
}

// `sudo tessera …` with the user's HOME must leave nothing there that belongs to root.
TEST(PrivateDirectory, RootMakesNoneInAnotherUsersHome) {
  if (geteuid() != 0) GTEST_SKIP() << "only root could";
  TempDir home;
  ASSERT_EQ(chown(home.path().c_str(), kOther, kOther), 0);
  const Variable set("HOME", home.path());
  EXPECT_THAT(refusal([&] { PrivateDirectory::make(home / ".cache/tessera"); }),
              AllOf(HasSubstr("belongs to user 12345"), HasSubstr("sudo -H")));
  EXPECT_FALSE(fs::exists(home / ".cache"));
}

TEST(UserKey, IsMadeOnceAndKeptFromOthers) {
  TempDir config;
  const Variable set("XDG_CONFIG_HOME", config.path());
  const std::string key = user_key(), file = config / "tessera/seal.key";
  EXPECT_EQ(key.size(), 32u);
  EXPECT_EQ(user_key(), key);
  EXPECT_EQ(slurp(file), key);
  EXPECT_EQ(mode_of(file), 0600u);
  EXPECT_EQ(mode_of(config / "tessera"), 0700u);
  ASSERT_EQ(chmod(file.c_str(), 0640), 0);
  EXPECT_THAT(refusal(user_key), HasSubstr("others may read `" + file));
  ASSERT_EQ(chmod(file.c_str(), 0600), 0);
  spill(file, "short");
  EXPECT_THAT(refusal(user_key), AllOf(HasSubstr("`" + file + "` is not a key of 32 bytes"), HasSubstr("remove it")));
  fs::remove(file);
  EXPECT_NE(user_key(), key) << "a new one is another one";
}

std::string hex(std::string_view text) { return to_hex(Sha256().add(as_bytes(text)).finish()); }

// Values of FIPS 180-4's and RFC 4231's test cases.
TEST(Digest, GivesTheStandardsValues) {
  EXPECT_EQ(hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hex(Sha256().add(as_bytes("a")).add(as_bytes("bc")).finish()), hex("abc"));
  const Digest seal = hmac_sha256(as_bytes("Jefe"), {"what do ya want ", "for nothing?"});
  EXPECT_EQ(to_hex(seal), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  Digest other = seal;
  EXPECT_TRUE(same_digest(seal, other));
  other[31] ^= std::byte{1};
  EXPECT_FALSE(same_digest(seal, other));
  EXPECT_FALSE(same_digest(seal, std::span(other).first(31)));
}

}  // namespace
}  // namespace tessera::store
