#include "pjrt/cache.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <tuple>
#include <vector>

#include "base/system/environment.h"
#include "base/system/seconds_since.h"
#include "pjrt/client.h"
#include "pjrt/plugin/plugin.h"
#include "pjrt/program/collective_order.h"
#include "store/encoding/bytes.h"
#include "store/encoding/digest.h"
#include "store/file.h"
#include "store/local/cache_directory.h"
#include "store/local/private_directory.h"

namespace tessera::pjrt {
namespace {

constexpr char kMagic[8] = {'T', 'S', 'R', 'X', 'E', 'X', 'E', 2};
constexpr size_t kSealedBytes = 32;  // of the header, before the seal
constexpr size_t kHeaderBytes = kSealedBytes + 32;
constexpr std::string_view kSuffix = ".exe";
constexpr const char* kVariables[] = {"XLA_FLAGS", "LIBTPU_INIT_ARGS"};  // that compilers heed
// The largest programs take minutes. One that waited so long compiles itself.
constexpr std::chrono::minutes kTurnPatience{15};

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

std::string entry_name(const Hash128& key) { return to_string(key) + std::string(kSuffix); }

std::string_view as_text(const store::Digest& digest) { return {reinterpret_cast<const char*>(digest.data()), digest.size()}; }

std::string header_for(const Hash128& key, std::string_view payload, const std::string& user_key) {
  std::string header(kMagic, sizeof kMagic);
  put(header, key.high);
  put(header, key.low);
  put(header, static_cast<uint64_t>(payload.size()));
  header += as_text(store::hmac_sha256(store::as_bytes(user_key), {header, payload}));
  return header;
}

// "" when `file` is a whole entry of `key` that was sealed with `user_key`.
std::string fault_in(std::string_view file, const Hash128& key, const std::string& user_key) {
  if (file.size() < kHeaderBytes) return "damaged: shorter than its header";
  if (std::memcmp(file.data(), kMagic, sizeof kMagic) != 0) return "of another format version";
  if (get<uint64_t>(file, 8) != key.high || get<uint64_t>(file, 16) != key.low) return "another program's";
  const std::string_view payload = file.substr(kHeaderBytes);
  if (get<uint64_t>(file, 24) != payload.size()) return "damaged: cut short";
  const store::Digest seal = store::hmac_sha256(store::as_bytes(user_key), {file.substr(0, kSealedBytes), payload});
  const std::string_view found = file.substr(kSealedBytes, seal.size());
  return store::same_digest(seal, store::as_bytes(found)) ? "" : "damaged or not yours: its seal does not fit";
}

// Removes the entries that were not used for longest until all fit into `max_bytes`; `newest` stays.
void make_room(const store::PrivateDirectory& directory, const std::string& newest, int64_t max_bytes) {
  using Entry = store::PrivateDirectory::Entry;
  std::vector<Entry> entries = directory.list();
  // Temporary files that a killed process left count as entries.
  std::erase_if(entries, [](const Entry& entry) { return entry.name.find(kSuffix) == std::string::npos; });
  int64_t total = 0;
  for (const Entry& entry : entries) total += entry.size;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tuple(a.changed.tv_sec, a.changed.tv_nsec, a.name) < std::tuple(b.changed.tv_sec, b.changed.tv_nsec, b.name);
  });
  for (const Entry& entry : entries) {
    if (total <= max_bytes) break;
    if (entry.name != newest && directory.remove(entry.name)) total -= entry.size;
  }
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

void add_program(Hasher& hasher, const Plugin& plugin, std::string_view stablehlo, const CompileOptions& options) {
  hasher.add(stablehlo).add(compile_options_proto(options)).add(plugin.identity());
}

// What to keep of a program. Throws an Error where it can't be kept.
std::string payload_of(const Client& client, const Executable& executable, const CompileOptions& options) {
  std::string serialized = executable.serialize();
  if (client.platform_name() != "cpu" || options.num_partitions * options.num_replicas == 1) return serialized;
  if (auto in_order = with_collectives_in_order(serialized)) return std::move(*in_order);
  throw device_error("the plugin's programs for several devices have an unknown form");
}

// By which processes of a group know a program. Paths and variables of their hosts may differ.
std::string question_of(std::string_view stablehlo, const CompileOptions& options) {
  Hasher hasher;
  hasher.add(stablehlo).add(fmt::format("{}", options.optimization_level.value_or(-1)));
  return "cached " + to_string(hasher.finish());
}

}  // namespace

ExecutableCache::ExecutableCache(std::string directory, int64_t max_bytes)
    : directory_(std::move(directory)), max_bytes_(max_bytes) {}

