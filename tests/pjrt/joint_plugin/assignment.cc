#include "assignment.h"

#include <map>

#include "base/text/protobuf_wire.h"
#include "inner.h"

namespace tessera::joint {
namespace {

// The last number, or message, of each field; what fixed-width fields hold is left out.
struct Fields {
  std::map<uint64_t, uint64_t> numbers;
  std::map<uint64_t, std::string_view> messages;
};

uint64_t take_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (bytes.empty()) break;
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return value;
  }
  throw Failure(PJRT_Error_Code_INVALID_ARGUMENT, "compile options that end in a number");
}

std::string_view take(std::string_view& bytes, uint64_t size) {
  if (size > bytes.size()) throw Failure(PJRT_Error_Code_INVALID_ARGUMENT, "compile options that are cut short");
  const std::string_view taken = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return taken;
}

Fields fields_of(std::string_view bytes) {
  Fields fields;
  while (!bytes.empty()) {
    const uint64_t tag = take_varint(bytes);
    switch (tag & 7) {
      case 0: fields.numbers[tag >> 3] = take_varint(bytes); break;
      case 1: take(bytes, 8); break;
      case 2: fields.messages[tag >> 3] = take(bytes, take_varint(bytes)); break;
      case 5: take(bytes, 4); break;
      default: throw Failure(PJRT_Error_Code_INVALID_ARGUMENT, "compile options with a field of an unknown kind");
    }
  }
  return fields;
}

}  // namespace

std::string with_devices(std::string_view options, const std::vector<int64_t>& own) {
  constexpr int kBuildOptions = 3, kReplicas = 4, kPartitions = 5, kAssignment = 9;
  Fields build = fields_of(fields_of(options).messages[kBuildOptions]);
  const uint64_t replicas = build.numbers.contains(kReplicas) ? build.numbers[kReplicas] : 1;
  const bool fits = build.numbers[kPartitions] <= 1 && replicas <= own.size();
  if (build.messages.contains(kAssignment) || !fits) return std::string(options);
  ProtoWriter devices, assignment, with, all;
  for (uint64_t replica = 0; replica < replicas; ++replica) devices.integer(1, own[replica]);
  assignment.integer(1, static_cast<int64_t>(replicas));
  assignment.integer(2, 1);
  assignment.bytes(3, devices.data());
  with.bytes(kAssignment, assignment.data());
  all.bytes(kBuildOptions, with.data());
  return std::string(options) + all.data();  // a message that comes twice is merged
}

}  // namespace tessera::joint
