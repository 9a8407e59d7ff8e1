#pragma once
// Servers of S3 and Google Cloud Storage for tests, which answer with the faults that a test asks for (serve_buckets.py).

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/paths.h"

namespace tessera::testing {

// The servers, with what is in `folder`; they end with this object, or with this process.
class BucketServers {
 public:
  explicit BucketServers(const std::filesystem::path& folder) {
    int to_it[2], from_it[2];
    EXPECT_EQ(::pipe2(to_it, O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(from_it, O_CLOEXEC), 0);
    const std::string python = buckets_python_path(), script = source_path("tests/support/scripts/serve_buckets.py");
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(to_it[0], STDIN_FILENO);
      ::dup2(from_it[1], STDOUT_FILENO);
      ::execl(python.c_str(), python.c_str(), script.c_str(), folder.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(to_it[0]);
    ::close(from_it[1]);
    to_ = to_it[1];
    from_ = ::fdopen(from_it[0], "r");
    environment_ = nlohmann::json::parse(line()).get<std::map<std::string, std::string>>();
    for (const auto& [name, value] : environment_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~BucketServers() {
    ::close(to_);
    std::fclose(from_);
    ::waitpid(child_, nullptr, 0);
  }
  BucketServers(const BucketServers&) = delete;
  BucketServers& operator=(const BucketServers&) = delete;

  const std::map<std::string, std::string>& environment() const { return environment_; }
  // Every `every`th question about an object fails, or, for `writes`, everything that changes one; gives how many did since the
  // last call.
  int fail(const std::vector<std::string>& faults, int every = 1, bool writes = false) {
    return ask({{"faults", faults}, {"every", every}, {"of", nlohmann::json::array({writes ? "writes" : "reads"})}});
  }
  // What is in `folder`, in the place of all that they have; nothing fails any more.
  void serve(const std::filesystem::path& folder) {
    fail({});
    EXPECT_GE(ask({{"serve", folder.string()}}), 0);
  }

 private:
  int ask(const nlohmann::json& wanted) {
    const std::string text = wanted.dump() + "\n";
    EXPECT_EQ(::write(to_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    return std::stoi(line());
  }
  std::string line() {
    std::string text;
    for (int c = std::fgetc(from_); c != EOF && c != '\n'; c = std::fgetc(from_)) text += static_cast<char>(c);
    return text;
  }

  pid_t child_ = -1;
  int to_ = -1;
  std::FILE* from_ = nullptr;
  std::map<std::string, std::string> environment_;
};

}  // namespace tessera::testing
