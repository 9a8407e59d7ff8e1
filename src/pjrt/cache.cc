#include "pjrt/cache.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "pjrt/client.h"
#include "pjrt/plugin.h"
#include "store/bytes.h"
#include "store/cache_directory.h"
#include "store/crc32c.h"
#include "store/file.h"

namespace tessera::pjrt {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'T', 'S', 'R', 'X', 'E', 'X', 'E', 1};
constexpr size_t kHeaderBytes = 40;
constexpr std::string_view kSuffix = ".exe";

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T get(std::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string header_for(const Hash128& key, std::string_view payload) {
  std::string header(kMagic, sizeof kMagic);
  put(header, key.high);
  put(header, key.low);
  put(header, static_cast<uint64_t>(payload.size()));
  put(header, store::crc32c(store::as_bytes(payload)));
  put(header, store::crc32c(store::as_bytes(header)));
  return header;
}

// "" when `file` is a whole entry of `key`.
std::string fault_in(std::string_view file, const Hash128& key) {
  if (file.size() < kHeaderBytes) return "damaged: shorter than its header";
  if (std::memcmp(file.data(), kMagic, sizeof kMagic) != 0) return "of another format version";
  if (get<uint32_t>(file, 36) != store::crc32c(store::as_bytes(file.substr(0, 36)))) return "damaged: header checksum";
  if (get<uint64_t>(file, 8) != key.high || get<uint64_t>(file, 16) != key.low) return "another program's";
  const std::string_view payload = file.substr(kHeaderBytes);
  if (get<uint64_t>(file, 24) != payload.size()) return "damaged: cut short";
  if (get<uint32_t>(file, 32) != store::crc32c(store::as_bytes(payload))) return "damaged: payload checksum";
  return {};
}

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The lines of the first processor that say which instructions it has.
std::string processor_description() {
  std::ifstream file("/proc/cpuinfo");
  std::string description, line;
  while (std::getline(file, line) && !line.empty()) {
    for (const char* wanted : {"vendor_id", "cpu family", "model", "flags", "Features", "CPU "}) {
      if (line.starts_with(wanted)) {
        description += line + "\n";
        break;
      }
    }
  }
  cpu_set_t cores;
  // The compiler splits loops over as many tasks as there are cores.
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) description += fmt::format("cores {}", CPU_COUNT(&cores));
  return description;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Why a program is compiled at every start, or "". A program that the CPU plugin compiled runs all its collectives in one order
// on every device; one that it loaded knows an order only within each loop body, so that a device may wait inside a loop for a
// second one that waits outside it for the first. XLA ends the process then.
std::string why_never_kept(const Client& client, std::string_view stablehlo, const CompileOptions& options) {
  const bool loses_order = client.platform_name() == "cpu" && options.num_partitions * options.num_replicas > 1 &&
                           stablehlo.find("stablehlo.while") != std::string_view::npos;
  return loses_order ? "loops over several CPU devices are not cached" : "";
}

}  // namespace

ExecutableCache::ExecutableCache(std::string directory, int64_t max_bytes, store::FileSystem* files)
    : directory_(std::move(directory)), max_bytes_(max_bytes), files_(files ? files : &store::local_files()) {}

ExecutableCache ExecutableCache::standard() { return ExecutableCache(store::cache_directory()); }

std::string ExecutableCache::path(const Hash128& key) const {
  return store::join_path(directory_, to_string(key) + std::string(kSuffix));
}

ExecutableCache::Found ExecutableCache::find(const Hash128& key) const {
  if (!enabled()) return {std::nullopt, "the cache is off"};
  const std::string file = path(key);
  try {
    if (!files_->info(file)) return {std::nullopt, "not in the cache"};
    const store::Bytes bytes = files_->map(file);
    const std::string_view text = store::as_text(bytes.data);
    std::string fault = fault_in(text, key);
    if (!fault.empty()) return {std::nullopt, "the cache entry is " + std::move(fault)};
    std::error_code unimportant;  // only the order of removal hangs on the time
    fs::last_write_time(file, fs::file_time_type::clock::now(), unimportant);
    return {std::string(text.substr(kHeaderBytes)), {}};
  } catch (const store::IoError& error) {
    return {std::nullopt, error.message()};
  }
}

std::string ExecutableCache::keep(const Hash128& key, std::string_view payload) const {
  if (!enabled()) return {};
  const std::string file = path(key);
  try {
    files_->make_directories(directory_);
    store::write_atomic(*files_, file, header_for(key, payload) + std::string(payload));
    make_room(file);
    return {};
  } catch (const Error& error) {
    return error.message();
  }
}

void ExecutableCache::remove(const Hash128& key) const {
  std::error_code unimportant;
  if (enabled()) fs::remove(path(key), unimportant);
}

void ExecutableCache::make_room(const std::string& newest) const {
  struct Entry {
    fs::file_time_type used;
    std::string path;
    int64_t size;
  };
  std::vector<Entry> entries;
  int64_t total = 0;
  std::error_code unimportant;  // another process may remove files meanwhile
  for (const auto& item : fs::directory_iterator(directory_, unimportant)) {
    // Temporary files that a killed process left count as entries.
    if (item.path().filename().string().find(kSuffix) == std::string::npos) continue;
    std::error_code gone;
    const auto size = static_cast<int64_t>(item.file_size(gone));
    const fs::file_time_type used = item.last_write_time(gone);
    if (gone) continue;
    total += size;
    if (item.path() != newest) entries.push_back({used, item.path().string(), size});
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used != b.used ? a.used < b.used : a.path < b.path; });
  for (const Entry& entry : entries) {
    if (total <= max_bytes_) break;
    if (fs::remove(entry.path, unimportant)) total -= entry.size;
  }
}

Hash128 cache_key(const Client& client, std::string_view stablehlo, const CompileOptions& options) {
  Hasher hasher;
  hasher.add(stablehlo).add(compile_options_proto(options)).add(client.plugin().identity());
  hasher.add(client.platform_name()).add(client.platform_version());
  for (const Device& device : client.devices()) hasher.add(device.kind);
  for (const char* name : {"XLA_FLAGS", "LIBTPU_INIT_ARGS"}) hasher.add(environment_variable(name));
  if (client.platform_name() == "cpu") hasher.add(processor_description());
  return hasher.finish();
}

Executable compile_cached(const Client& client, std::string_view stablehlo, const CompileOptions& options,
                          const ExecutableCache& cache, CompileReport* report) {
  CompileReport unread;
  CompileReport& out = report ? *report : unread;
  out = {};
  if (std::string reason = why_never_kept(client, stablehlo, options); cache.enabled() && !reason.empty()) {
    Executable executable = compile_cached(client, stablehlo, options, ExecutableCache(""), &out);
    out.reason = std::move(reason);
    return executable;
  }
  const auto start = std::chrono::steady_clock::now();
  const Hash128 key = cache_key(client, stablehlo, options);
  const ExecutableCache::Found found = cache.find(key);
  out.reason = found.reason;
  if (found.payload) {
    try {
      Executable executable = client.deserialize(*found.payload, options);
      out.cached = true;
      out.seconds = seconds_since(start);
      return executable;
    } catch (const Error& error) {
      out.reason = "the plugin refused the cache entry: " + error.message();
      cache.remove(key);
    }
  }
  Executable executable = client.compile(stablehlo, options);
  out.seconds = seconds_since(start);
  if (cache.enabled()) {
    try {
      out.not_kept = cache.keep(key, executable.serialize());
    } catch (const Error& error) {
      out.not_kept = error.message();  // a plugin that can't serialise
    }
  }
  return executable;
}

}  // namespace tessera::pjrt
