#include "data/formats/example.h"

#include <algorithm>
#include <protozero/pbf_reader.hpp>

#include "base/protobuf_wire.h"

namespace tessera::data {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;
using protozero::tag_and_type;

// Length-delimited fields by number; a field of another wire type is passed over, as protobuf does.
constexpr uint32_t kMessage1 = tag_and_type(1, pbf_wire_type::length_delimited);
constexpr uint32_t kMessage2 = tag_and_type(2, pbf_wire_type::length_delimited);
constexpr uint32_t kMessage3 = tag_and_type(3, pbf_wire_type::length_delimited);

std::string_view view(const protozero::data_view& data) { return {data.data(), data.size()}; }

void read_bytes(pbf_reader list, Feature& feature) {
  feature.kind = FeatureKind::kBytes;
  while (list.next(1, pbf_wire_type::length_delimited)) {
    const std::string_view value = view(list.get_view());
    if (feature.count++ == 0) feature.bytes = value;
    feature.values.push_back(value);
  }
}

void read_integers(pbf_reader list, Feature& feature) {
  feature.kind = FeatureKind::kIntegers;
  const auto add = [&](int64_t value) {
    if (feature.count++ == 0) feature.integer = value;
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
  pbf_reader example(bytes.data(), bytes.size());
  while (example.next(1, pbf_wire_type::length_delimited)) {
    pbf_reader features = example.get_message();
    while (features.next(1, pbf_wire_type::length_delimited)) {
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

}  // namespace

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
  ProtoWriter list, feature;
  for (const std::string_view value : values) list.bytes(1, value);
  feature.bytes(1, list.data());
  entries_.push_back({std::string(key), feature.data()});
}

void ExampleWriter::integer(std::string_view key, int64_t value) {
  ProtoWriter packed, list, feature;
  packed.packed_integer(value);
  list.bytes(1, packed.data());
  feature.bytes(3, list.data());
  entries_.push_back({std::string(key), feature.data()});
}

std::string ExampleWriter::finish() {
  std::ranges::sort(entries_, {}, &Entry::key);
  ProtoWriter features, example;
  for (const Entry& entry : entries_) {
    ProtoWriter map;
    map.bytes(1, entry.key);
    map.bytes(2, entry.feature);
    features.bytes(1, map.data());
  }
  entries_.clear();
  example.bytes(1, features.data());
  return example.data();
}

}  // namespace tessera::data
