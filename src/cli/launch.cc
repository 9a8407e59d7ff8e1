// tessera launch: several processes that train one run together.
#include <fmt/format.h>

#include "cli/command.h"
#include "launch/launcher.h"

namespace tessera::cli {
namespace {

constexpr const char* kExample = "tessera launch local:2 -- train recipes/digits.toml";

std::string places() {
  std::string text;
  for (const launch::Launcher* launcher : launch::launchers()) {
    text += fmt::format("  {:<14}{}\n", launcher->words, launcher->summary);
  }
  return text;
}

class Launch final : public Command {
 public:
  Page page() const override {
    return {
        "launch",
        "PLACE -- train RECIPE [key=value …]",
        "train one run with several processes, here or on several hosts",
        {{kExample, "two processes on this machine, each with half of the processors and of every batch"},
         {"tessera launch local:2 --dry-run -- train recipes/digits.toml", "show what would be run"}},
        "Places:\n" + places() +
            "Weights and metrics are those of one process. Process 0 reports and saves. A process that dies ends the others\n"
            "within 15 s; all are started again and go on from the last checkpoint. They meet at an etcd (Debian's\n"
            "etcd-server), which is started where --coordinator-address names none. All must see the same workdir and\n"
            "data. Exit codes are those of train. More: docs/hosts.md"};
  }
  void declare(Flags& flags) override {
    flags.add("--dry-run", &dry_run_, "show what would be run, and run nothing");
    flags.add("--restarts", "N", &request_.restarts, 0, "how often the run is started again when a process is lost (10)");
    flags.add("--coordinator-address", "HOST:PORT", &request_.coordinator, "of an etcd that runs already");
  }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions&) override {
    if (words.empty()) throw usage_error("tessera launch needs a place and a command", {}, kExample);
    const launch::Launcher& launcher = launch::find_launcher(words[0], request_.where);
    request_.command.assign(words.begin() + 1, words.end());
    if (request_.command.empty() || request_.command[0] != "train") {
      throw usage_error(request_.command.empty() ? "nothing is launched"
                                                 : fmt::format("`{}` is not run by several processes", request_.command[0]),
                        {}, "write the command after --: " + launch::example_of(launcher));
    }
    if (!dry_run_) return launcher.run(request_);
    print(launch::to_text(launcher.plan(request_)));
    return Exit::kDone;
  }

 private:
  launch::Request request_;
  bool dry_run_ = false;
};

}  // namespace

std::unique_ptr<Command> make_launch() { return std::make_unique<Launch>(); }

}  // namespace tessera::cli
