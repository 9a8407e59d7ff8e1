#include "support/paths.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace tessera::testing {
namespace {

// As it was called: a program that was built anew meanwhile has another path in /proc.
std::string executable() {
  static const std::string path = [] {
    std::string found = std::filesystem::read_symlink("/proc/self/exe");
    constexpr std::string_view kGone = " (deleted)";
    if (found.ends_with(kGone)) found.resize(found.size() - kGone.size());
    return found;
  }();
  return path;
}

}  // namespace

std::string source_path(const std::string& inside) { return TESSERA_SOURCE_DIR "/" + inside; }
std::string cpu_plugin_path() { return TESSERA_CPU_PLUGIN; }
std::string program_path() { return TESSERA_BUILD_DIR "/bin/tessera"; }
std::string python_path() { return TESSERA_PYTHON; }
std::string tensorboard_python_path() { return TESSERA_TENSORBOARD_PYTHON; }
std::string xprof_python_path() { return TESSERA_XPROF_PYTHON; }
std::string trackers_python_path() { return TESSERA_TRACKERS_PYTHON; }
std::string buckets_python_path() { return TESSERA_BUCKETS_PYTHON; }
std::string jax_python_path() { return TESSERA_JAX_PYTHON; }
std::string references_path(const std::string& name) {
  const std::string path = source_path(".deps/" + name);
  return std::filesystem::exists(path + "/requirements.txt") ? path : "";
}
std::string build_cache_path() { return executable() + ".cache"; }
std::string cache_path() {
  const char *home = std::getenv("HOME"), *named = std::getenv("XDG_CACHE_HOME");
  const std::string caches = named && *named == '/' ? named : home && *home == '/' ? std::string(home) + "/.cache" : "";
  const std::string all = caches + "/tessera-tests";
  std::error_code refused;
  if (!caches.empty()) std::filesystem::create_directories(all, refused);
  if (caches.empty() || refused || ::access(all.c_str(), W_OK) != 0) return build_cache_path();
  return all + "/" + std::filesystem::path(executable()).filename().string();
}
std::string config_path() { return cache_path() + "-config"; }
std::string test_sources_path() { return TESSERA_BUILD_DIR "/tests/sources.txt"; }
std::string odd_files_path() { return TESSERA_BUILD_DIR "/tests/libodd_files.so"; }
std::string fake_plugin_path(int number) { return TESSERA_BUILD_DIR "/tests/libfake_plugin_" + std::to_string(number) + ".so"; }
std::string joint_plugin_path() { return TESSERA_BUILD_DIR "/tests/libjoint_plugin.so"; }

}  // namespace tessera::testing
