// tessera launch: several processes that train one run together.
#include <fmt/format.h>

#include <charconv>

#include "cli/command.h"
#include "launch/local.h"

namespace tessera::cli {
namespace {

constexpr const char* kExample = "tessera launch local:2 -- train recipes/digits.toml";

// Of "local:4".
int64_t local_processes(const std::string& where) {
  constexpr std::string_view kLocal = "local:";
  int64_t count = 0;
  const char* end = where.data() + where.size();
  if (where.starts_with(kLocal)) {
    const auto [stopped, error] = std::from_chars(where.data() + kLocal.size(), end, count);
    if (error == std::errc() && stopped == end && count >= 1 && count <= 1024) return count;
  }
  throw usage_error(fmt::format("`{}` is no place to launch", where), {},
                    fmt::format("local:N starts N processes here: {}", kExample));
}

class Launch final : public Command {
 public:
  Page page() const override {
    return {"launch",
            "local:N -- train RECIPE [key=value …]",
            "train one run with several processes",
            {{kExample, "two processes on this machine, each with half of the processors and of every batch"},
             {"tessera launch local:4 --restarts 0 -- train recipes/digits.toml --workdir runs/four", "without a second try"}},
            "Weights and metrics are those of one process. Process 0 reports and saves. A process that dies ends the others\n"
            "within 15 s; all are started again and go on from the last checkpoint. They meet at an etcd (Debian's\n"
            "etcd-server), which is started here where --coordinator-address names none. On several hosts start\n"
            "`tessera train` on each, with --num-processes, --process-id, --coordinator-address and --run-id, under srun or\n"
            "mpirun with --coordinator-address alone; all must see the same workdir and data. Exit codes are those of train."};
  }
  void declare(Flags& flags) override {
    flags.add("--restarts", "N", &options_.restarts, 0, "how often the run is started again when a process is lost (10)");
    flags.add("--coordinator-address", "HOST:PORT", &options_.coordinator, "of an etcd that runs already");
  }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions&) override {
    if (words.empty()) throw usage_error("tessera launch needs a place and a command", {}, kExample);
    options_.processes = local_processes(words[0]);
    options_.command.assign(words.begin() + 1, words.end());
    if (options_.command.empty() || options_.command[0] != "train") {
      throw usage_error(options_.command.empty() ? "nothing is launched"
                                                 : fmt::format("`{}` is not run by several processes", options_.command[0]),
                        {}, fmt::format("write the command after --: {}", kExample));
    }
    return launch::run_local(options_);
  }

 private:
  launch::LocalOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_launch() { return std::make_unique<Launch>(); }

}  // namespace tessera::cli
