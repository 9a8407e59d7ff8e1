#pragma once
// Writes the protobuf wire format (https://protobuf.dev/programming-guides/encoding), for the few messages the program makes:
// compile options and TensorBoard events. Linking a protobuf library would clash with the plugins' own.
//
//   ProtoWriter inner, outer;
//   inner.integer(4, num_replicas);
//   outer.bytes(3, inner.data());   // a message is its bytes

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// Appends fields in the order of the calls. Zero values are written like any other.
class ProtoWriter {
 public:
  // int32, int64, uint64, enum. Negative numbers take ten bytes, as the format demands.
  void integer(int field, int64_t value) {
    tag(field, 0);
    varint(static_cast<uint64_t>(value));
  }
  void boolean(int field, bool value) { integer(field, value ? 1 : 0); }
  void real64(int field, double value) {
    tag(field, 1);
    fixed(std::bit_cast<uint64_t>(value), 8);
  }
  // string, bytes, a message, a packed array.
  void bytes(int field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    data_.append(value);
  }
  // A number without a field: the elements of a packed array.
  void packed_integer(int64_t value) { varint(static_cast<uint64_t>(value)); }
  const std::string& data() const { return data_; }

 private:
  void tag(int field, int wire_type) { varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type)); }
  void varint(uint64_t value) {
    for (; value > 127; value >>= 7) data_ += static_cast<char>((value & 127) | 128);
    data_ += static_cast<char>(value);
  }
  void fixed(uint64_t value, int size) {
    for (int i = 0; i < size; ++i) data_ += static_cast<char>(value >> (8 * i) & 255);
  }
  std::string data_;
};

}  // namespace tessera
