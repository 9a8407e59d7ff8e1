#include "base/system/shared_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string find_module(const Module& module) {
  if (const char* own = std::getenv(module.environment.c_str()); own && *own) return own;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& path : {folder / module.file, folder.parent_path() / "bin" / module.file}) {
    if (fs::exists(path, error)) return path;
  }
  throw Error(module.code, fmt::format("{} {}, which is not beside the program", module.needed_by, module.file), {},
              module.help_missing);
}

}  // namespace

SharedLibrary::SharedLibrary(const std::string& file, Missing missing)
    : library_(::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)), missing_(std::move(missing)) {
  if (!library_) throw missing_(reason());
}

void* SharedLibrary::address(const char* name) const { return ::dlsym(library_, name); }

std::string SharedLibrary::reason() {
  const char* reason = ::dlerror();
  return reason ? reason : "unknown reason";
}

const void* load_module(const Module& module, int32_t version) {
  const std::string path = find_module(module);
  const SharedLibrary library(path, [&](const std::string& reason) {
    return Error(module.code, fmt::format("cannot load `{}`: {}", path, reason), {}, module.help_unloadable);
  });
  const auto get = reinterpret_cast<const void* (*)()>(library.address(module.function.c_str()));
  const void* api = get ? get() : nullptr;
  if (!api || *static_cast<const int32_t*>(api) != version)
    throw Error(module.code, fmt::format("`{}` belongs to another version of the program", path), {},
                "build it again: ./dev build");
  return api;
}

}  // namespace tessera
