#include "kept.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "base/hash.h"
#include "inner.h"
#include "pjrt/program/collective_order.h"

namespace tessera::joint {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::optional<std::string> text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

// As program caches of Tessera name their entries, which remove what was not used for long (pjrt/cache.h).
std::string path_of(const std::string& name) {
  const std::string directory = variable("TESSERA_JOINT_CACHE");
  return directory.empty() ? "" : directory + "/joint-" + name + ".exe";
}

// The instructions of the processor, for which the inner plugin compiles.
std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("flags") || line.starts_with("Features")) return line;
  }
  return "";
}

std::string serialized(PJRT_LoadedExecutable* loaded) {
  PJRT_Executable* executable = INNER(PJRT_LoadedExecutable_GetExecutable)({.loaded_executable = loaded}).executable;
  const auto given = INNER(PJRT_Executable_Serialize)({.executable = executable});
  std::string bytes(given.serialized_bytes, given.serialized_bytes_size);
  given.serialized_executable_deleter(given.serialized_executable);
  INNER(PJRT_Executable_Destroy)({.executable = executable});
  return bytes;
}

}  // namespace

std::string kept_name(std::string_view text, std::string_view options) {
  const std::string plugin = variable("TESSERA_JOINT_INNER");
  struct stat status {};
  stat(plugin.c_str(), &status);
  Hasher hasher;
  hasher.add(text).add(options).add(fmt::format("{} {}", status.st_size, status.st_mtim.tv_sec));
  hasher.add(variable("XLA_FLAGS")).add(processor()).add(fmt::format("{} cores", std::thread::hardware_concurrency()));
  return to_string(hasher.finish());
}

PJRT_LoadedExecutable* load_kept(PJRT_Client* client, const std::string& name) {
  const std::string path = path_of(name);
  const auto bytes = path.empty() ? std::nullopt : text_of(path);
  if (!bytes) return nullptr;
  std::error_code refused;
  fs::last_write_time(path, fs::file_time_type::clock::now(), refused);
  try {
    return INNER(PJRT_Executable_DeserializeAndLoad)(
               {.client = client, .serialized_executable = bytes->data(), .serialized_executable_size = bytes->size()})
        .loaded_executable;
  } catch (const Failure&) {
    return nullptr;
  }
}

void keep(const std::string& name, PJRT_LoadedExecutable* loaded) {
  const std::string path = path_of(name), partial = fmt::format("{}.{}", path, gettid());
  if (path.empty()) return;
  std::optional<std::string> bytes;
  try {
    bytes = pjrt::with_collectives_in_order(serialized(loaded));
  } catch (const Failure&) {
    // The inner plugin doesn't serialise it.
  }
  if (!bytes) return;
  std::error_code refused;
  std::ofstream file(partial, std::ios::binary);
  file << *bytes;
  file.close();
  if (file) {
    fs::rename(partial, path, refused);
  } else {
    fs::remove(partial, refused);
  }
}

}  // namespace tessera::joint
