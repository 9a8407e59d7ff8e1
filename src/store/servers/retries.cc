#include "store/servers/retries.h"

#include <fmt/format.h>

#include <random>
#include <thread>

#include "base/error.h"
#include "base/printable.h"
#include "store/servers/object_server.h"
#include "store/servers/retry_pause.h"

namespace tessera::store {
namespace {

// Uniform in [0, 1), another on each host.
double random_share() { return std::random_device()() / 0x1p32; }

}  // namespace

void ask(std::string_view action, const std::string& url, const std::function<void()>& call) {
  constexpr int kTries = 5;
  for (int tries = 1;; ++tries) {
    try {
      return call();
    } catch (const ServerError& error) {
      if (tries == kTries || !error.passes()) {
        throw data_error(fmt::format("cannot {} `{}`: {}", action, one_line(url), one_line(error.what())), {}, error.help());
      }
    }
    std::this_thread::sleep_for(retry_pause(tries, random_share()));
  }
}

}  // namespace tessera::store
