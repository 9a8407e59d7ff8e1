#include "pjrt/plugin/plugin.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <new>

#include "base/system/refused.h"
#include "pjrt/plugin/accelerators.h"
#include "pjrt/plugin/call.h"
#include "pjrt/plugin/plugin_file.h"
#include "pjrt/plugin/stderr_filter.h"

namespace tessera::pjrt {
namespace {

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

std::string value_text(const PJRT_NamedValue& value) {
  switch (value.type) {
    case PJRT_NamedValue_kString: return std::string(value.string_value, value.value_size);
    case PJRT_NamedValue_kInt64: return fmt::format("{}", value.int64_value);
    case PJRT_NamedValue_kInt64List: {
      std::string text;
      for (size_t i = 0; i < value.value_size; ++i) text += fmt::format("{}{}", i ? "." : "", value.int64_array_value[i]);
      return text;
    }
    case PJRT_NamedValue_kFloat: return fmt::format("{}", value.float_value);
    case PJRT_NamedValue_kBool: return value.bool_value ? "true" : "false";
  }
  return {};
}

struct BuildIdSearch {
  uintptr_t address;  // anything inside the library
  std::string hex;
};

// The GNU build id among the notes of one segment.
std::string build_id_in_notes(const char* notes, size_t size) {
  size_t at = 0;
  while (at + sizeof(ElfW(Nhdr)) <= size) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes + at, sizeof header);
    const size_t name = at + sizeof header;
    const size_t data = name + (header.n_namesz + 3) / 4 * 4;
    if (data + header.n_descsz > size) break;
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && std::memcmp(notes + name, "GNU", 4) == 0) {
      std::string hex;
      for (size_t i = 0; i < header.n_descsz; ++i) hex += fmt::format("{:02x}", static_cast<unsigned char>(notes[data + i]));
      return hex;
    }
    at = data + (header.n_descsz + 3) / 4 * 4;
  }
  return {};
}

int look_at_library(dl_phdr_info* info, size_t, void* search_pointer) {
  auto* search = static_cast<BuildIdSearch*>(search_pointer);
  bool inside = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    const uintptr_t start = info->dlpi_addr + segment.p_vaddr;
    inside |= segment.p_type == PT_LOAD && search->address >= start && search->address - start < segment.p_memsz;
  }
  if (!inside) return 0;
  for (int i = 0; i < info->dlpi_phnum && search->hex.empty(); ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    search->hex = build_id_in_notes(reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr), segment.p_memsz);
  }
  return 1;
}

std::string build_id(const void* inside_library) {
  BuildIdSearch search{reinterpret_cast<uintptr_t>(inside_library), {}};
  dl_iterate_phdr(look_at_library, &search);
  return search.hex;
}

// Reading the whole file would take longer than loading it, so a file without a build id is identified by size and time.
std::string file_identity(const std::string& path, const std::string& build_id) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return path;
  if (!build_id.empty()) return fmt::format("size={} build_id={}", status.st_size, build_id);
  return fmt::format("size={} mtime={}.{:09}", status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

using GetPjrtApi = const PJRT_Api* (*)();

const PJRT_Api* open_library(const std::string& path) {
  check_library_file(path);
  // Without a TPU libtpu asks a metadata server that isn't there, for minutes; with one, that tells it where in the slice this
  // host is. A set variable is left alone.
  if (file_name(path).find("libtpu") != std::string::npos && tpu_chips() == 0) setenv("TPU_SKIP_MDS_QUERY", "1", 0);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    struct stat status {};
    constexpr size_t kBesides = 64 << 20;  // what the file does not hold: its zeros, and what it asks for as it is loaded
    if (stat(path.c_str(), &status) == 0 && memory_is_refused(static_cast<size_t>(status.st_size) + kBesides)) {
      throw std::bad_alloc();
    }
    throw device_error(fmt::format("can't load the plugin: {}", reason ? reason : "unknown reason"), path,
                       "name the plugin's shared library (xla_cpu_pjrt.so, xla_cuda_plugin.so, libtpu.so)");
  }
  const auto get_api = reinterpret_cast<GetPjrtApi>(dlsym(library, "GetPjrtApi"));
  const PJRT_Api* api = get_api ? get_api() : nullptr;
  if (api == nullptr) {
    throw device_error(get_api ? "GetPjrtApi gave no function table" : "not a PJRT plugin: it has no function GetPjrtApi", path,
                       "name the plugin's shared library (xla_cpu_pjrt.so, xla_cuda_plugin.so, libtpu.so)");
  }
  return api;
}

