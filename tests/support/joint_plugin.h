#pragma once
// What the environment of a process has to say so that it can load the plugin of several processes (tests/pjrt/joint_plugin), as
// `--platform cuda --plugin <joint_plugin_path()>`.

#include <map>
#include <string>

#include "support/paths.h"

namespace tessera::testing {

// `directory` exists and is the same for all processes of a run; each has `devices` devices.
inline std::map<std::string, std::string> joint_plugin_environment(const std::string& directory, int devices = 1) {
  return {{"TESSERA_JOINT_INNER", cpu_plugin_path()},
          {"TESSERA_JOINT_DIRECTORY", directory},
          {"TESSERA_JOINT_DEVICES", std::to_string(devices)},
          {"TESSERA_JOINT_CACHE", cache_path()},
          {"XLA_FLAGS",
           "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1 --xla_backend_optimization_level=0"}};
}

}  // namespace tessera::testing
