#pragma once
// A small run that the program has finished, made once for the tests of a suite.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/run_program.h"

namespace tessera::cli {

// A folder with train/, val/, tiny.toml and the run of it, run/. `Suite` is the fixture's own class, so that each has its own.
template <class Suite>
class FinishedRun : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    write_images(*folder_ / "train", 6);
    write_images(*folder_ / "val", 5);
    write_file(*folder_ / "tiny.toml", tiny_recipe());
    trained_ = new Outcome(tessera({"train", "--workdir", "run", "tiny.toml"}));
  }
  static void TearDownTestSuite() {
    delete trained_;
    delete folder_;
  }
  static Outcome tessera(const std::vector<std::string>& args) { return run_program(args, folder_->path()); }

  static inline TempFolder* folder_ = nullptr;
  static inline Outcome* trained_ = nullptr;
};

}  // namespace tessera::cli
