#pragma once
// The runs that a page shows. They are found in directories as they begin.
//
// A run's name is its path below the directory that it was found under. A directory that is itself a run is named by the end of
// its path. So other runs change no name. Where two runs would have the same name, the first one keeps it, and the other's gets
// as many more parts of its path as it needs.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pages/board/runs/watched_run.h"
#include "store/file.h"

namespace tessera::board {

class Runs {
 public:
  // Each of `paths` is a run's directory, or one under which there are some, at most three levels down. `expected`: a run will
  // begin in the first of them, and is shown before it does.
  Runs(std::vector<std::string> paths, bool expected, store::FileSystem& files = store::local_files());

  // Finds new runs. From the thread that refreshes them. True where there are any.
  bool scan();

  // Directories that can't be read, and why, and that there are too many runs, as the last scan found; safe from any thread.
  std::vector<std::string> problems() const;
  // By name; safe from any thread.
  std::vector<std::shared_ptr<WatchedRun>> all() const;
  // Nothing for a name that none has. An empty name is the only one's, or the first's that trains, or the first's.
  std::shared_ptr<WatchedRun> find(const std::string& name) const;

 private:
  struct Place {
    std::string path, name;  // the name: unless another run has it
    bool operator==(const Place&) const = default;
  };
  struct Found {
    std::vector<Place> places;
    std::vector<std::string> problems;
    bool more = false;  // than are shown
  };
  // `below`: the path below the one of paths_ that is looked at; empty for that itself, which is called `name`.
  void look(const std::string& path, const std::string& name, const std::string& below, int depth, Found& found) const;

  const std::vector<std::string> paths_, names_;  // these of those
  const bool expected_;
  store::FileSystem& files_;
  std::vector<Place> found_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<WatchedRun>> runs_;
  std::vector<std::string> problems_;
};

}  // namespace tessera::board
