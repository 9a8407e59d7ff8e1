#include "pjrt/program/compile_options.h"

#include "base/error.h"
#include "base/text/protobuf_wire.h"

namespace tessera::pjrt {
namespace {

// Field numbers of xla/xla.proto, xla/xla_data.proto and xla/pjrt/proto/compile_options.proto.

// DeviceAssignmentProto: one ComputationDevice for each partition, listing its device in every replica.
std::string device_assignment(const CompileOptions& options) {
  ProtoWriter out;
  out.integer(1, options.num_replicas);
  out.integer(2, options.num_partitions);
  for (int64_t partition = 0; partition < options.num_partitions; ++partition) {
    ProtoWriter computation;
    for (int64_t replica = 0; replica < options.num_replicas; ++replica) {
      computation.integer(1, options.device_ids[static_cast<size_t>(replica * options.num_partitions + partition)]);
    }
    out.bytes(3, computation.data());
  }
  return out.data();
}

// ExecutionOptions.EffortLevel: EFFORT_O0 is 9, EFFORT_O1 19, and so on; 0 is not known.
int64_t effort(int64_t level) {
  TESSERA_CHECK(level >= 0 && level <= 3, "optimization level {}", level);
  return 10 * level + 9;
}

std::string build_options(const CompileOptions& options) {
  ProtoWriter out;
  out.integer(4, options.num_replicas);
  out.integer(5, options.num_partitions);
  out.boolean(6, options.num_partitions > 1);
  if (!options.device_ids.empty()) out.bytes(9, device_assignment(options));
  out.boolean(19, options.use_shardy);
  if (options.optimization_level) out.integer(24, effort(*options.optimization_level));
  return out.data();
}

// OptionOverrideProto
std::string flag_value(const OptionValue& value) {
  ProtoWriter out;
  TESSERA_CHECK(!std::holds_alternative<std::vector<int64_t>>(value), "a flag is no list");
  if (const auto* text = std::get_if<std::string>(&value)) out.bytes(1, *text);
  if (const auto* flag = std::get_if<bool>(&value)) out.boolean(2, *flag);
  if (const auto* integer = std::get_if<int64_t>(&value)) out.integer(3, *integer);
  if (const auto* real = std::get_if<double>(&value)) out.real64(4, *real);
  return out.data();
}

}  // namespace

std::string compile_options_proto(const CompileOptions& options) {
  TESSERA_CHECK(options.num_replicas >= 1 && options.num_partitions >= 1, "{} replicas x {} partitions", options.num_replicas,
                options.num_partitions);
  const int64_t devices = options.num_replicas * options.num_partitions;
  TESSERA_CHECK(options.device_ids.empty() || static_cast<int64_t>(options.device_ids.size()) == devices,
                "{} device ids for {} replicas x {} partitions", options.device_ids.size(), options.num_replicas,
                options.num_partitions);
  ProtoWriter out;
  out.bytes(3, build_options(options));
  for (const auto& [name, value] : options.flags) {
    ProtoWriter entry;
    entry.bytes(1, name);
    entry.bytes(2, flag_value(value));
    out.bytes(7, entry.data());
  }
  return out.data();
}

}  // namespace tessera::pjrt
