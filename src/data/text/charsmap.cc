#include "data/text/charsmap.h"

#include <cstdint>
#include <cstring>
#include <protozero/pbf_reader.hpp>
#include <vector>

namespace tessera::data {
namespace {

using protozero::pbf_reader;

// A unit of the trie's array, as Darts-clone has it.
class Unit {
 public:
  explicit Unit(uint32_t bits) : bits_(bits) {}
  bool has_leaf() const { return (bits_ >> 8 & 1) == 1; }
  uint32_t value() const { return bits_ & 0x7fffffff; }
  uint32_t label() const { return bits_ & 0x800000ff; }
  uint32_t offset() const { return (bits_ >> 10) << ((bits_ & 1u << 9) >> 6); }

 private:
  uint32_t bits_;
};

std::string_view view_field(pbf_reader& message) {
  const protozero::data_view data = message.get_view();
  return {data.data(), data.size()};
}

// Goes through all that can be reached from the root.
bool trie_is_sound(std::string_view trie, size_t texts) {
  const size_t count = trie.size() / sizeof(uint32_t);
  const auto unit = [&](size_t place) {
    uint32_t bits;
    std::memcpy(&bits, trie.data() + place * sizeof bits, sizeof bits);
    return Unit(bits);
  };
  if (count == 0) return false;
  std::vector<bool> seen(count);
  std::vector<size_t> open = {0};
  seen[0] = true;
  while (!open.empty()) {
    const size_t place = open.back();
    open.pop_back();
    const Unit here = unit(place);
    const size_t base = place ^ here.offset();
    // The next byte of a text is put into the lowest eight bits.
    if ((base | 0xff) >= count) return false;
    if (here.has_leaf() && unit(base).value() >= texts) return false;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const size_t next = base ^ byte;
      if (unit(next).label() != byte || seen[next]) continue;
      seen[next] = true;
      open.push_back(next);
    }
  }
  return true;
}

// The size of the trie, the trie, and texts that end with a zero byte each.
bool charsmap_is_sound(std::string_view map) {
  if (map.empty()) return true;
  uint32_t size = 0;
  if (map.size() <= sizeof size) return false;
  std::memcpy(&size, map.data(), sizeof size);
  map.remove_prefix(sizeof size);
  if (size >= map.size() || map.back() != '\0') return false;
  return trie_is_sound(map.substr(0, size), map.size() - size);
}

}  // namespace

bool charsmaps_are_sound(std::string_view model) {
  constexpr uint32_t kNormalizer = 3, kDenormalizer = 5, kCharsmap = 2;  // fields of ModelProto and of NormalizerSpec
  try {
    pbf_reader proto(model.data(), model.size());
    while (proto.next()) {
      const bool spec = proto.tag() == kNormalizer || proto.tag() == kDenormalizer;
      if (!spec || proto.wire_type() != protozero::pbf_wire_type::length_delimited) {
        proto.skip();
        continue;
      }
      pbf_reader normalizer = proto.get_message();
      while (normalizer.next()) {
        if (normalizer.tag() != kCharsmap || normalizer.wire_type() != protozero::pbf_wire_type::length_delimited) {
          normalizer.skip();
        } else if (!charsmap_is_sound(view_field(normalizer))) {
          return false;
        }
      }
    }
    return true;
  } catch (const protozero::exception&) {
    return false;
  }
}

}  // namespace tessera::data
