// tessera board: a live page of runs.
#include "cli/commands/board.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include "base/log.h"
#include "cli/command.h"
#include "cli/other_flags.h"
#include "store/file.h"
#include "store/url.h"

namespace tessera::cli {
namespace {

class Board final : public Command {
 public:
  Page page() const override {
    return {"board",
            "DIR [DIR …]",
            "a live page of the runs in directories: curves, images, log, checkpoints",
            {{"tessera board runs", "serves all runs under runs/, finished or going on"},
             {"tessera board runs/digits-1 --address 6080", "one run, at port 6080"},
             {"tessera train recipes/digits.toml --board", "the same page inside the trainer"}},
            "The page is for this machine alone; from another, ssh -L 6070:localhost:6070 THIS_MACHINE brings it there.\n"
            "It asks for a token, which is part of the address that is printed (or TESSERA_BOARD_TOKEN). /metrics is for\n"
            "Prometheus; docs/board.md has the other addresses. Ctrl-C ends it."};
  }
  void declare(Flags& flags) override {
    flags.explain_unknown(
        explain_words("port host", "the live page is at --address 6070, or 127.0.0.1:6070, of tessera board"));
    flags.add("--address", "ADDRESS", &address_, "as 6070 or 127.0.0.1:6070; the next free port when it is taken");
  }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions&) override {
    if (words.empty()) throw usage_error("tessera board needs a directory", {}, "tessera board runs");
    for (const std::string& path : words) {
      store::refuse_url(path);
      const auto info = store::local_files().info(path);
      if (!info) throw usage_error(fmt::format("there is no directory `{}`", path), {}, "tessera board runs");
      if (!info->directory) throw usage_error(fmt::format("`{}` is a file, and no directory of runs", path));
    }
    const board::Address asked = board::parse_address(address_);
    // Before there are threads, so that the signals wait for sigwait().
    sigset_t ends;
    sigemptyset(&ends);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, signal);
    pthread_sigmask(SIG_BLOCK, &ends, nullptr);
    const board::Board page({words, /*expected=*/false, asked});
    tell_of_page(page, asked);
    int signal = 0;
    sigwait(&ends, &signal);
    return Exit::kDone;
  }

 private:
  std::string address_;
};

}  // namespace

void tell_of_page(const board::Board& page, const board::Address& asked) {
  const uint16_t port = page.address().port;
  if (asked.port != 0 && port != asked.port)
    log_note(fmt::format("port {} is taken: the page is at port {}", asked.port, port));
  print_if_read(fmt::format("{:<12}{}", "page", page.url()));
  print_if_read(fmt::format("{:<12}from another machine: ssh -L {}:localhost:{} THIS_MACHINE", "", port, port));
}

const CommandEntry kBoard = command_entry<Board>("board");

}  // namespace tessera::cli
