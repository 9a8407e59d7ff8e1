#include "pjrt/hlo.h"

#include <protozero/pbf_reader.hpp>

#include "base/error.h"
#include "base/json.h"

namespace tessera::pjrt {
namespace {

using protozero::pbf_reader;

// Field numbers of xla/service/hlo.proto and xla/xla_data.proto.

// PrimitiveType -> bytes of an element.
int64_t bytes_of_primitive(int32_t type) {
  switch (type) {
    case 1:  // PRED
    case 2:
    case 6:  // S8, U8
    case 19:
    case 20:
    case 23:
    case 24:
    case 25: return 1;  // the f8 types
    case 3:
    case 7:  // S16, U16
    case 10:
    case 16: return 2;  // F16, BF16
    case 4:
    case 8:
    case 11: return 4;  // S32, U32, F32
    case 5:
    case 9:
    case 12:
    case 15: return 8;   // S64, U64, F64, C64
    case 18: return 16;  // C128
    default: return 0;
  }
}

template <class Range>
void append(std::vector<int64_t>& out, const Range& range) {
  for (const int64_t value : range) out.push_back(value);
}

// A repeated integer is packed or not, as the writer liked.
void read_integers(pbf_reader& message, std::vector<int64_t>& out) {
  if (message.wire_type() == protozero::pbf_wire_type::length_delimited) {
    append(out, message.get_packed_int64());
  } else {
    out.push_back(message.get_int64());
  }
}

void read_shape(pbf_reader shape, std::vector<HloArray>& arrays) {
  constexpr int32_t kTuple = 13;
  HloArray array;
  int32_t type = 0;
  std::vector<HloArray> parts;
  while (shape.next()) {
    switch (shape.tag()) {
      case 2: type = shape.get_enum(); break;
      case 3: read_integers(shape, array.dims); break;
      case 4: read_shape(shape.get_message(), parts); break;
      default: shape.skip();
    }
  }
  if (type == kTuple) {
    arrays.insert(arrays.end(), parts.begin(), parts.end());
  } else {
    array.element_bytes = bytes_of_primitive(type);
    arrays.push_back(std::move(array));
  }
}

void read_dot(pbf_reader dims, HloInstruction& out) {
  while (dims.next()) {
    if (dims.tag() == 1) {
      read_integers(dims, out.lhs_contract);
    } else {
      dims.skip();
    }
  }
}

void read_convolution(pbf_reader dims, HloInstruction& out) {
  while (dims.next()) {
    if (dims.tag() == 4) {
      out.kernel_output_feature = dims.get_int64();
    } else {
      dims.skip();
    }
  }
}

std::optional<int64_t> read_trip_count(const std::string& backend_config) {
  const auto json = read_json(backend_config).value;
  if (!json.is_object() || !json.contains("known_trip_count")) return std::nullopt;
  return std::stoll(json["known_trip_count"].at("n").get<std::string>());
}

// OpMetadata.op_name: the location of the op in the program's text.
std::string read_scope(pbf_reader metadata) {
  std::string out;
  while (metadata.next()) {
    if (metadata.tag() == 2) {
      out = metadata.get_string();
    } else {
      metadata.skip();
    }
  }
  return out;
}

HloInstruction read_instruction(pbf_reader message) {
  HloInstruction out;
  while (message.next()) {
    switch (message.tag()) {
      case 1: out.name = message.get_string(); break;
      case 2: out.opcode = message.get_string(); break;
      case 3: read_shape(message.get_message(), out.arrays); break;
      case 7: out.scope = read_scope(message.get_message()); break;
      case 9: out.parameter = message.get_int64(); break;
      case 13: out.tuple_index = message.get_int64(); break;
      case 16: read_convolution(message.get_message(), out); break;
      case 30: read_dot(message.get_message(), out); break;
      case 35: out.id = message.get_int64(); break;
      case 36: read_integers(message, out.operands); break;
      case 38: read_integers(message, out.called); break;
      case 43: {
        const std::string config = message.get_string();
        if (config.find("known_trip_count") != std::string::npos) out.trip_count = read_trip_count(config);
        break;
      }
      default: message.skip();
    }
  }
  return out;
}

HloComputation read_computation(pbf_reader message) {
  HloComputation out;
  while (message.next()) {
    switch (message.tag()) {
      case 2: out.instructions.push_back(read_instruction(message.get_message())); break;
      case 5: out.id = message.get_int64(); break;
      case 6: out.root = message.get_int64(); break;
      default: message.skip();
    }
  }
  return out;
}

HloModule read_module(pbf_reader message) {
  HloModule out;
  while (message.next()) {
    switch (message.tag()) {
      case 3: out.computations.push_back(read_computation(message.get_message())); break;
      case 6: out.entry = message.get_int64(); break;
      default: message.skip();
    }
  }
  return out;
}

}  // namespace

int64_t HloArray::elements() const {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

int64_t HloInstruction::bytes() const {
  int64_t total = 0;
  for (const HloArray& array : arrays) total += array.bytes();
  return total;
}

HloModule parse_hlo(std::string_view bytes, std::string_view format) {
  try {
    pbf_reader message(bytes.data(), bytes.size());
    if (format == "hlo") return read_module(message);
    while (message.next()) {
      if (message.tag() == 1) return read_module(message.get_message());
      message.skip();
    }
  } catch (const std::exception& error) {
    throw device_error(fmt::format("the plugin's optimized program can't be read: {}", error.what()));
  }
  throw device_error(fmt::format("the plugin gave its optimized program as `{}`, which is not known", format));
}

}  // namespace tessera::pjrt
