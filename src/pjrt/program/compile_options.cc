#include "pjrt/program/compile_options.h"

#include <protozero/pbf_writer.hpp>

#include "base/error.h"

namespace tessera::pjrt {
namespace {

using protozero::pbf_writer;

// Field numbers of xla/xla.proto, xla/xla_data.proto and xla/pjrt/proto/compile_options.proto.

// DeviceAssignmentProto: one ComputationDevice for each partition, listing its device in every replica.
void add_device_assignment(pbf_writer& build, const CompileOptions& options) {
  pbf_writer assignment(build, 9);
  assignment.add_int64(1, options.num_replicas);
  assignment.add_int64(2, options.num_partitions);
  for (int64_t partition = 0; partition < options.num_partitions; ++partition) {
    pbf_writer computation(assignment, 3);
    for (int64_t replica = 0; replica < options.num_replicas; ++replica) {
      computation.add_int64(1, options.device_ids[static_cast<size_t>(replica * options.num_partitions + partition)]);
    }
  }
}

// ExecutionOptions.EffortLevel: EFFORT_O0 is 9, EFFORT_O1 19, and so on; 0 is not known.
int64_t effort(int64_t level) {
  TESSERA_CHECK(level >= 0 && level <= 3, "optimization level {}", level);
  return 10 * level + 9;
}

void add_build_options(pbf_writer& out, const CompileOptions& options) {
  pbf_writer build(out, 3);
  build.add_int64(4, options.num_replicas);
  build.add_int64(5, options.num_partitions);
  build.add_bool(6, options.num_partitions > 1);
  if (!options.device_ids.empty()) add_device_assignment(build, options);
  build.add_bool(19, options.use_shardy);
  if (options.optimization_level) build.add_int64(24, effort(*options.optimization_level));
}

// OptionOverrideProto
void add_flag_value(pbf_writer& entry, const OptionValue& value) {
  TESSERA_CHECK(!std::holds_alternative<std::vector<int64_t>>(value), "a flag is no list");
  pbf_writer out(entry, 2);
  if (const auto* text = std::get_if<std::string>(&value)) out.add_string(1, *text);
  if (const auto* flag = std::get_if<bool>(&value)) out.add_bool(2, *flag);
  if (const auto* integer = std::get_if<int64_t>(&value)) out.add_int64(3, *integer);
  if (const auto* real = std::get_if<double>(&value)) out.add_double(4, *real);
}

}  // namespace

std::string compile_options_proto(const CompileOptions& options) {
  TESSERA_CHECK(options.num_replicas >= 1 && options.num_partitions >= 1, "{} replicas x {} partitions", options.num_replicas,
                options.num_partitions);
  const int64_t devices = options.num_replicas * options.num_partitions;
  TESSERA_CHECK(options.device_ids.empty() || static_cast<int64_t>(options.device_ids.size()) == devices,
                "{} device ids for {} replicas x {} partitions", options.device_ids.size(), options.num_replicas,
                options.num_partitions);
  std::string bytes;
  pbf_writer out(bytes);
  add_build_options(out, options);
  for (const auto& [name, value] : options.flags) {
    pbf_writer entry(out, 7);
    entry.add_string(1, name);
    add_flag_value(entry, value);
  }
  return bytes;
}

}  // namespace tessera::pjrt