void check_version(const std::string& path, const PJRT_Api* api) {
  const PJRT_Api_Version& version = api->pjrt_api_version;
  if (version.major_version != PJRT_API_MAJOR) {
    throw device_error(fmt::format("the plugin speaks PJRT C API {}.{}, this program {}.{}: the major versions must be equal",
                                   version.major_version, version.minor_version, PJRT_API_MAJOR, PJRT_API_MINOR),
                       path, "use a plugin with the same major version, or a newer program");
  }
  if (api->struct_size < offsetof(PJRT_Api, PJRT_Error_GetCode) + sizeof(void*)) {
    throw device_error(fmt::format("the plugin's function table ({} bytes) is too short to report errors", api->struct_size),
                       path, "use a newer plugin");
  }
}

}  // namespace

Plugin::Plugin(std::string path, const PJRT_Api* api) : path_(std::move(path)), api_(api) {
  version_line_ = fmt::format("{}, PJRT C API {}.{}", file_name(path_), api_->pjrt_api_version.major_version,
                              api_->pjrt_api_version.minor_version);
  identity_ = version_line_;
}

void Plugin::initialize() { PJRT(*this, PJRT_Plugin_Initialize)({}); }

void Plugin::describe() {
  if (const auto found = PJRT(*this, PJRT_Plugin_Attributes).if_supported({})) {
    for (size_t i = 0; i < found->num_attributes; ++i) {
      const PJRT_NamedValue& value = found->attributes[i];
      attributes_[std::string(value.name, value.name_size)] = value_text(value);
    }
  }
  const auto current = attributes_.find("stablehlo_current_version");
  const auto minimum = attributes_.find("stablehlo_minimum_version");
  if (current != attributes_.end()) version_line_ += ", StableHLO " + current->second;
  if (minimum != attributes_.end()) version_line_ += fmt::format(" (minimum {})", minimum->second);
  for (const auto& [name, value] : attributes_) identity_ += fmt::format(" {}={}", name, value);
  const std::string id = build_id(api_);
  identity_ += fmt::format(" {}", file_identity(path_, id));
  build_ = fmt::format("PJRT C API {}.{}\n", api_->pjrt_api_version.major_version, api_->pjrt_api_version.minor_version);
  for (const auto& [name, value] : attributes_) build_ += fmt::format("{} = {}\n", name, value);
  std::error_code unknown;
  if (const auto size = std::filesystem::file_size(path_, unknown); !unknown) build_ += fmt::format("file of {} bytes\n", size);
  if (!id.empty()) build_ += fmt::format("build ID {}\n", id);
}

std::shared_ptr<Plugin> Plugin::load(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<Plugin>> loaded;
  const std::lock_guard lock(mutex);
  std::error_code error;
  std::filesystem::path real = std::filesystem::canonical(path, error);
  const std::string file = error ? path : real.string();
  if (const auto found = loaded.find(file); found != loaded.end()) return found->second;

  const size_t stderr_before = captured_stderr_size();
  const PJRT_Api* api = open_library(file);
  check_version(file, api);
  std::shared_ptr<Plugin> plugin(new Plugin(file, api));
  plugin->stderr_before_ = stderr_before;
  plugin->initialize();
  plugin->describe();
  loaded[file] = plugin;
  trim_captured_stderr();
  return plugin;
}

}  // namespace tessera::pjrt
