// tessera devices: what this machine can run on.
#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/text/text.h"
#include "cli/command.h"
#include "pjrt/client.h"

namespace tessera::cli {
namespace {

struct PlatformReport {
  std::string platform;
  std::string plugin, version;  // path and version line; empty when there is none
  std::vector<pjrt::Device> devices;
  std::optional<int64_t> memory;  // of one device
  std::string problem, help;      // empty when it can be used
};

int64_t host_memory() { return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE); }

PlatformReport look_at_platform(pjrt::Platform platform, const std::string& plugin) {
  PlatformReport report;
  report.platform = pjrt::platform_name(platform);
  try {
    report.plugin = pjrt::find_plugin(platform, plugin);
  } catch (const Error& error) {
    report.problem = "no plugin";
    report.help = error.help();
    return report;
  }
  try {
    const auto loaded = pjrt::Plugin::load(report.plugin);
    report.version = loaded->version_line();
    const auto client = pjrt::Client::create(loaded);
    report.devices = client->devices();
    if (const auto memory = client->memory(0)) report.memory = memory->limit;
    if (platform == pjrt::Platform::kCpu) report.memory = host_memory();
  } catch (const Error& error) {
    report.problem = error.message();
    report.help = error.help();
  }
  return report;
}

std::string as_line(const PlatformReport& report) {
  std::string text = fmt::format("{:<6}", report.platform);
  if (!report.problem.empty()) {
    const std::string problem = join(split(report.problem, '\n'), "\n      ");  // below the line, a plugin's messages
    text += report.version.empty() ? problem : fmt::format("{}   {}", report.version, problem);
    return report.help.empty() ? text : fmt::format("{}: {}", text, report.help);
  }
  text += fmt::format("{}   {} {}{}", report.version, report.devices.size(), report.devices[0].kind,
                      report.devices.size() == 1 ? " device" : " devices");
  if (report.platform == "cpu") text += fmt::format("   {} cores", std::thread::hardware_concurrency());
  if (report.memory) text += "   " + human_bytes(static_cast<double>(*report.memory));
  return text + "   ok";
}

nlohmann::ordered_json as_json(const PlatformReport& report) {
  nlohmann::ordered_json json;
  json["platform"] = report.platform;
  json["ok"] = report.problem.empty();
  if (!report.plugin.empty()) json["plugin"] = report.plugin;
  if (!report.version.empty()) json["version"] = report.version;
  json["devices"] = nlohmann::ordered_json::array();
  for (const pjrt::Device& device : report.devices) {
    json["devices"].push_back({{"id", device.id}, {"kind", device.kind}, {"description", device.description}});
  }
  if (report.memory) json["memory_bytes"] = *report.memory;
  if (report.platform == "cpu") json["cores"] = std::thread::hardware_concurrency();
  if (!report.problem.empty()) json["problem"] = report.problem;
  if (!report.help.empty()) json["help"] = report.help;
  return json;
}

class Devices final : public Command {
 public:
  Page page() const override {
    return {"devices",
            "",
            "the platforms this machine can run on, and what is missing for the others",
            {{"tessera devices", "one line a platform"}, {"tessera devices --json", "the same as one JSON object"}},
            ""};
  }
  void declare(Flags& flags) override { flags.add("--json", &json_, "one JSON object"); }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions& device) override {
    reject_extra(words, 0, "devices");
    nlohmann::ordered_json json;
    json["platforms"] = nlohmann::ordered_json::array();
    for (const pjrt::Platform platform : {pjrt::Platform::kCpu, pjrt::Platform::kCuda, pjrt::Platform::kTpu}) {
      // --plugin names one platform's file.
      const PlatformReport report = look_at_platform(platform, platform == device.platform ? device.plugin : std::string());
      if (json_) {
        json["platforms"].push_back(as_json(report));
      } else {
        print(as_line(report));
      }
    }
    if (json_) print_json(json);
    return Exit::kDone;
  }

 private:
  bool json_ = false;
};

}  // namespace

const CommandEntry kDevices = command_entry<Devices>("devices");

}  // namespace tessera::cli