ExecutableCache ExecutableCache::standard() { return ExecutableCache(store::cache_directory()); }

std::string ExecutableCache::path(const Hash128& key) const { return store::join_path(directory_, entry_name(key)); }

ExecutableCache::Found ExecutableCache::find(const Hash128& key) const {
  if (!enabled()) return {std::nullopt, "the cache is off"};
  const std::string name = entry_name(key);
  try {
    const auto directory = store::PrivateDirectory::find(directory_);
    auto entry = directory ? directory->read(name) : std::nullopt;
    if (!entry) return {std::nullopt, "not in the cache"};
    std::string fault = fault_in(*entry, key, store::user_key());
    if (!fault.empty()) return {std::nullopt, "the cache entry is " + std::move(fault)};
    directory->touch(name);  // only the order of removal hangs on the time
    return {entry->substr(kHeaderBytes), {}};
  } catch (const Error& error) {
    store::tell_cache_unused(error);
    return {std::nullopt, error.message()};
  }
}

std::string ExecutableCache::keep(const Hash128& key, std::string_view payload) const {
  if (!enabled()) return {};
  const std::string name = entry_name(key);
  try {
    const auto directory = store::PrivateDirectory::make(directory_);
    directory.write(name, {header_for(key, payload, store::user_key()), payload});
    make_room(directory, name, max_bytes_);
    return {};
  } catch (const Error& error) {
    store::tell_cache_unused(error);
    return error.message();
  }
}

std::shared_ptr<const void> ExecutableCache::await_turn(const Hash128& key, bool& waited) const {
  waited = false;
  if (!enabled()) return nullptr;
  try {
    return store::PrivateDirectory::make(directory_).lock(to_string(key) + ".lock", kTurnPatience, waited);
  } catch (const Error&) {
    return nullptr;  // keep() says why
  }
}

void ExecutableCache::remove(const Hash128& key) const {
  try {
    const auto directory = enabled() ? store::PrivateDirectory::find(directory_) : std::nullopt;
    if (directory) directory->remove(entry_name(key));
  } catch (const Error&) {
    // It is found damaged again next time.
  }
}

Hash128 cache_key(const Client& client, std::string_view stablehlo, const CompileOptions& options) {
  Hasher hasher;
  add_program(hasher, client.plugin(), stablehlo, options);
  hasher.add(client.platform_name()).add(client.platform_version());
  for (const Device& device : client.devices()) hasher.add(device.kind);
  for (const char* name : kVariables) hasher.add(environment_variable(name));
  if (client.platform_name() == "cpu") hasher.add(processor_description());
  return hasher.finish();
}

Hash128 plan_key(const Plugin& plugin, std::string_view target, std::string_view stablehlo, const CompileOptions& options) {
  Hasher hasher;
  hasher.add("plan").add(target);
  add_program(hasher, plugin, stablehlo, options);
  for (const char* name : kVariables) hasher.add(environment_variable(name));
  return hasher.add(processor_description()).finish();
}

Executable compile_cached(const Client& client, std::string_view stablehlo, const CompileOptions& options,
                          const ExecutableCache& cache, CompileReport* report) {
  CompileReport unread;
  CompileReport& out = report ? *report : unread;
  out = {};
  const auto start = std::chrono::steady_clock::now();
  const Hash128 key = cache_key(client, stablehlo, options);
  const auto load = [&]() -> std::optional<Executable> {
    const ExecutableCache::Found found = cache.find(key);
    out.reason = found.reason;
    if (!found.payload) return std::nullopt;
    try {
      Executable executable = client.deserialize(*found.payload, options);
      out.cached = true;
      out.seconds = seconds_since(start);
      return executable;
    } catch (const Error& error) {
      out.reason = "the plugin refused the cache entry: " + error.message();
      cache.remove(key);
      return std::nullopt;
    }
  };
  const bool together = client.group().several();
  auto loaded = load();
  if (together && !client.all_say(question_of(stablehlo, options), loaded.has_value()) && loaded) {
    loaded.reset();
    out = {.reason = "not in the cache of another process"};
  }
  if (loaded) return std::move(*loaded);
  bool waited = false;
  const auto turn = together ? nullptr : cache.await_turn(key, waited);
  if (waited) {
    if (auto executable = load()) return std::move(*executable);
  }
  Executable executable = client.compile(stablehlo, options);
  out.seconds = seconds_since(start);
  if (cache.enabled()) {
    try {
      out.not_kept = cache.keep(key, payload_of(client, executable, options));
    } catch (const Error& error) {
      out.not_kept = error.message();  // a plugin that can't serialise, or does so in another form
    }
  }
  return executable;
}

}  // namespace tessera::pjrt
