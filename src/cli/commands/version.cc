// tessera version: what this build is, as tessera --version.
#include "cli/version.h"

#include "cli/command.h"

namespace tessera::cli {
namespace {

class Version final : public Command {
 public:
  Page page() const override {
    return {"version",
            "",
            "what this build is",
            {{"tessera version", "one line, as tessera --version and tessera -V"},
             {"tessera version --json", "with the compiler, the C API of PJRT and the plugins that are found"}},
            ""};
  }
  void declare(Flags& flags) override { flags.add("--json", &json_, "one JSON object"); }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions& device) override {
    reject_extra(words, 0, "version");
    json_ ? print_json_text(version_json(device.plugin)) : print(version_line());
    return Exit::kDone;
  }

 private:
  bool json_ = false;
};

}  // namespace

const CommandEntry kVersion = command_entry<Version>("version");

}  // namespace tessera::cli
