// tessera profile: what a run that trains now spends its time on.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/text/text.h"
#include "cli/command.h"
#include "store/file.h"
#include "train/control/control_socket.h"

namespace tessera::cli {
namespace {

// "10s", "500 ms", "2min", "10".
double parse_seconds(const std::string& text) {
  const std::string_view trimmed = trim(text);
  double number = 0;
  const auto [end, error] = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), number);
  const std::string_view unit = trim(trimmed.substr(static_cast<size_t>(end - trimmed.data())));
  double scale = 0;
  if (unit.empty() || unit == "s") scale = 1;
  if (unit == "ms") scale = 1e-3;
  if (unit == "min") scale = 60;
  const double seconds = number * scale;
  if (error != std::errc() || !(seconds > 0 && seconds <= train::kMaxProfileSeconds)) {
    throw usage_error(fmt::format("`{}` is no duration of a profile", text), "--duration",
                      fmt::format("write 10s, 500ms or 2min; at most {:.0f}s", train::kMaxProfileSeconds));
  }
  return seconds;
}

class Profile final : public Command {
 public:
  Page page() const override {
    return {"profile",
            "RUN",
            "what a run that trains now spends its time on",
            {{"tessera profile runs/digits-1", "looks at it for 10 s and prints a table"},
             {"tessera profile runs/digits-1 --duration 500ms", "for half a second"}},
            "Writes RUN/plugins/profile/<time>/: <host>.xplane.pb for TensorBoard's profile tab (pip install xprof;\n"
            "tensorboard --logdir runs), <host>.trace.json.gz for ui.perfetto.dev and chrome://tracing, and the table as\n"
            "summary.txt. The run must be on this machine and of the same user. monitor.profile = \"steps 2-6\" in a recipe\n"
            "profiles steps of a run."};
  }
  void declare(Flags& flags) override { flags.add("--duration", "TIME", &duration_, "how long; 10s when not given"); }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions&) override {
    if (words.empty()) throw usage_error("tessera profile needs the directory of a run", {}, "tessera profile runs/digits-1");
    reject_extra(words, 1, "profile");
    const std::string& workdir = words[0];
    const nlohmann::ordered_json answer = train::ask_run(workdir, {{"do", "profile"}, {"seconds", parse_seconds(duration_)}});
    print(answer.value("table", std::string()));
    for (const char* what : {"xplane", "trace", "summary"}) {
      print(fmt::format("{:<12}{}", what, store::join_path(workdir, answer.value(what, std::string()))));
    }
    return Exit::kDone;
  }

 private:
  std::string duration_ = "10s";
};

}  // namespace

const CommandEntry kProfile = command_entry<Profile>("profile");

}  // namespace tessera::cli
