// Plugins from an index of this machine's, in small made-up wheels.
#include "pjrt/install/install.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <zip.h>

#include <filesystem>
#include <map>
#include <mutex>

#include "base/error.h"
#include "http/server.h"
#include "store/encoding/digest.h"
#include "store/file.h"
#include "store/temp_dir.h"

namespace tessera::plugins {
namespace {

namespace fs = std::filesystem;
using pjrt::Platform;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::slurp;
using testing::TempDir;

struct Entry {
  std::string name, bytes;
  uint32_t mode = 0100644;
};

std::string zip_of(const std::vector<Entry>& entries) {
  const TempDir dir;
  int code = 0;
  zip_t* archive = zip_open((dir / "a.zip").c_str(), ZIP_CREATE, &code);
  for (const Entry& entry : entries) {
    const zip_int64_t at =
        zip_file_add(archive, entry.name.c_str(), zip_source_buffer(archive, entry.bytes.data(), entry.bytes.size(), 0), 0);
    EXPECT_GE(at, 0) << zip_strerror(archive);
    zip_file_set_external_attributes(archive, static_cast<zip_uint64_t>(at), 0, ZIP_OPSYS_UNIX, entry.mode << 16);
  }
  EXPECT_EQ(zip_close(archive), 0);
  return slurp(dir / "a.zip");
}

std::string sha256(const std::string& bytes) { return store::to_hex(store::Sha256().add(store::as_bytes(bytes)).finish()); }

// An index of a few projects, as HTML or JSON.
class Index {
 public:
  Index() : server_({}, [this](const http::Request& request) { return answer(request); }) {}
  std::string url() const { return fmt::format("http://127.0.0.1:{}/simple", server_.port()); }
  // A project with one file.
  Wheel add(const std::string& name, const std::string& version, const std::string& bytes) {
    files[name] = bytes;
    return {name, version, sha256(bytes)};
  }

  std::map<std::string, std::string> files, sends;  // sends: in the place of a file's bytes
  bool json = false;
  int failures = 0;  // so many requests of files fail before one is answered
  std::vector<std::string> asked;

 private:
  http::Response answer(const http::Request& request) {
    const std::scoped_lock lock(mutex_);
    const std::string range = request.header("range").value_or("");
    asked.push_back(request.path + (range.empty() ? "" : " " + range));
    const std::string simple = "/simple/", whl = "/files/";
    if (request.path.starts_with(simple)) {
      const std::string name = request.path.substr(simple.size(), request.path.size() - simple.size() - 1);
      const auto file = files.find(name);
      if (file == files.end()) return {.status = 404, .body = "Not Found"};
      if (json)
        return {
            .type = "application/vnd.pypi.simple.v1+json",
            .body = fmt::format(R"({{"files": [{{"url": "../../files/{}.whl", "size": {}, "hashes": {{"sha256": "{}"}}}}]}})",
                                name, file->second.size(), sha256(file->second))};
      return {.type = "text/html",
              .body = fmt::format("<a href=\"../../files/{0}.whl#sha256={1}\">{0}.whl</a>", name, sha256(file->second))};
    }
    if (failures-- > 0) return {.status = 503, .body = "busy"};
    const std::string name = request.path.substr(whl.size(), request.path.size() - whl.size() - 4);
    const std::string& bytes = sends.contains(name) ? sends[name] : files.at(name);
    if (range.empty()) return {.body = bytes};
    const size_t from = std::stoul(range.substr(range.find('=') + 1));
    if (from >= bytes.size()) return {.status = 416};
    return {.status = 206, .body = bytes.substr(from)};
  }

  std::mutex mutex_;
  http::Server server_;
};

const std::vector<Entry> kLibtpu = {{"libtpu/libtpu.so", "a library " + std::string(5000, 'x')},
                                    {"libtpu/tool", "a program", 0100755},
                                    {"libtpu-1.0.data/purelib/libtpu/extra.txt", "extra"},
                                    {"libtpu-1.0.data/scripts/run", "a script"},
                                    {"libtpu-1.0.dist-info/METADATA", "Name: libtpu"}};

class InstallPlugin : public ::testing::Test {
 protected:
  InstallPlugin() {
    ::setenv("PIP_INDEX_URL", index_.url().c_str(), 1);
    ::setenv("no_proxy", "127.0.0.1", 1);
    ::setenv("XDG_DATA_HOME", (dir_ / "data").c_str(), 1);
  }
  ~InstallPlugin() override {
    ::unsetenv("PIP_INDEX_URL");
    ::unsetenv("XDG_DATA_HOME");
  }
  std::string to() const { return dir_ / "plugins"; }
  Installed install(const std::vector<Wheel>& wheels, Platform platform = Platform::kTpu) {
    return install_plugin(platform, wheels, {.to = to()});
  }
  std::string failure(const std::vector<Wheel>& wheels, const InstallOptions& options) {
    try {
      install_plugin(Platform::kTpu, wheels, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kData);
      EXPECT_FALSE(fs::exists(options.to + "/tpu"));
      return error.what();
    }
    return "installed";
  }
  std::string failure(const std::vector<Wheel>& wheels) { return failure(wheels, {.to = to()}); }

