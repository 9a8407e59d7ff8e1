#include "pjrt/install/wheels.h"

namespace tessera::plugins {

std::vector<Wheel> pinned_wheels(pjrt::Platform platform) {
  std::vector<Wheel> out;
#define WHEEL(of, name, version, sha256, bytes, unpacked) \
  if (platform == pjrt::Platform::of) out.push_back({name, version, sha256, bytes, unpacked});
#include "pjrt/install/wheels.def"
#undef WHEEL
  return out;
}

}  // namespace tessera::plugins
