#include "pjrt/program/hlo.h"

#include <algorithm>
#include <map>
#include <protozero/pbf_reader.hpp>

#include "base/error.h"
#include "base/text/json.h"

namespace tessera::pjrt {
namespace {

using protozero::pbf_reader;

// Field numbers of xla/service/hlo.proto and xla/xla_data.proto.

struct Primitive {
  const char* name;
  int64_t bytes;
};

// By PrimitiveType.
Primitive primitive(int32_t type) {
  switch (type) {
    case 1: return {"pred", 1};
    case 2: return {"s8", 1};
    case 3: return {"s16", 2};
    case 4: return {"s32", 4};
    case 5: return {"s64", 8};
    case 6: return {"u8", 1};
    case 7: return {"u16", 2};
    case 8: return {"u32", 4};
    case 9: return {"u64", 8};
    case 10: return {"f16", 2};
    case 11: return {"f32", 4};
    case 12: return {"f64", 8};
    case 15: return {"c64", 8};
    case 16: return {"bf16", 2};
    case 18: return {"c128", 16};
    case 19:
    case 20:
    case 23:
    case 24:
    case 25: return {"f8", 1};
    default: return {"", 0};
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

std::vector<int64_t> read_tile(pbf_reader tile) {
  std::vector<int64_t> dims;
  while (tile.next()) {
    if (tile.tag() == 1) {
      read_integers(tile, dims);
    } else {
      tile.skip();
    }
  }
  return dims;
}

void read_layout(pbf_reader layout, HloArray& array) {
  while (layout.next()) {
    switch (layout.tag()) {
      case 1: read_integers(layout, array.minor_to_major); break;
      case 6: array.tiles.push_back(read_tile(layout.get_message())); break;
      case 8: array.memory_space = layout.get_int64(); break;
      default: layout.skip();
    }
  }
}

// The arrays of a shape, and of a tuple the number of arrays in each element.
void read_shape(pbf_reader shape, std::vector<HloArray>& arrays, std::vector<size_t>& elements) {
  constexpr int32_t kTuple = 13;
  HloArray array;
  int32_t type = 0;
  std::vector<HloArray> parts;
  while (shape.next()) {
    switch (shape.tag()) {
      case 2: type = shape.get_enum(); break;
      case 3: read_integers(shape, array.dims); break;
      case 4: {
        const size_t before = parts.size();
        std::vector<size_t> nested;
        read_shape(shape.get_message(), parts, nested);
        elements.push_back(parts.size() - before);
        break;
      }
      case 5: read_layout(shape.get_message(), array); break;
      default: shape.skip();
    }
  }
  if (type == kTuple) {
    arrays.insert(arrays.end(), parts.begin(), parts.end());
    return;
  }
  const Primitive known = primitive(type);
  array.dtype = known.name;
  array.element_bytes = known.bytes;
  arrays.push_back(std::move(array));
}

std::string read_op_name(pbf_reader metadata) {
  std::string name;
  while (metadata.next()) {
    if (metadata.tag() == 2) {
      name = metadata.get_string();
    } else {
      metadata.skip();
    }
  }
  return name;
}

// OutputOperandAliasing and HloInputOutputAliasProto.AliasEntryProto have the same three fields in the same places.
HloAlias read_alias(pbf_reader message) {
  HloAlias out;
  while (message.next()) {
    switch (message.tag()) {
      case 1: read_integers(message, out.output); break;
      case 2: out.operand = message.get_int64(); break;
      case 3: read_integers(message, out.operand_array); break;
      default: message.skip();
    }
  }
  return out;
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

HloInstruction read_instruction(pbf_reader message) {
  HloInstruction out;
  while (message.next()) {
    switch (message.tag()) {
      case 1: out.name = message.get_string(); break;
      case 2: out.opcode = message.get_string(); break;
      case 3: read_shape(message.get_message(), out.arrays, out.elements); break;
      case 7: out.op_name = read_op_name(message.get_message()); break;
      case 9: out.parameter = message.get_int64(); break;
      case 13: out.tuple_index = message.get_int64(); break;
      case 16: read_convolution(message.get_message(), out); break;
      case 28: out.target = message.get_string(); break;
      case 30: read_dot(message.get_message(), out); break;
      case 35: out.id = message.get_int64(); break;
      case 36: read_integers(message, out.operands); break;
      case 38: read_integers(message, out.called); break;
      case 43: {
        const std::string config = message.get_string();
        if (config.find("known_trip_count") != std::string::npos) out.trip_count = read_trip_count(config);
        break;
      }
      case 74: out.aliases.push_back(read_alias(message.get_message())); break;
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

using Schedule = std::map<int64_t, std::vector<int64_t>>;  // the ids of a computation's instructions, as they are run

std::vector<int64_t> read_sequence(pbf_reader message) {
  std::vector<int64_t> ids;
  while (message.next()) {
    if (message.tag() == 1) {
      read_integers(message, ids);
    } else {
      message.skip();
    }
  }
  return ids;
}

Schedule read_schedule(pbf_reader message) {
  Schedule out;
  while (message.next()) {
    if (message.tag() != 1) {
      message.skip();
      continue;
    }
    pbf_reader entry = message.get_message();
    int64_t computation = 0;
    std::vector<int64_t> ids;
    while (entry.next()) {
      switch (entry.tag()) {
        case 1: computation = entry.get_int64(); break;
        case 2: ids = read_sequence(entry.get_message()); break;
        default: entry.skip();
      }
    }
    out[computation] = std::move(ids);
  }
  return out;
}

std::vector<HloAlias> read_aliases(pbf_reader message) {
  std::vector<HloAlias> out;
  while (message.next()) {
    if (message.tag() == 1) {
      out.push_back(read_alias(message.get_message()));
    } else {
      message.skip();
    }
  }
  return out;
}

// The instructions in the order in which they are run; false where the order does not name each of them once.
bool put_in_order(HloComputation& computation, const std::vector<int64_t>& ids) {
  std::map<int64_t, size_t> places;
  for (size_t i = 0; i < ids.size(); ++i) places[ids[i]] = i;
  const auto known = [&](const HloInstruction& i) { return places.contains(i.id); };
  if (places.size() != computation.instructions.size() || !std::ranges::all_of(computation.instructions, known)) return false;
  std::ranges::sort(computation.instructions, {}, [&](const HloInstruction& i) { return places.at(i.id); });
  return true;
}

HloModule read_module(pbf_reader message) {
  HloModule out;
  Schedule schedule;
  while (message.next()) {
    switch (message.tag()) {
      case 3: out.computations.push_back(read_computation(message.get_message())); break;
      case 6: out.entry = message.get_int64(); break;
      case 7: schedule = read_schedule(message.get_message()); break;
      case 8: out.aliases = read_aliases(message.get_message()); break;
      default: message.skip();
    }
  }
  out.scheduled = schedule.contains(out.entry);
  for (HloComputation& computation : out.computations) {
    const auto order = schedule.find(computation.id);
    if (order != schedule.end() && !put_in_order(computation, order->second)) out.scheduled = false;
  }
  return out;
}

}  // namespace

int64_t HloArray::elements() const {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

int64_t HloArray::padded_bytes() const {
  std::vector<int64_t> lying;  // outermost first
  for (auto d = minor_to_major.rbegin(); d != minor_to_major.rend(); ++d) lying.push_back(dims.at(static_cast<size_t>(*d)));
  if (tiles.empty() || minor_to_major.size() != dims.size()) return bytes();
  for (const std::vector<int64_t>& tile : tiles) {
    if (lying.size() < tile.size()) lying.insert(lying.begin(), tile.size() - lying.size(), 1);
    const size_t first = lying.size() - tile.size();
    for (size_t i = 0; i < tile.size(); ++i) {
      if (tile[i] < 1) return bytes();  // a dimension that is folded into the next: no padding that we know of
      lying[first + i] = (lying[first + i] + tile[i] - 1) / tile[i];
    }
    lying.insert(lying.end(), tile.begin(), tile.end());
  }
  int64_t count = element_bytes;
  for (const int64_t dim : lying) count *= dim;
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
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception& error) {
    throw device_error(fmt::format("the plugin's optimized program can't be read: {}", error.what()));
  }
  throw device_error(fmt::format("the plugin gave its optimized program as `{}`, which is not known", format));
}

}  // namespace tessera::pjrt
