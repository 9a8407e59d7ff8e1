#pragma once
// data.limits of a recipe.

#include <cstdint>
#include <string>

#include "config/section.h"
#include "image/codec/decode.h"

namespace tessera::data {

// What decoding one image may cost (image::DecodeLimits).
struct LimitOptions {
  int64_t max_pixels = image::DecodeLimits().pixels;
  int64_t max_scans = image::DecodeLimits().scans;
  std::string max_memory = "512 MiB";
  double max_seconds = image::DecodeLimits().seconds;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("max_pixels", max_pixels, "of an image; one with more is unreadable");
    field("max_scans", max_scans, "of a progressive JPEG; one with more is unreadable");
    field("max_memory", max_memory, "that decoding one image may take; one that needs more is unreadable");
    field("max_seconds", max_seconds,
          "of processor time for one image, 0 for no limit; not of WebP and usual JPEGs, whose time follows from their pixels "
          "and bytes; files that come close to it may be read on one machine and not on another");
  }
};

// Throws a usage Error where a limit is out of its range; `section` is that of the limits.
image::DecodeLimits read_limits(const config::Section& section, const LimitOptions& options);

}  // namespace tessera::data
