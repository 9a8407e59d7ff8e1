#pragma once
// How a program is compiled: XLA's CompileOptionsProto.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pjrt/program/option_value.h"

namespace tessera::pjrt {

struct CompileOptions {
  int64_t num_replicas = 1;
  int64_t num_partitions = 1;  // above 1 the partitioner splits the program as its shardings say
  bool use_shardy = true;      // shardings are written in the sdy dialect
  // 0 compiles fastest, 2 runs fastest, 3 is experimental (https://openxla.org/xla/effort_levels); the plugin's own where not
  // given, which is 2 for libtpu. The CPU plugin has none.
  std::optional<int64_t> optimization_level;
  // Ids of the devices (Device::id) the program runs on, [num_replicas, num_partitions] row-major; empty: the client's first.
  std::vector<int64_t> device_ids;
  // Arguments whose memory the program may take over: those marked tf.aliasing_output in its text. They are unreadable after a
  // call. An argument that the text marks and this list leaves out is copied by the plugin instead.
  std::vector<int64_t> donated;
  // XLA flags for this program only, without the leading dashes: {"xla_cpu_enable_fast_math", false}.
  Options flags;
};

// The CompileOptionsProto, serialised. Everything but `donated`, which is about calls. Throws InternalError when device_ids has the wrong length.
std::string compile_options_proto(const CompileOptions& options);

}  // namespace tessera::pjrt
