#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/system/environment.h"
#include "base/text/text.h"
#include "pjrt/plugin/plugin.h"

namespace tessera::pjrt {
namespace {

namespace fs = std::filesystem;

struct PlatformFiles {
  Platform platform;
  std::string_view name;
  std::string_view file;            // the library's own name, beside the program or in a directory
  std::vector<std::string> wheels;  // under site-packages, the best first
  std::string_view install;
};

const std::vector<PlatformFiles>& platform_files() {
  static const std::vector<PlatformFiles> files = {
      {Platform::kCpu, "cpu", "xla_cpu_pjrt.so", {"xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"}, "pip install xla-cpu-pjrt"},
      {Platform::kCuda,
       "cuda",
       "xla_cuda_plugin.so",
       {"jax_plugins/xla_cuda13/xla_cuda_plugin.so", "jax_plugins/xla_cuda12/xla_cuda_plugin.so"},
       "tessera plugin install cuda, or pip install 'jax-cuda13-plugin[with-cuda]'"},
      {Platform::kTpu, "tpu", "libtpu.so", {"libtpu/libtpu.so"}, "tessera plugin install tpu, or pip install libtpu"},
  };
  return files;
}

const PlatformFiles& files_of(Platform platform) {
  for (const PlatformFiles& files : platform_files()) {
    if (files.platform == platform) return files;
  }
  TESSERA_CHECK(false, "platform {} has no row", static_cast<int>(platform));
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// A file whose name is another platform's library is not this one's.
bool is_other_platforms(const fs::path& path, Platform platform) {
  return std::any_of(platform_files().begin(), platform_files().end(),
                     [&](const PlatformFiles& f) { return f.platform != platform && path.filename() == f.file; });
}

// Where Pythons below this directory have their packages, the newest Python first: in `dist-packages` on Debian.
std::vector<fs::path> site_packages(const fs::path& environment) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(environment / "lib", ignored)) {
    if (!entry.path().filename().string().starts_with("python3")) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      if (is_folder(entry.path() / packages)) found.push_back(entry.path() / packages);
    }
  }
  std::sort(found.rbegin(), found.rend(), [](const fs::path& a, const fs::path& b) {
    const std::string x = a.string(), y = b.string();
    return x.size() != y.size() ? x.size() < y.size() : x < y;  // python3.9 before python3.11
  });
  return found;
}

class Search {
 public:
  explicit Search(Platform platform) : files_(files_of(platform)) {}

  // A file, or a directory that holds the library under its own name, as its wheel does, or as try_installed() has it.
  bool try_path(const fs::path& path) {
    if (is_folder(path)) return try_wheels(path) || try_installed(path) || try_file(path / files_.file);
    if (is_other_platforms(path, files_.platform)) {
      looked_.push_back(fmt::format("{} (another platform's)", path.string()));
      return false;
    }
    return try_file(path);
  }

  bool try_file(const fs::path& path) {
    if (is_file(path)) {
      found_ = path.lexically_normal().string();
      return true;
    }
    looked_.push_back(path.lexically_normal().string());
    return false;
  }

  // The wheel's own path below a directory; a file that is not there is passed over.
  bool try_wheels(const fs::path& directory) {
    return std::ranges::any_of(
        files_.wheels, [&](const std::string& wheel) { return is_file(directory / wheel) && try_file(directory / wheel); });
  }

  // A directory of `tessera plugin install`.
  bool try_installed(const fs::path& directory) { return try_wheels(directory / files_.name); }

  bool try_environment(const fs::path& environment) {
    const std::vector<fs::path> sites = site_packages(environment);
    if (sites.empty()) looked_.push_back((environment / "lib/python3*/site-packages").lexically_normal().string());
    for (const fs::path& site : sites) {
      for (const std::string& wheel : files_.wheels) {
        if (try_file(site / wheel)) return true;
      }
    }
    return false;
  }

  // A place that has nothing.
  void passed(const fs::path& place) { looked_.push_back(place.lexically_normal().string()); }

  const std::string& found() const { return found_; }
  std::string_view file() const { return files_.file; }