  TempDir dir_;
  Index index_;
};

TEST_F(InstallPlugin, FetchesAndUnpacks) {
  const Wheel wheel = index_.add("libtpu", "1.0", zip_of(kLibtpu));
  for (const bool json : {false, true}) {
    fs::remove_all(to());
    index_.json = json;
    const Installed installed = install({wheel});
    EXPECT_EQ(installed.directory, to() + "/tpu");
    EXPECT_FALSE(installed.there);
    EXPECT_EQ(slurp(to() + "/tpu/libtpu/libtpu.so"), kLibtpu[0].bytes);
    EXPECT_EQ(slurp(to() + "/tpu/libtpu/extra.txt"), "extra");
    EXPECT_FALSE(fs::exists(to() + "/tpu/libtpu-1.0.data"));
    struct stat status {};
    ASSERT_EQ(::stat((to() + "/tpu/libtpu/tool").c_str(), &status), 0);
    EXPECT_TRUE(status.st_mode & S_IXUSR);
    ASSERT_EQ(::stat((to() + "/tpu/libtpu/libtpu.so").c_str(), &status), 0);
    EXPECT_FALSE(status.st_mode & S_IXUSR);
    EXPECT_FALSE(fs::exists(to() + "/downloads"));
    EXPECT_FALSE(fs::exists(to() + "/tpu.partial"));
  }
  EXPECT_THAT(index_.asked, ElementsAre("/simple/libtpu/", "/files/libtpu.whl", "/simple/libtpu/", "/files/libtpu.whl"));
  // Once more: nothing is asked.
  EXPECT_TRUE(install({wheel}).there);
  EXPECT_EQ(index_.asked.size(), 4u);
}

// Fetched or brought, what does not fit is refused before anything is asked or written.
TEST_F(InstallPlugin, NeedsRoomOnTheDisk) {
  Wheel wheel = index_.add("libtpu", "1.0", zip_of(kLibtpu));
  constexpr int64_t kExbibyte = int64_t{1} << 60;
  wheel.unpacked = kExbibyte;
  EXPECT_THAT(failure({wheel}),
              AllOf(HasSubstr("more must be free in `" + to()), HasSubstr("the plugin needs 1048576.00 TiB, and its disk has "),
                    HasSubstr(" left"), HasSubstr("--to DIR")));
  wheel.bytes = kExbibyte;
  EXPECT_THAT(failure({wheel}), HasSubstr("the plugin needs 1048576.00 TiB for what is fetched and 1048576.00 TiB unpacked"));
  EXPECT_THAT(index_.asked, ::testing::IsEmpty());
  EXPECT_FALSE(fs::exists(to() + "/downloads"));
  const std::string brought = dir_ / "wheels";
  fs::create_directories(brought);
  EXPECT_THAT(failure({wheel}, {.to = to(), .wheels = brought}), HasSubstr("the plugin needs 1048576.00 TiB, and"));
}

TEST_F(InstallPlugin, IsFoundByRuns) {
  const Wheel wheel = index_.add("libtpu", "1.0", zip_of(kLibtpu));
  EXPECT_EQ(pjrt::installed_plugins(), dir_ / "data/tessera/plugins");
  EXPECT_FALSE(installed_plugin(Platform::kTpu));
  install_plugin(Platform::kTpu, {wheel}, {});
  const std::string library = dir_ / "data/tessera/plugins/tpu/libtpu/libtpu.so";
  EXPECT_EQ(pjrt::find_plugin(Platform::kTpu), library);
  EXPECT_THAT(installed_plugin(Platform::kTpu)->wheels, ElementsAre(wheel));
  // And elsewhere, where it is named.
  install({wheel});
  pjrt::PluginPlaces places;
  for (const std::string& named : {to(), to() + "/tpu", to() + "/tpu/libtpu", to() + "/tpu/libtpu/libtpu.so"}) {
    places.environment_path = named;
    EXPECT_EQ(pjrt::find_plugin(Platform::kTpu, places), to() + "/tpu/libtpu/libtpu.so") << named;
  }
}

TEST_F(InstallPlugin, ReplacesAnOlderOne) {
  install({index_.add("libtpu", "1.0", zip_of(kLibtpu))});
  const Wheel newer = index_.add("libtpu", "1.1", zip_of({{"libtpu/libtpu.so", "newer"}}));
  EXPECT_FALSE(install({newer}).there);
  EXPECT_EQ(slurp(to() + "/tpu/libtpu/libtpu.so"), "newer");
  EXPECT_FALSE(fs::exists(to() + "/tpu/libtpu/tool"));
  EXPECT_FALSE(fs::exists(to() + "/tpu.partial"));
  EXPECT_THAT(installed_plugin(Platform::kTpu, to())->wheels, ElementsAre(newer));
}

TEST_F(InstallPlugin, GoesOnWithWhatIsThere) {
  const std::string bytes = zip_of(kLibtpu);
  const Wheel wheel = index_.add("libtpu", "1.0", bytes);
  const std::string partial = fmt::format("{}/downloads/{}.whl.incomplete", to(), wheel.sha256);
  fs::create_directories(to() + "/downloads");
  testing::spill(partial, bytes.substr(0, 300));
  fs::create_directories(to() + "/tpu.partial/libtpu");
  testing::spill(to() + "/tpu.partial/left", "over");
  index_.failures = 2;
  install({wheel});
  EXPECT_EQ(index_.asked.back(), "/files/libtpu.whl bytes=300-");
  EXPECT_EQ(slurp(to() + "/tpu/libtpu/libtpu.so"), kLibtpu[0].bytes);
  EXPECT_FALSE(fs::exists(to() + "/tpu/left"));
  // All of it, and no size known: the server has nothing beyond.
  fs::remove_all(to());
  fs::create_directories(to() + "/downloads");
  testing::spill(partial, bytes);
  install({wheel});
  EXPECT_EQ(slurp(to() + "/tpu/libtpu/libtpu.so"), kLibtpu[0].bytes);
}

TEST_F(InstallPlugin, TakesWheelsFromAFolder) {
  const std::string bytes = zip_of(kLibtpu);
  const Wheel wheel = {"lib-tpu", "1.0", sha256(bytes)};
  testing::spill(dir_ / "lib_tpu-1.0-cp311-manylinux.whl", bytes + "x");
  EXPECT_THAT(failure({wheel}, {.to = to(), .wheels = dir_.path()}), HasSubstr("is not the pinned wheel of lib-tpu 1.0"));
  testing::spill(dir_ / "lib_tpu-1.0-py3-manylinux.whl", bytes);
  install_plugin(Platform::kTpu, {wheel}, {.to = to(), .wheels = dir_.path()});
  EXPECT_EQ(slurp(to() + "/tpu/libtpu/libtpu.so"), kLibtpu[0].bytes);
  EXPECT_TRUE(index_.asked.empty());
  EXPECT_THAT(failure({{"other", "2.0", wheel.sha256}}, {.to = dir_ / "elsewhere", .wheels = dir_.path()}),
              AllOf(HasSubstr("has no wheel of other 2.0"), HasSubstr("pip download --no-deps other==2.0")));
}

TEST_F(InstallPlugin, RefusesWhatIsNotPinned) {
  const Wheel wheel = index_.add("libtpu", "1.0", zip_of(kLibtpu));
  index_.sends["libtpu"] = zip_of({{"libtpu/libtpu.so", "another"}});
  EXPECT_THAT(failure({wheel}),
              AllOf(HasSubstr("could not be fetched"), HasSubstr("its hash differs"), HasSubstr("/files/libtpu.whl")));
  EXPECT_THAT(failure({{"libtpu", "1.0", std::string(64, '0')}}), HasSubstr("lists no file with the hash of libtpu 1.0"));
  EXPECT_THAT(
      failure({{"nothing", "1.0", std::string(64, '0')}}),
      AllOf(HasSubstr("nothing 1.0 is not to be had"), HasSubstr("/simple/nothing/ answers 404"), HasSubstr("PIP_INDEX_URL")));
}

TEST_F(InstallPlugin, RefusesWheelsThatLeadElsewhere) {
  for (const Entry& bad :
       {Entry{"../escaped", "x"}, Entry{"/tmp/escaped", "x"}, Entry{"libtpu/../../escaped", "x"}, Entry{"a\\..\\escaped", "x"},
        Entry{"libtpu/link", "/etc/passwd", 0120777}, Entry{"x.data/purelib/../../../escaped", "x"}}) {
    const Wheel wheel = index_.add("libtpu", "1.0", zip_of({{"libtpu/libtpu.so", "library"}, bad}));
    EXPECT_THAT(failure({wheel}), AllOf(HasSubstr("which is no part of a wheel"), HasSubstr("libtpu 1.0 holds `")));
    EXPECT_FALSE(fs::exists(dir_ / "escaped"));
    EXPECT_FALSE(fs::exists(to() + "/escaped"));
  }
  const Wheel none = index_.add("libtpu", "1.0", "no zip");
  EXPECT_THAT(failure({none}), HasSubstr("cannot be read as a wheel"));
}

TEST_F(InstallPlugin, SaysThatThereIsNoNetwork) {
  ::setenv("PIP_INDEX_URL", "http://me:secret@127.0.0.1:1/simple", 1);
  EXPECT_THAT(failure({{"libtpu", "1.0", std::string(64, '0')}}),
              AllOf(HasSubstr("the package index cannot be reached"), HasSubstr("--> http://127.0.0.1:1/simple"),
                    HasSubstr("pip download --no-deps libtpu==1.0"), Not(HasSubstr("secret"))));
}

}  // namespace
}  // namespace tessera::plugins
