#pragma once
// Runs the built program as a user does, and makes small inputs for it.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "image/codec/png.h"
#include "support/paths.h"

namespace tessera::cli {

namespace fs = std::filesystem;
using Json = nlohmann::json;

inline std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_file(const fs::path& path, const std::string& content) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

// A directory of its own, removed at the end.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (fs::temp_directory_path() / "tessera_cli_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TempFolder() { fs::remove_all(path_); }
  fs::path operator/(const std::string& name) const { return path_ / name; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

struct Outcome {
  int exit = -1;
  std::string out, err;

  // Lines of stdout, each one JSON value.
  std::vector<Json> json() const {
    std::vector<Json> values;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) values.push_back(Json::parse(line));
    return values;
  }
};

// `tessera args…` running in `directory`; `environment` is added to this process's. Killed if it is still running at the end.
class RunningProgram {
 public:
  RunningProgram(const std::vector<std::string>& args, const fs::path& directory,
                 const std::map<std::string, std::string>& environment = {}) {
    const std::string out = files_ / "out", err = files_ / "err";
    std::vector<std::string> words = {testing::program_path()};
    words.insert(words.end(), args.begin(), args.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const std::string cache = testing::cache_path();

    child_ = ::fork();
    if (child_ == 0) {
      // What a shell starts in the background, or by nohup, ignores them, and so would the program.
      for (const int signal : {SIGINT, SIGHUP}) ::signal(signal, SIG_DFL);
      ::setenv("TESSERA_CACHE_DIR", cache.c_str(), 1);
      ::setenv("TESSERA_PLATFORM", "cpu", 1);  // whatever this machine has
      for (const char* name : {"NO_COLOR", "FORCE_COLOR", "TESSERA_COLOR"}) ::unsetenv(name);
      for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
      ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
      ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
      if (::chdir(directory.c_str()) == 0) ::execv(argv[0], argv.data());
      ::_exit(127);
    }
  }
  ~RunningProgram() {
    if (!running()) return;
    send(SIGKILL);
    wait();
  }
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  pid_t pid() const { return child_; }
  void send(int signal) { ::kill(child_, signal); }
  bool running() {
    if (!done_ && ::waitpid(child_, &status_, WNOHANG) == child_) done_ = true;
    return !done_;
  }
  // What it wrote so far.
  std::string out() const { return read_file(files_ / "out"); }
  std::string err() const { return read_file(files_ / "err"); }
  Outcome wait() {
    if (!done_) ::waitpid(child_, &status_, 0);
    done_ = true;
    return {WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_), out(), err()};
  }

 private:
  TempFolder files_;
  pid_t child_ = -1;
  int status_ = 0;
  bool done_ = false;
};

// The same, waiting for its end.
inline Outcome run_program(const std::vector<std::string>& args, const fs::path& directory = fs::temp_directory_path(),
                           const std::map<std::string, std::string>& environment = {}) {
  return RunningProgram(args, directory, environment).wait();
}

// 8 x 8 pixels: class 0 is bright on the left, class 1 on the right; `variant` shifts the shades.
inline void write_image(const fs::path& path, int label, int variant) {
  image::Image image(8, 8);
  for (int y = 0; y < 8; ++y) {
    for (int x = 0; x < 8; ++x) {
      const bool bright = (x < 4) == (label == 0);
      for (int c = 0; c < 3; ++c) {
        image.row(y)[3 * x + c] = static_cast<uint8_t>((bright ? 200 : 30) + (variant * 7 + x * 3 + y * 5 + c * 11) % 40);
      }
    }
  }
  fs::create_directories(path.parent_path());
  image::write_png(path.string(), image.view());
}

// <folder>/left and <folder>/right with `count` images each.
inline void write_images(const fs::path& folder, int count) {
  for (int i = 0; i < count; ++i) {
    write_image(folder / "left" / (std::to_string(i) + ".png"), 0, i);
    write_image(folder / "right" / (std::to_string(i) + ".png"), 1, i);
  }
}

// A recipe of a tiny ViT on <directory>/train and <directory>/val.
inline std::string tiny_recipe() {
  return R"toml(seed = 3
total = "6 steps"
log = "2 steps"
checkpoint = { every = "3 steps", keep = 2 }
data = { source = "folder(train)", batch = 4, pp = "decode | random_crop(8) | value_range(-1, 1)", threads = 1 }
model = { name = "vit", width = 16, depth = 2, heads = 2, patch = 4, pool = "gap" }
objective = { name = "softmax" }
optimizer = { name = "adamw", lr = "1e-2" }
[eval.val]
type = "classification"
data = { source = "folder(val)", pp = "decode | resize(9) | central_crop(8) | value_range(-1, 1)", threads = 1 }
every = "3 steps"
batch = 4
)toml";
}

}  // namespace tessera::cli
