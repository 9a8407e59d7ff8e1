// tessera plugin install: the pinned wheels of a plugin, fetched and unpacked without Python.
#include "pjrt/install/install.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "cli/commands/plugin/platforms.h"
#include "pjrt/plugin/plugin_file.h"

namespace tessera::cli {
namespace {

class PluginInstall final : public Command {
 public:
  Page page() const override {
    return {
        "plugin install",
        "tpu|cuda",
        "fetch the plugin of a TPU or of NVIDIA's GPUs, pinned, without Python",
        {{"tessera plugin install tpu", "libtpu, which `--platform tpu` and `tessera plan` then find"},
         {"tessera plugin install cuda --to /opt/tessera",
          "XLA's CUDA plugin with NVIDIA's libraries (GBs); TESSERA_PLUGIN_PATH=/opt/tessera"},
         {"tessera plugin install tpu --from wheels", "from a folder with the wheels, without a network"}},
        "The index is pip's: PIP_INDEX_URL, pip.conf, else PyPI. Each wheel must have the SHA-256 that this program was built "
        "with.\n"
        "What was fetched in part is gone on with. A GPU's driver is the system's: `tessera devices` says what can be used."};
  }
  void declare(Flags& flags) override {
    flags.add("--to", "DIR", &options_.to,
              "where, as DIR/tpu; ~/.local/share/tessera/plugins when not given, where it is found");
    flags.add("--from", "FOLDER", &options_.wheels, "with the wheels, in the place of an index");
    flags.add("--json", &json_, "one JSON object");
  }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions&) override {
    if (words.size() != 1) throw usage_error("`plugin install` takes one platform", {}, "tessera plugin install tpu");
    const pjrt::Platform platform = installable_platform(words[0]);
    const plugins::Installed installed = plugins::install_plugin(platform, plugins::pinned_wheels(platform), options_);
    // Found as a run finds it, and whole.
    pjrt::PluginPlaces places;
    places.flag = installed.directory;
    const std::string path = pjrt::find_plugin(platform, places);
    pjrt::check_library_file(path);
    if (json_) {
      print_json({{"platform", pjrt::platform_name(platform)},
                  {"directory", installed.directory},
                  {"plugin", path},
                  {"there_before", installed.there}});
      return Exit::kDone;
    }
    if (installed.there) log_note("it is there already, with the same wheels");
    if (!options_.to.empty()) log_note(fmt::format("TESSERA_PLUGIN_PATH={} makes it known", options_.to));
    print(path);
    return Exit::kDone;
  }

 private:
  plugins::InstallOptions options_;
  bool json_ = false;
};

}  // namespace

const CommandEntry kPluginInstall = command_entry<PluginInstall>("plugin install");

}  // namespace tessera::cli
