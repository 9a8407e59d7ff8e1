#include "data/formats/example.h"

#include <algorithm>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <utility>

#include "data/formats/bytes/varint.h"

namespace tessera::data {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;
using protozero::pbf_writer;
using protozero::tag_and_type;

// Length-delimited fields by number; a field of another wire type is passed over, as protobuf does.
constexpr uint32_t kMessage1 = tag_and_type(1, pbf_wire_type::length_delimited);
constexpr uint32_t kMessage2 = tag_and_type(2, pbf_wire_type::length_delimited);
constexpr uint32_t kMessage3 = tag_and_type(3, pbf_wire_type::length_delimited);

// Of a label in read_example_entries().
constexpr int64_t kMaxEntryBytes = 1 << 20;

struct TooMany final : protozero::exception {
  const char* what() const noexcept override { return "more than kMaxExampleParts"; }
};

std::string_view view(const protozero::data_view& data) { return {data.data(), data.size()}; }

void read_bytes(pbf_reader list, Feature& feature) {
  feature.kind = FeatureKind::kBytes;
  while (list.next(1, pbf_wire_type::length_delimited)) {
    const std::string_view value = view(list.get_view());
    if (feature.count == kMaxExampleParts) throw TooMany();
    if (feature.count++ == 0) feature.bytes = value;
    feature.values.push_back(value);
  }
}

void read_integers(pbf_reader list, Feature& feature) {
  feature.kind = FeatureKind::kIntegers;
  const auto add = [&](int64_t value) {
    if (feature.count == kMaxExampleParts) throw TooMany();
    if (feature.count++ == 0) feature.integer = value;
    feature.integers.push_back(value);
  };
  while (list.next()) {
    switch (list.tag_and_type()) {
      case tag_and_type(1, pbf_wire_type::varint): add(list.get_int64()); break;
      case kMessage1:
        for (const int64_t value : list.get_packed_int64()) add(value);
        break;
      default: list.skip();
    }
  }
}

Feature read_feature(pbf_reader message) {
  Feature feature{FeatureKind::kEmpty};
  while (message.next()) {
    switch (message.tag_and_type()) {
      case kMessage1:
        feature = {};
        read_bytes(message.get_message(), feature);
        break;
      case kMessage2:
        feature = {FeatureKind::kFloats};
        message.skip();
        break;
      case kMessage3:
        feature = {};
        read_integers(message.get_message(), feature);
        break;
      default: message.skip();
    }
  }
  return feature;
}

// visit(key, Feature message) for every entry.
template <class Visit>
void for_each_feature(std::string_view bytes, Visit visit) {
  int64_t count = 0;
  pbf_reader example(bytes.data(), bytes.size());
  while (example.next(1, pbf_wire_type::length_delimited)) {
    pbf_reader features = example.get_message();
    while (features.next(1, pbf_wire_type::length_delimited)) {
      if (count++ == kMaxExampleParts) throw TooMany();
      pbf_reader entry = features.get_message();
      std::string_view key;
      pbf_reader feature;
      while (entry.next()) {
        switch (entry.tag_and_type()) {
          case kMessage1: key = view(entry.get_view()); break;
          case kMessage2: feature = entry.get_message(); break;
          default: entry.skip();
        }
      }
      visit(key, feature);
    }
  }
}

// The fields of a protobuf message in a file.
class FileMessage {
 public:
  FileMessage(Window& file, const Extent& bytes) : file_(file), at_(bytes.offset), end_(bytes.offset + bytes.length) {}

  // The next field that is length-delimited; nothing at the end, or where the bytes are damaged.
  struct Field {
    uint64_t number = 0;
    Extent value;
  };
  std::optional<Field> next() {
    while (at_ < end_) {
      uint64_t tag = 0, length = 0;
      if (!varint(tag) || tag >> 3 == 0) return fail();  // zeros, as in the holes of a file, are no fields
      const auto type = static_cast<pbf_wire_type>(tag & 7);
      if (type == pbf_wire_type::varint || type == pbf_wire_type::length_delimited) {
        if (!varint(length)) return fail();
        if (type == pbf_wire_type::varint) continue;
      } else if (type == pbf_wire_type::fixed64 || type == pbf_wire_type::fixed32) {
        length = type == pbf_wire_type::fixed64 ? 8 : 4;
      } else {
        return fail();
      }
      if (length > static_cast<uint64_t>(end_ - at_)) return fail();
      const Extent value{std::exchange(at_, at_ + static_cast<int64_t>(length)), static_cast<int64_t>(length)};
      if (type == pbf_wire_type::length_delimited) return Field{tag >> 3, value};
    }
    return std::nullopt;
  }
  bool damaged() const { return damaged_; }

