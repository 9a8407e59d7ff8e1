#pragma once
// `tessera plugin install`: a platform's plugin out of pinned wheels, without Python.
//
// DIR/tpu holds what the wheels hold, side by side as in site-packages, and installed.json, which lists them. It is there whole or not
// at all: it is unpacked as DIR/tpu.partial. Wheels are fetched into DIR/downloads, gone on with after an interruption, and removed
// at the end.

#include <optional>
#include <string>
#include <vector>

#include "pjrt/install/wheels.h"

namespace tessera::plugins {

struct InstallOptions {
  std::string to;      // DIR; empty: pjrt::installed_plugins()
  std::string wheels;  // a folder with the wheels, in the place of an index; empty: none
};

struct Installed {
  std::string directory;  // DIR/tpu
  std::vector<Wheel> wheels;
  bool there = false;  // it was, with the same wheels
};

// Throws http::NotReached where an index cannot be reached, and a data Error for what else fails: a wheel that is not to be had, one
// that is damaged or holds what is no part of a wheel, and a full disk.
Installed install_plugin(pjrt::Platform platform, const std::vector<Wheel>& wheels, const InstallOptions& options);

// What DIR/<platform> holds, as its installed.json says; nothing where there is none.
std::optional<Installed> installed_plugin(pjrt::Platform platform, const std::string& to = {});

}  // namespace tessera::plugins
