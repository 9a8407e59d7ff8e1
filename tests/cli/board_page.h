#pragma once
// The live page of a program, and small runs that it shows.

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "cli/run_program.h"
#include "support/http_client.h"

namespace tessera::cli {

using testing::http;
using testing::HttpAnswer;

// What the program says of its page, once it does.
struct Page {
  uint16_t port = 0;
  std::string token;

  explicit Page(RunningProgram& program) {
    while (program.running() && program.out().find('\n', program.out().find("?token=")) == std::string::npos) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    const std::string out = program.out();
    const size_t at = out.find("127.0.0.1:"), mark = out.find("/?token=");
    if (at == std::string::npos || mark == std::string::npos) return;
    port = static_cast<uint16_t>(std::stoi(out.substr(at + 10, mark - at - 10)));
    token = out.substr(mark + 8, out.find('\n', mark) - mark - 8);
  }
  HttpAnswer ask(const std::string& target, const std::string& method = "GET") const {
    return http(port, method, target, "Authorization: Bearer " + token + "\r\n");
  }
  Json json(const std::string& target) const { return Json::parse(ask(target).body); }
};

class Board : public ::testing::Test {
 protected:
  void SetUp() override {
    write_images(folder_ / "train", 12);
    write_images(folder_ / "val", 5);
    write_file(folder_ / "tiny.toml", tiny_recipe());
  }
  std::vector<std::string> train(const std::vector<std::string>& more) const {
    std::vector<std::string> args{"train", "tiny.toml", "--workdir", "runs/tiny", "--no-report"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  TempFolder folder_;
};

}  // namespace tessera::cli