 private:
  std::optional<Field> fail() {
    damaged_ = true;
    return std::nullopt;
  }
  bool varint(uint64_t& value) {
    constexpr int64_t kLongest = 10;
    const std::string_view before = file_.get(at_, std::min(kLongest, end_ - at_));
    std::string_view rest = before;
    const bool found = take_varint(rest, value);
    at_ += static_cast<int64_t>(before.size() - rest.size());
    return found;
  }

  Window& file_;
  int64_t at_, end_;
  bool damaged_ = false;
};

bool has_key(Window& file, const Extent& entry, std::string_view key) {
  FileMessage message(file, entry);
  while (const auto field = message.next()) {
    if (field->number == 1 && field->value.length == static_cast<int64_t>(key.size()) &&
        file.get(field->value.offset, field->value.length) == key)
      return true;
  }
  return false;
}

}  // namespace

std::string read_example_entries(Window& file, const Extent& example, std::string_view key) {
  if (example.length > kMaxSampleBytes) return {};
  std::string found;
  pbf_writer writer(found);
  FileMessage outer(file, example);
  while (const auto features = outer.next()) {
    if (features->number != 1) continue;
    FileMessage inner(file, features->value);
    while (const auto entry = inner.next()) {
      if (entry->number != 1 || !has_key(file, entry->value, key)) continue;
      if (entry->value.length > kMaxEntryBytes - static_cast<int64_t>(found.size())) return {};
      const std::string_view bytes = file.get(entry->value.offset, entry->value.length);
      writer.add_message(1, bytes.data(), bytes.size());
    }
    if (inner.damaged()) return {};
  }
  if (outer.damaged()) return {};
  std::string out;
  pbf_writer(out).add_message(1, found);
  return out;
}

const char* feature_kind_name(FeatureKind kind) {
  switch (kind) {
    case FeatureKind::kBytes: return "bytes";
    case FeatureKind::kFloats: return "floats";
    case FeatureKind::kIntegers: return "integers";
    case FeatureKind::kEmpty: return "empty";
    case FeatureKind::kAbsent: break;
  }
  return "absent";
}

std::optional<std::vector<Feature>> parse_example(std::string_view bytes, const std::vector<std::string>& keys) {
  std::vector<Feature> found(keys.size());
  try {
    for_each_feature(bytes, [&](std::string_view key, const pbf_reader& feature) {
      for (size_t i = 0; i < keys.size(); ++i) {
        if (keys[i] == key) found[i] = read_feature(feature);
      }
    });
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
  return found;
}

std::vector<std::string> example_keys(std::string_view bytes) {
  std::vector<std::string> keys;
  try {
    for_each_feature(bytes, [&](std::string_view key, const pbf_reader& feature) {
      keys.push_back(std::string(key) + " (" + feature_kind_name(read_feature(feature).kind) + ")");
    });
  } catch (const protozero::exception&) {
    return {};
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

void ExampleWriter::bytes_list(std::string_view key, std::span<const std::string_view> values) {
  std::string list, feature;
  for (const std::string_view value : values) pbf_writer(list).add_bytes(1, value.data(), value.size());
  pbf_writer(feature).add_message(1, list);
  entries_.push_back({std::string(key), std::move(feature)});
}

void ExampleWriter::integer_list(std::string_view key, std::span<const int64_t> values) {
  std::string packed, list, feature;
  for (const int64_t value : values) protozero::add_varint_to_buffer(&packed, static_cast<uint64_t>(value));
  pbf_writer(list).add_bytes(1, packed);  // of no values too, which add_packed_int64() leaves out
  pbf_writer(feature).add_message(3, list);
  entries_.push_back({std::string(key), std::move(feature)});
}

std::string ExampleWriter::finish() {
  std::ranges::sort(entries_, {}, &Entry::key);
  std::string features, example;
  pbf_writer writer(features);
  for (const Entry& entry : entries_) {
    pbf_writer map(writer, 1);
    map.add_string(1, entry.key);
    map.add_message(2, entry.feature);
  }
  entries_.clear();
  pbf_writer(example).add_message(1, features);
  return example;
}

}  // namespace tessera::data
