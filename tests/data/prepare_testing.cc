#include "data/prepare_testing.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "store/faulty_files.h"

namespace tessera::data::testing {
namespace {

using tessera::testing::FaultyFiles;

std::vector<std::string> names_of(const std::map<std::string, std::string>& files) {
  std::vector<std::string> out;
  for (const auto& [path, bytes] : files) out.push_back(path);
  return out;
}

// Of `all`, what lies below one of the folders.
std::map<std::string, std::string> below(const std::map<std::string, std::string>& all, const std::string& folder) {
  std::map<std::string, std::string> out;
  for (const auto& [path, bytes] : all) {
    if (path.starts_with(folder + "/")) out[path] = bytes;
  }
  return out;
}

}  // namespace

void expect_to_go_on(const std::function<void(const std::string& dir, store::FileSystem& files)>& prepare_into,
                     const std::vector<std::string>& folders) {
  const TempDir clean;
  prepare_into(clean / "set", store::local_files());
  const auto whole = content(clean / "set");
  const auto expect_whole_folders = [&](const std::string& dir) {
    const auto there = content(dir);
    for (const std::string& folder : folders) {
      const bool same = !fs::exists(fs::path(dir) / folder) || below(there, folder) == below(whole, folder);
      EXPECT_TRUE(same) << folder;
    }
  };
  for (const bool dies : {false, true}) {
    bool fired = true;
    int64_t faults = 0;
    for (int64_t k = 0; fired; k += 1 + k / 20) {
      SCOPED_TRACE(fmt::format("{} at operation {}", dies ? "killed" : "the disk is full", k));
      const TempDir temp;
      const std::string dir = temp / "set";
      FaultyFiles files(store::local_files());
      if (dies) {
        const pid_t child = ::fork();
        if (child == 0) {
          files.die_at(k);
          prepare_into(dir, files);
          ::_exit(0);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFEXITED(status));
        fired = WEXITSTATUS(status) == FaultyFiles::kDied;
        ASSERT_TRUE(fired || WEXITSTATUS(status) == 0) << WEXITSTATUS(status);
      } else {
        files.fail_at(k, ENOSPC, /*sticky=*/true);
        try {
          prepare_into(dir, files);
        } catch (const store::IoError& error) {
          EXPECT_EQ(error.number(), ENOSPC);
          EXPECT_EQ(error.code(), Exit::kData);
        }
        fired = files.fired();
      }
      faults += fired;
      expect_whole_folders(dir);
      prepare_into(dir, store::local_files());
      const auto there = content(dir);
      EXPECT_EQ(names_of(there), names_of(whole));
      EXPECT_TRUE(there == whole);
    }
    EXPECT_GT(faults, 20);
  }
}

}  // namespace tessera::data::testing
