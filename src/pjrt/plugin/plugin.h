#pragma once
// Finding and loading PJRT plugins: shared libraries that give a table of C functions (PJRT_Api) for one kind of device.

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct PJRT_Api;

namespace tessera::pjrt {

enum class Platform { kCpu, kCuda, kTpu };

// "cpu", "cuda" (also "gpu"), "tpu"; parse_platform throws a usage Error that lists them.
std::string_view platform_name(Platform platform);
Platform parse_platform(std::string_view name);

// The places a plugin is looked for, in order. Empty ones are passed over.
struct PluginPlaces {
  std::string flag;               // --plugin: a file, or a directory that has one, also as a wheel or `plugin install` lays it
  std::string environment_path;   // TESSERA_PLUGIN_PATH: files or such directories, separated by ':'
  std::string program_directory;  // beside the program
  std::string installed;          // where `tessera plugin install` puts them: <it>/<platform>/<wheel's path>
  std::vector<std::string> environments;  // of Python: <each>/lib/python3*/{site,dist}-packages/<wheel's path>
  std::vector<std::string> libraries;     // directories of the library itself: images of TPU machines have /lib/libtpu.so
};
// The places of this process: /proc/self/exe's directory, installed_plugins(), then $VIRTUAL_ENV, $CONDA_PREFIX, <that directory>/../.deps/venv, the
// user's and the system's packages, /lib and /usr/local/lib.
PluginPlaces plugin_places(const std::string& flag = {});

// Where `tessera plugin install` puts plugins: $XDG_DATA_HOME/tessera/plugins, else ~/.local/share/tessera/plugins. Empty where there
// is no home.
std::string installed_plugins();

// The path of the platform's plugin. Throws a device Error that lists every place looked at and how to install one.
std::string find_plugin(Platform platform, const PluginPlaces& places);
std::string find_plugin(Platform platform, const std::string& flag = {});

// A loaded plugin. It stays loaded until the process ends (plugins do not survive dlclose), and each file is loaded and
// initialised once however often it is asked for.
class Plugin {
 public:
  // Throws a device Error when the file can't be loaded, is cut short, is no plugin, or speaks another major version of the C
  // API.
  static std::shared_ptr<Plugin> load(const std::string& path);

  const PJRT_Api* api() const { return api_; }
  const std::string& path() const { return path_; }
  // "xla_cpu_pjrt.so, PJRT C API 0.81, StableHLO 1.13.3 (minimum 0.9.0)": part of every error.
  const std::string& version_line() const { return version_line_; }
  // Names this build of the plugin for cache keys: attributes, file size, and build id or modification time.
  const std::string& identity() const { return identity_; }
  // Names it the same on every host that has it, whatever its file's name and date: its versions, its size and, where it has one,
  // its build id, a line each.
  const std::string& build() const { return build_; }
  // How much was captured of stderr (pjrt/plugin/stderr_filter.h) before it was loaded: of other plugins.
  size_t stderr_before() const { return stderr_before_; }
  // What the plugin says of itself, lists written "1.13.3".
  const std::map<std::string, std::string>& attributes() const { return attributes_; }

 private:
  Plugin(std::string path, const PJRT_Api* api);
  void initialize();
  void describe();

  std::string path_;
  const PJRT_Api* api_;
  std::string version_line_;
  std::string identity_, build_;
  size_t stderr_before_ = 0;
  std::map<std::string, std::string> attributes_;
};

}  // namespace tessera::pjrt
