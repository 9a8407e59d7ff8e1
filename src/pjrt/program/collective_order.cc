#include "pjrt/program/collective_order.h"

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <vector>

namespace tessera::pjrt {
namespace {

using protozero::pbf_reader;
using protozero::pbf_writer;

// Field numbers. The message of an operation ("thunk") of some kind is a field of ThunkProto.
constexpr protozero::pbf_tag_type kResult = 1;              // ExecutableAndOptionsProto: a CompilationResultProto
constexpr protozero::pbf_tag_type kResultSequence = 6;      // CompilationResultProto
constexpr protozero::pbf_tag_type kThunks = 1, kUsers = 2;  // ThunkSequenceProto
constexpr protozero::pbf_tag_type kUserIndices = 1;         // ResourceUsersProto: indices of thunks, packed
constexpr protozero::pbf_tag_type kKind = 1, kInfo = 2;     // ThunkProto
constexpr protozero::pbf_tag_type kCall = 3, kConditional = 4, kWhile = 10, kCopy = 12, kCollective = 18, kLastKind = 21;
constexpr protozero::pbf_tag_type kInfoName = 1;           // InfoProto
constexpr protozero::pbf_tag_type kBuffers = 2;            // CollectiveThunkProto
constexpr protozero::pbf_tag_type kDestinations = 2;       // OpBuffersProto: a ShapeBufferAllocationSliceProto each
constexpr protozero::pbf_tag_type kShape = 1, kSlice = 2;  // ShapeBufferAllocationSliceProto
constexpr protozero::pbf_tag_type kBody = 2, kTripCount = 3, kCondition = 4;  // WhileThunkProto
constexpr protozero::pbf_tag_type kHasValue = 2;                              // Int64Optional
constexpr protozero::pbf_tag_type kSource = 1, kDestination = 2;              // CopyThunkProto

// Loops in loops. Deeper ones are no program.
constexpr int kMaxDepth = 100;

// Bytes that are not what this file reads.
struct Unknown {};

// An array in the memory of a program: a ShapeBufferAllocationSliceProto.
struct Place {
  std::string shape, slice;
};

struct Thunk {
  std::string bytes;                // a ThunkProto, in order inside
  std::optional<Place> collective;  // what a collective of it writes; none: it has no collective
  bool nested = false;              // its collectives are in a sequence of its own
};

// Visits the fields that are messages or strings: (number, bytes).
template <class Visit>
void for_each(std::string_view message, const Visit& visit) {
  pbf_reader reader(message.data(), message.size());
  while (reader.next()) {
    if (reader.wire_type() == protozero::pbf_wire_type::length_delimited) {
      const protozero::pbf_tag_type field = reader.tag();
      const protozero::data_view view = reader.get_view();
      visit(field, std::string_view(view.data(), view.size()));
    } else {
      reader.skip();
    }
  }
}

std::string_view only(std::string_view message, protozero::pbf_tag_type field) {
  std::string_view found;
  int64_t count = 0;
  for_each(message, [&](protozero::pbf_tag_type number, std::string_view bytes) {
    if (number == field) found = bytes, ++count;
  });
  if (count != 1) throw Unknown{};
  return found;
}

// `message` with what `change(field, bytes)` makes of each field that is a message or a string; nothing leaves a field as it is.
template <class Change>
std::string changed(std::string_view message, const Change& change) {
  std::string out;
  pbf_writer writer(out);
  pbf_reader reader(message.data(), message.size());
  protozero::data_view rest = reader.data();
  while (reader.next()) {
    std::optional<std::string> instead;
    const protozero::pbf_tag_type field = reader.tag();
    if (reader.wire_type() == protozero::pbf_wire_type::length_delimited) {
      const protozero::data_view view = reader.get_view();
      instead = change(field, std::string_view(view.data(), view.size()));
    } else {
      reader.skip();
    }
    const size_t taken = rest.size() - reader.data().size();
    if (instead) {
      writer.add_message(field, *instead);
    } else {
      out.append(rest.data(), taken);
    }
    rest = reader.data();
  }
  return out;
}

std::string message_of(const Place& place) {
  std::string out;
  pbf_writer writer(out);
  writer.add_message(kShape, place.shape);
  writer.add_message(kSlice, place.slice);
  return out;
}

// A loop of no rounds. Its body copies from the one place to the other, so that it waits for whatever uses them before it, and
// whatever uses them after it waits for it.
std::string wait_between(const Place& first, const Place& second) {
  std::string copy, thunk_of_copy, body, trip_count, loop, info, thunk;
  pbf_writer(copy).add_message(kSource, message_of(first));
  pbf_writer(copy).add_message(kDestination, message_of({first.shape, second.slice}));
  pbf_writer(info).add_string(kInfoName, "tessera.order");
  pbf_writer(thunk_of_copy).add_string(kKind, "copy");
  pbf_writer(thunk_of_copy).add_message(kCopy, copy);
  pbf_writer(body).add_message(kThunks, thunk_of_copy);
  pbf_writer(trip_count).add_bool(kHasValue, true);  // its value is 0
  pbf_writer(loop).add_message(kBody, body);
  pbf_writer(loop).add_message(kTripCount, trip_count);
  pbf_writer(loop).add_message(kCondition, second.slice);
  pbf_writer(thunk).add_string(kKind, "while");
  pbf_writer(thunk).add_message(kInfo, info);
  pbf_writer(thunk).add_message(kWhile, loop);
  return thunk;
}

Place destination_of(std::string_view collective) {
  std::optional<Place> place;
  for_each(only(collective, kBuffers), [&](protozero::pbf_tag_type field, std::string_view destination) {
    if (field == kDestinations && !place)
      place = Place{std::string(only(destination, kShape)), std::string(only(destination, kSlice))};
  });
  return place ? *place : throw Unknown{};
}

std::string in_order(std::string_view sequence, std::optional<Place>& collective, int depth);

Thunk thunk_of(std::string_view message, int depth) {
  Thunk thunk;
  thunk.bytes = changed(message, [&](protozero::pbf_tag_type field, std::string_view bytes) -> std::optional<std::string> {
    if (field > kLastKind) throw Unknown{};
    if (field == kCollective) thunk.collective = destination_of(bytes);
    if (field != kCall && field != kConditional && field != kWhile) return std::nullopt;
    thunk.nested = true;
    // Their sequences are the messages of fields 1 and, of a loop, 2.
    return changed(bytes, [&](protozero::pbf_tag_type inner, std::string_view sequence) -> std::optional<std::string> {
      const bool is_sequence = inner == 1 || (field == kWhile && inner == kBody);
      return is_sequence ? std::optional(in_order(sequence, thunk.collective, depth + 1)) : std::nullopt;
    });
  });
  return thunk;
}

// The users of a resource, each at its new place.
std::string moved(std::string_view users, const std::vector<uint64_t>& places) {
  return changed(users, [&](protozero::pbf_tag_type field, std::string_view packed) -> std::optional<std::string> {
    if (field != kUserIndices) return std::nullopt;
    std::string out;
    const char* next = packed.data();
    const char* const end = next + packed.size();
    while (next != end) {
      const uint64_t index = protozero::decode_varint(&next, end);
      if (index >= places.size()) throw Unknown{};
      protozero::add_varint_to_buffer(&out, places[index]);
    }
    return out;
  });
}

// A ThunkSequenceProto in order; `collective` is set to what one of its collectives writes, if it was not set.
std::string in_order(std::string_view sequence, std::optional<Place>& collective, int depth) {
  if (depth > kMaxDepth) throw Unknown{};
  std::string thunks;
  std::vector<uint64_t> places;  // of the thunks
  uint64_t count = 0;
  std::optional<Thunk> last;  // the last one with a collective
  std::vector<std::string_view> users;
  const auto add = [&](std::string_view message) {
    pbf_writer(thunks).add_message(kThunks, message.data(), message.size());
    ++count;
  };
  for_each(sequence, [&](protozero::pbf_tag_type field, std::string_view message) {
    if (field == kUsers) return users.push_back(message);
    if (field != kThunks) throw Unknown{};
    Thunk thunk = thunk_of(message, depth);
    if (thunk.collective && last && (thunk.nested || last->nested)) add(wait_between(*last->collective, *thunk.collective));
    places.push_back(count);
    add(thunk.bytes);
    if (thunk.collective) last = std::move(thunk);
  });
  for (const std::string_view of_resource : users) pbf_writer(thunks).add_message(kUsers, moved(of_resource, places));
  if (last && !collective) collective = last->collective;
  return thunks;
}

}  // namespace

std::optional<std::string> with_collectives_in_order(std::string_view serialized) {
  try {
    int64_t sequences = 0;
    std::optional<Place> unread;
    std::string out = changed(serialized, [&](protozero::pbf_tag_type field, std::string_view result) {
      if (field != kResult) return std::optional<std::string>();
      return std::optional(changed(result, [&](protozero::pbf_tag_type inner, std::string_view sequence) {
        if (inner != kResultSequence) return std::optional<std::string>();
        ++sequences;
        return std::optional(in_order(sequence, unread, 0));
      }));
    });
    return sequences == 1 ? std::optional(std::move(out)) : std::nullopt;
  } catch (const protozero::exception&) {
    return std::nullopt;
  } catch (const Unknown&) {
    return std::nullopt;
  }
}

}  // namespace tessera::pjrt
