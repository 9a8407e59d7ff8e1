// tessera plugin list: which plugins are installed, which are found, and which are pinned.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text/text.h"
#include "cli/command.h"
#include "cli/commands/plugin/platforms.h"
#include "pjrt/install/install.h"

namespace tessera::cli {
namespace {

struct Listed {
  pjrt::Platform platform;
  std::vector<plugins::Wheel> pinned;
  std::optional<plugins::Installed> installed;
  std::string found;  // the plugin that runs use; empty: none
};

Listed look_at(pjrt::Platform platform, const std::string& to) {
  Listed out{platform, plugins::pinned_wheels(platform), plugins::installed_plugin(platform, to), ""};
  try {
    out.found = pjrt::find_plugin(platform);
  } catch (const Error&) {
    // There is none.
  }
  return out;
}

// "libtpu 0.0.51 and 13 more wheels"
std::string wheels_text(const std::vector<plugins::Wheel>& wheels) {
  if (wheels.empty()) return "no wheels";
  const std::string first = fmt::format("{} {}", wheels[0].name, wheels[0].version);
  return wheels.size() == 1 ? first : fmt::format("{} and {} more wheels", first, wheels.size() - 1);
}

std::string as_text(const Listed& listed) {
  const std::string_view name = pjrt::platform_name(listed.platform);
  std::string text = fmt::format("{:<6}", name);
  if (!listed.installed) {
    text += fmt::format("not installed: tessera plugin install {} fetches {}", name, wheels_text(listed.pinned));
  } else {
    text += fmt::format("{} in {}", wheels_text(listed.installed->wheels), listed.installed->directory);
    if (listed.installed->wheels != listed.pinned)
      text += fmt::format("; this program's is {}: tessera plugin install {}", wheels_text(listed.pinned), name);
  }
  return text + "\n      " + (listed.found.empty() ? "runs find none" : "runs use " + listed.found);
}

nlohmann::ordered_json as_json(const Listed& listed) {
  const auto wheels = [](const std::vector<plugins::Wheel>& all) {
    auto json = nlohmann::ordered_json::array();
    for (const plugins::Wheel& wheel : all)
      json.push_back({{"name", wheel.name}, {"version", wheel.version}, {"sha256", wheel.sha256}});
    return json;
  };
  nlohmann::ordered_json json = {{"platform", pjrt::platform_name(listed.platform)}, {"pinned", wheels(listed.pinned)}};
  if (listed.installed)
    json["installed"] = {{"directory", listed.installed->directory}, {"wheels", wheels(listed.installed->wheels)}};
  if (!listed.found.empty()) json["plugin"] = listed.found;
  return json;
}

class PluginList final : public Command {
 public:
  Page page() const override {
    return {"plugin list",
            "",
            "say which plugins are installed, which runs use, and which wheels are pinned",
            {{"tessera plugin list", "a paragraph for each platform"},
             {"tessera plugin list --json", "with every wheel and its SHA-256"}},
            ""};
  }
  void declare(Flags& flags) override {
    flags.add("--to", "DIR", &to_, "where `plugin install --to` put them");
    flags.add("--json", &json_, "one JSON object a platform");
  }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions&) override {
    reject_extra(words, 0, "plugin list");
    for (const pjrt::Platform platform : kInstallable) {
      const Listed listed = look_at(platform, to_);
      json_ ? print_json(as_json(listed)) : print(as_text(listed));
    }
    return Exit::kDone;
  }

 private:
  std::string to_;
  bool json_ = false;
};

}  // namespace

const CommandEntry kPluginList = command_entry<PluginList>("plugin list");

}  // namespace tessera::cli
