#include "store/local/cache_directory.h"

#include <atomic>
#include <cstdlib>
#include <optional>

#include "base/log.h"
#include "base/system/environment.h"

namespace tessera::store {
namespace {

std::optional<std::string>& chosen() {
  static std::optional<std::string> directory;
  return directory;
}

}  // namespace

std::string cache_directory() {
  if (chosen()) return *chosen();
  if (const char* own = std::getenv("TESSERA_CACHE_DIR")) return own;
  if (const std::string xdg = environment_variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/tessera";
  const std::string home = environment_variable("HOME");
  return home.empty() ? "" : home + "/.cache/tessera";
}

void set_cache_directory(std::string directory) { chosen() = std::move(directory); }

void tell_cache_unused(const Error& why) {
  static std::atomic<bool> told = false;
  if (told.exchange(true)) return;
  log_note(fmt::format("the cache is not used: {}{}{}", why.message(), why.help().empty() ? "" : "; ", why.help()));
}

}  // namespace tessera::store
