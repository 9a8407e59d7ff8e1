#include "data/limits.h"

#include <fmt/format.h>

#include "config/byte_size.h"

namespace tessera::data {
namespace {

// Far beyond what any machine can use. A number with a few zeros too many is refused before anything is allocated.
constexpr int64_t kMaxPixels = int64_t{1} << 32, kMaxScans = 100'000, kMaxImageBytes = int64_t{1} << 40;
constexpr double kMaxSeconds = 3600;

}  // namespace

image::DecodeLimits read_limits(const config::Section& section, const LimitOptions& options) {
  section.check_range("max_pixels", options.max_pixels, 1, kMaxPixels);
  section.check_range("max_scans", options.max_scans, 1, kMaxScans);
  if (!(options.max_seconds >= 0 && options.max_seconds <= kMaxSeconds)) {
    section.fail("max_seconds", fmt::format("must be 0 to {}, and is {:g}", kMaxSeconds, options.max_seconds));
  }
  const int64_t bytes = config::parse_byte_size(options.max_memory, section.place("max_memory"));
  section.check_range("max_memory", bytes, 1, kMaxImageBytes);
  return {.pixels = options.max_pixels, .bytes = bytes, .scans = options.max_scans, .seconds = options.max_seconds};
}

}  // namespace tessera::data