  [[noreturn]] void fail(const PluginPlaces& places) const {
    std::string what = fmt::format("no PJRT plugin for platform {}; looked at", files_.name);
    for (const std::string& place : looked_) what += "\n  " + place;
    if (places.environment_path.empty()) what += "\n  TESSERA_PLUGIN_PATH (not set)";
    throw device_error(
        std::move(what), {},
        fmt::format("{}, in a Python environment that is active or with --user, or give the file with --plugin or "
                    "TESSERA_PLUGIN_PATH",
                    files_.install));
  }

 private:
  const PlatformFiles& files_;
  std::vector<std::string> looked_;
  std::string found_;
};

// What ./dev plan-deps fetched, where the program is build/PRESET/bin/tessera of a checkout. Its plugin of TPUs is whole; that of
// GPUs has no CUDA beside it, and can but compile (plan/target.cc).
fs::path plan_of_checkout(const PluginPlaces& places) {
  const fs::path directory = places.program_directory;
  return directory.filename() == "bin" ? (directory / "../../../.deps/plan").lexically_normal() : fs::path();
}

}  // namespace

std::string_view platform_name(Platform platform) { return files_of(platform).name; }

Platform parse_platform(std::string_view name) {
  if (name == "gpu") return Platform::kCuda;  // as JAX has it
  std::vector<std::string> names = {"auto"};  // which the command line reads itself (cli/common_flags.cc)
  for (const PlatformFiles& files : platform_files()) {
    if (files.name == name) return files.platform;
    names.emplace_back(files.name);
  }
  throw usage_error(fmt::format("unknown platform `{}`", name), "--platform", suggest_name(name, names));
}

std::string installed_plugins() {
  const std::string home = environment_variable("HOME");
  const std::string data = environment_variable("XDG_DATA_HOME", home.empty() ? "" : home + "/.local/share");
  return data.empty() ? "" : data + "/tessera/plugins";
}

PluginPlaces plugin_places(const std::string& flag) {
  PluginPlaces places;
  places.flag = flag;
  places.environment_path = environment_variable("TESSERA_PLUGIN_PATH");
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  places.program_directory = program.parent_path().string();
  places.installed = installed_plugins();
  places.environments = {environment_variable("VIRTUAL_ENV"), environment_variable("CONDA_PREFIX")};
  if (!places.program_directory.empty()) places.environments.push_back(places.program_directory + "/../.deps/venv");
  if (const std::string home = environment_variable("HOME"); !home.empty()) places.environments.push_back(home + "/.local");
  places.environments.insert(places.environments.end(), {"/usr/local", "/usr"});
  places.libraries = {"/lib", "/usr/local/lib"};
  return places;
}

std::string find_plugin(Platform platform, const PluginPlaces& places) {
  Search search(platform);
  if (!places.flag.empty()) {
    // What was asked for by name is taken or refused: no second guess.
    if (is_file(places.flag)) return places.flag;
    if (is_folder(places.flag) && search.try_path(places.flag)) return search.found();
    throw device_error(fmt::format("there is no plugin at {}", places.flag), "--plugin",
                       fmt::format("name the file {}, or the directory that holds it", files_of(platform).file));
  }
  for (const std::string& place : split(places.environment_path, ':')) {
    if (!place.empty() && search.try_path(place)) return search.found();
  }
  const fs::path beside = fs::path(places.program_directory) / search.file();
  if (!places.program_directory.empty() && search.try_file(beside)) return search.found();
  if (!places.installed.empty()) {
    if (search.try_installed(places.installed)) return search.found();
    search.passed(fs::path(places.installed) / platform_name(platform));
  }
  for (const std::string& environment : places.environments) {
    if (!environment.empty() && search.try_environment(environment)) return search.found();
  }
  for (const std::string& directory : places.libraries) {
    if (search.try_file(fs::path(directory) / search.file())) return search.found();
  }
  if (const fs::path checkout = plan_of_checkout(places); platform == Platform::kTpu && is_folder(checkout)) {
    if (search.try_environment(checkout)) return search.found();
  }
  search.fail(places);
}

std::string find_plugin(Platform platform, const std::string& flag) { return find_plugin(platform, plugin_places(flag)); }

}  // namespace tessera::pjrt
