#pragma once
// A command that takes another trainer's command line.

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/commands/train/training.h"
#include "recipe/translate/arguments.h"

namespace tessera::cli {

class TranslatedCommand : public Command {
 public:
  void declare(Flags& flags) override;
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions& device) override;

 protected:
  virtual std::string lists() const = 0;  // what --list prints
  // `devices`: of all processes of this run, as far as the flags say.
  virtual translate::Translation translate(const std::vector<std::string>& words, int64_t devices) = 0;

 private:
  bool print_ = false, list_ = false;
  Training training_;
};

}  // namespace tessera::cli
