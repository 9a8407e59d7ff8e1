#include "launch/host_files.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/parallel.h"
#include "base/text.h"
#include "group/exchange.h"
#include "store/checksums.h"

namespace tessera::launch {
namespace {

namespace fs = std::filesystem;

// The C library and the loader go together, and every host has its own. So has it the C++ library, whose build depends on the C
// library's age more than what we link does.
bool is_of_the_system(const std::string& name) {
  for (const std::string_view start :
       {"ld-linux", "linux-vdso", "libc.so", "libm.so", "libmvec.so", "libdl.so", "libpthread.so", "librt.so", "libresolv.so",
        "libutil.so", "libnss_", "libstdc++.so", "libgcc_s.so"}) {
    if (name.starts_with(start)) return true;
  }
  return false;
}

// Those that are loaded now, the module's with it.
std::vector<std::string> loaded_libraries() {
  std::vector<std::string> paths;
  const auto add = [](dl_phdr_info* info, size_t, void* out) {
    if (info->dlpi_name && *info->dlpi_name == '/') static_cast<std::vector<std::string>*>(out)->emplace_back(info->dlpi_name);
    return 0;
  };
  ::dl_iterate_phdr(add, &paths);
  return paths;
}

std::string program_in_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path ? path : "", ':')) {
    std::string file = fmt::format("{}/{}", folder, name);
    if (!folder.empty() && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

}  // namespace

std::vector<CopiedFile> files_of_a_host(const std::string& plugin, const std::string& recipe) {
  const fs::path program = fs::read_symlink("/proc/self/exe"), module = program.parent_path() / "tessera_gloo.so";
  std::vector<CopiedFile> files = {{"bin/tessera", program}};
  const bool has_module = fs::exists(module) && ::dlopen(module.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr;
  if (has_module) files.push_back({"bin/tessera_gloo.so", module});
  if (!plugin.empty()) files.push_back({"bin/" + fs::path(plugin).filename().string(), plugin});
  if (const std::string etcd = program_in_path("etcd"); !etcd.empty()) files.push_back({"bin/etcd", etcd});
  std::vector<std::string> libraries = loaded_libraries();
  std::ranges::sort(libraries);
  for (const std::string& path : libraries) {
    const std::string name = fs::path(path).filename();
    if (!is_of_the_system(name) && path != module && path != plugin) files.push_back({"lib/" + name, path});
  }
  files.push_back({"recipe/" + fs::path(recipe).filename().string(), recipe});
  return files;
}

std::vector<HashedFile> hashed(const std::vector<CopiedFile>& files) {
  std::vector<HashedFile> out(files.size());
  const auto count = static_cast<int64_t>(files.size());
  parallel_for(count, thread_count(0, count), [&](int64_t index, int) {
    const CopiedFile& file = files[static_cast<size_t>(index)];
    out[static_cast<size_t>(index)] = {file, store::to_hex(store::sha256_of(store::local_files(), file.from)),
                                       static_cast<int64_t>(fs::file_size(file.from))};
  });
  return out;
}

std::string digest_of(const std::vector<HashedFile>& files) {
  store::Sha256 sum;
  for (const HashedFile& file : files) {
    const std::string line = file.sha256 + "  " + file.file.name + "\n";
    sum.add(std::as_bytes(std::span(line)));
  }
  return store::to_hex(sum.finish());
}

}  // namespace tessera::launch
