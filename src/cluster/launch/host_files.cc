#include "cluster/launch/host_files.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text/text.h"
#include "cluster/group/exchange.h"
#include "store/checksums.h"
#include "store/file.h"
#include "store/servers/buckets.h"
#include "store/small_file.h"
#include "store/url.h"

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

// The words of a run: those of its command and the recipe's.
std::string words_of(const Request& request) {
  std::string words = join(request.command, " ");
  try {
    words += store::read_small_file(store::files_at(request.recipe), request.recipe);
  } catch (const Error&) {
    // Reading the recipe says so.
  }
  return words;
}

// What is loaded when it is used, of what this run may use.
std::vector<std::string> modules_of(const Request& request) {
  const std::string words = words_of(request);
  const auto say = [&](std::string_view word) { return words.find(word) != std::string::npos; };
  std::vector<std::string> modules = {"tessera_gloo.so"};
  if (say("s3://") || say("gs://") || say("az://")) modules.emplace_back("tessera_buckets.so");
  if (say("parquet")) modules.emplace_back("tessera_parquet.so");
  return modules;
}

}  // namespace

std::vector<CopiedFile> files_of_a_host(const Request& request) {
  const fs::path program = fs::read_symlink("/proc/self/exe");
  std::vector<CopiedFile> files = {{"bin/tessera", program}};
  for (const std::string& name : modules_of(request)) {
    const fs::path module = program.parent_path() / name;
    // Loaded, so that its libraries are among those below.
    const bool usable = fs::exists(module) && ::dlopen(module.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr;
    if (usable) files.push_back({"bin/" + name, module});
  }
  const size_t known = files.size();
  const std::string& plugin = request.plugin;
  if (!plugin.empty()) files.push_back({"bin/" + fs::path(plugin).filename().string(), plugin});
  if (const std::string etcd = program_in_path("etcd"); !etcd.empty()) files.push_back({"bin/etcd", etcd});
  std::vector<std::string> libraries = loaded_libraries();
  std::ranges::sort(libraries);
  for (const std::string& path : libraries) {
    const std::string name = fs::path(path).filename();
    const bool module = std::ranges::find(files.begin(), files.begin() + static_cast<ptrdiff_t>(known), path,
                                          &CopiedFile::from) != files.begin() + static_cast<ptrdiff_t>(known);
    if (!is_of_the_system(name) && !module && path != plugin) files.push_back({"lib/" + name, path});
  }
  if (!store::is_remote(request.recipe)) files.push_back({recipe_on_host(request.recipe, "").substr(1), request.recipe});
  return files;
}

std::string recipe_on_host(const std::string& recipe, const std::string& directory) {
  return store::is_remote(recipe) ? recipe : directory + "/recipe/" + fs::path(recipe).filename().string();
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
