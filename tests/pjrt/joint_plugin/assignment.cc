#include "assignment.h"

#include <map>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

namespace tessera::joint {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;
using protozero::pbf_writer;

constexpr protozero::pbf_tag_type kBuildOptions = 3;                                // CompileOptionsProto
constexpr protozero::pbf_tag_type kReplicas = 4, kPartitions = 5, kAssignment = 9;  // ExecutableBuildOptionsProto

// The last number, or message, of each field; what fixed-width fields hold is left out.
struct Fields {
  std::map<protozero::pbf_tag_type, uint64_t> numbers;
  std::map<protozero::pbf_tag_type, pbf_reader> messages;
};

Fields fields_of(pbf_reader message) {
  Fields fields;
  while (message.next()) {
    const protozero::pbf_tag_type field = message.tag();
    switch (message.wire_type()) {
      case pbf_wire_type::varint: fields.numbers[field] = message.get_uint64(); break;
      case pbf_wire_type::length_delimited: fields.messages[field] = message.get_message(); break;
      default: message.skip();
    }
  }
  return fields;
}

}  // namespace

std::string with_devices(std::string_view options, const std::vector<int64_t>& own) {
  Fields build = fields_of(fields_of({options.data(), options.size()}).messages[kBuildOptions]);
  const uint64_t replicas = build.numbers.contains(kReplicas) ? build.numbers[kReplicas] : 1;
  const bool fits = build.numbers[kPartitions] <= 1 && replicas <= own.size();
  if (build.messages.contains(kAssignment) || !fits) return std::string(options);
  std::string devices, assignment, with, all(options);
  for (uint64_t replica = 0; replica < replicas; ++replica) pbf_writer(devices).add_int64(1, own[replica]);
  pbf_writer(assignment).add_uint64(1, replicas);
  pbf_writer(assignment).add_int64(2, 1);
  pbf_writer(assignment).add_message(3, devices);
  pbf_writer(with).add_message(kAssignment, assignment);
  pbf_writer(all).add_message(kBuildOptions, with);  // a message that comes twice is merged
  return all;
}

}  // namespace tessera::joint
