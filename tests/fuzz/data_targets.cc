#include <cstring>
#include <numeric>

#include "data/codecs.h"
#include "data/exif.h"
#include "data/formats/array_record.h"
#include "data/formats/bytes_file.h"
#include "data/formats/example.h"
#include "data/formats/json_fields.h"
#include "data/formats/lines.h"
#include "data/formats/parquet.h"
#include "data/formats/parquet_footer.h"
#include "data/formats/riegeli.h"
#include "data/formats/tar.h"
#include "data/formats/tfds_info.h"
#include "data/formats/tfrecord.h"
#include "data/formats/webdataset.h"
#include "data/index/shards.h"
#include "data/text/byte_bpe.h"
#include "data/text/charsmap.h"
#include "data/varint.h"
#include "fuzz/targets.h"

namespace tessera::fuzz {
namespace {

using namespace data;

constexpr int64_t kFuzzPixels = 1 << 18;

// Extents rise, do not overlap and lie in the file.
void check_extents(const std::vector<Extent>& extents, std::string_view bytes) {
  int64_t end = 0;
  for (const Extent& extent : extents) {
    TESSERA_CHECK(extent.offset >= end && extent.length >= 0);
    end = extent.offset + extent.length;
    TESSERA_CHECK(end <= static_cast<int64_t>(bytes.size()));
  }
  const std::string coded = encode_extents(extents);
  std::string_view rest = coded;
  TESSERA_CHECK(take_extents(rest, static_cast<int64_t>(extents.size())) == extents && rest.empty());
}

void check_inside(std::string_view part, std::string_view bytes) {
  TESSERA_CHECK(part.empty() || (part.data() >= bytes.data() && part.data() + part.size() <= bytes.data() + bytes.size()));
}

bool tfrecords(std::string_view bytes) {
  return parses([&] {
    const BytesFile file(bytes);
    const std::vector<Extent> records = scan_tfrecords("fuzz", file);
    check_extents(records, bytes);
    const auto first = first_tfrecord_extent("fuzz", file);
    TESSERA_CHECK(first.has_value() == !records.empty() && (!first || *first == records[0]));
    return !records.empty();
  });
}

bool resealed_tfrecords(std::string_view bytes) { return tfrecords(reseal_tfrecords(bytes)); }

// What is read of one feature alone is what it is among the others.
void check_entries(std::string_view bytes, const std::string& key, const Feature* wanted) {
  const BytesFile file(bytes);
  Window window(file);
  const std::string entries = read_example_entries(window, {0, file.size()}, key);
  const auto found = parse_example(entries, {key});
  if (!wanted) return;
  TESSERA_CHECK(found && found->front().kind == wanted->kind && found->front().count == wanted->count);
  TESSERA_CHECK(found->front().bytes == wanted->bytes && found->front().integer == wanted->integer);
}

bool example(std::string_view bytes) {
  const std::vector<std::string> keys = {"image", "image/encoded", "image/class/label", "label"};
  const auto features = parse_example(bytes, keys);
  for (size_t i = 0; i < keys.size(); ++i) check_entries(bytes, keys[i], features ? &(*features)[i] : nullptr);
  if (!features) return false;
  TESSERA_CHECK(features->size() == keys.size());
  for (const Feature& feature : *features) {
    check_inside(feature.bytes, bytes);
    TESSERA_CHECK(feature.count >= 0);
  }
  return !example_keys(bytes).empty();
}

bool array_record(std::string_view bytes) {
  return parses([&] {
    const BytesFile file(bytes);
    const ArrayRecordIndex index = read_array_record_index("fuzz", file);
    for (size_t i = 0; i + 1 < index.offsets.size() && i < 64; ++i) {
      const int64_t records = index.first[i + 1] - index.first[i];
      RecordGroup group;
      read_record_group("fuzz", file, index.offsets[i], index.offsets[i + 1], records, group);
      for (size_t r = 0; r < group.ends.size(); ++r) TESSERA_CHECK(group[r].size() <= group.values.size());
    }
    return true;
  });
}

bool resealed_array_record(std::string_view bytes) { return array_record(reseal_array_record(bytes)); }

// A chunk's data behind its number of records and decoded size, two bytes each.
bool chunk(std::string_view bytes) {
  if (bytes.size() < 4) return false;
  const auto number = [&](size_t at) { return static_cast<uint8_t>(bytes[at]) + 256u * static_cast<uint8_t>(bytes[at + 1]); };
  const uint64_t records = number(0), decoded = number(2);
  RecordGroup group;
  if (!decode_simple_chunk(bytes.substr(4), records, decoded, group)) return false;
  TESSERA_CHECK(group.ends.size() == records && group.values.size() == decoded &&
                (records == 0 || group.ends.back() == decoded));
  return true;
}

bool wds(std::string_view bytes) {
  return parses([&] {
    const BytesFile file(bytes);
    const std::vector<Extent> samples = scan_wds("fuzz", file);
    check_extents(samples, bytes);
    for (const Extent& extent : samples) {
      const std::string_view part = bytes.substr(static_cast<size_t>(extent.offset), static_cast<size_t>(extent.length));
      const WdsSample sample = parse_wds_sample("fuzz", part);
      TESSERA_CHECK(!sample.members.empty());
      for (const WdsMember& member : sample.members) check_inside(member.data, part);
    }
    return !samples.empty();
  });
}

bool resealed_wds(std::string_view bytes) { return wds(reseal_tar(bytes)); }

bool json_fields(std::string_view bytes) {
  const std::vector<std::string> names = {"image", "label", "meta.class"};
  const auto fields = parse_json_fields(bytes, names);
  const bool object = fields.has_value();
  TESSERA_CHECK(!object || fields->size() == names.size());
  TESSERA_CHECK(object || json_field_names(bytes).empty());
  huggingface_classes(bytes, "label");
  return object;
}

bool tfds_info(std::string_view bytes) {
  return parses([&] {
    const TfdsInfo info = parse_tfds_info("fuzz", bytes);
    for (const TfdsSplit& split : info.splits) {
      for (const int64_t length : split.shard_lengths) TESSERA_CHECK(length >= 0);
      if (!split.shard_lengths.empty()) tfds_shard_name(info, split, 0);
    }
    return true;
  });
}

bool tfds_features(std::string_view bytes) {
  return parses([&] { return !parse_tfds_features("fuzz", bytes).empty(); });
}

bool tfds_split(std::string_view bytes) {
  return parses([&] {
    for (const TfdsSlice& slice : parse_tfds_split(bytes, "fuzz")) {
      for (const auto& shards : std::vector<std::vector<int64_t>>{{}, {7}, {1'000'000, 0, 281'167}}) {
        for (const TfdsRounding rounding : {TfdsRounding::kClosest, TfdsRounding::kPct1DropRemainder}) {
          const auto range = resolve_tfds_slice(slice, shards, rounding);
          const int64_t samples = std::accumulate(shards.begin(), shards.end(), int64_t{0});
          TESSERA_CHECK(!range || (0 <= range->from && range->from <= range->to && range->to <= samples));
        }
      }
    }
    return true;
  });
}

bool lines(std::string_view bytes) {
  const BytesFile file(bytes);
  const std::vector<Extent> found = scan_lines(file);
  check_extents(found, bytes);
  for (const Extent& line : found) {
    const std::string_view text = bytes.substr(static_cast<size_t>(line.offset), static_cast<size_t>(line.length));
    TESSERA_CHECK(!text.empty() && text.find('\n') == std::string_view::npos);
  }
  TESSERA_CHECK(first_line(file).empty() == found.empty());
  return !found.empty();
}

// The footer alone, as it stands before its length and PAR1.
bool parquet_footer(std::string_view bytes) {
  const auto depth = parquet_schema_depth(bytes);
  TESSERA_CHECK(!depth || *depth <= bytes.size());
  return depth > 0;
}

// The table of a SentencePiece model, without the model around it.
bool charsmap(std::string_view bytes) {
  std::string spec = "\x12", model = "\x1a";
  put_varint(spec, bytes.size());
  spec += bytes;
  put_varint(model, spec.size());
  return charsmaps_are_sound(model + spec) && !bytes.empty();
}

bool tokenizer_json(std::string_view bytes) {
  return parses([&] {
    const auto tokenizer = make_byte_bpe("fuzz", bytes, {});
    std::vector<int32_t> ids;
    for (const char* text : {"A small RED circle, isn't it?\n", "\xc3\xa4<|endoftext|> \xff 12"}) tokenizer->encode(text, ids);
    for (const int32_t id : ids) TESSERA_CHECK(id >= 0 && id < tokenizer->vocabulary());
    tokenizer->decode(ids);
    return true;
  });
}

bool same_pixels(const ImageView& a, const ImageView& b) {
  if (a.width != b.width || a.height != b.height) return false;
  const size_t row = static_cast<size_t>(a.width) * 3;
  for (int y = 0; y < a.height; ++y) {
    if (std::memcmp(a.row(y), b.row(y), row) != 0) return false;
  }
  return true;
}

// The decoder of our own changes neither pixels nor reasons.
void check_against_libjpeg(Bytes bytes, const Box* box) {
  JpegDecoder library(true), both;
  Image wanted_memory, memory;
  ImageView wanted, view;
  DecodeMeter meter({.pixels = kFuzzPixels, .seconds = 0}, nullptr);
  const DecodeResult failed = library.decode(bytes, meter, box, wanted_memory, wanted);
  const DecodeResult result = both.decode(bytes, meter, box, memory, view);
  TESSERA_CHECK(result.has_value() == failed.has_value());
  TESSERA_CHECK(failed ? result->reason == failed->reason : same_pixels(view, wanted));
}

// A picture file: its pixels whole and in a box, and turned as its EXIF data says.
bool image(std::string_view text) {
  const Bytes bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  Decoder decoder({.pixels = kFuzzPixels, .seconds = 0});
  ImageInfo info;
  if (decoder.probe(bytes, info)) return false;
  const Box box{info.width / 3, info.height / 4, (info.width + 1) / 2, (info.height + 1) / 2};
  if (info.format == ImageFormat::kJpeg && int64_t{info.width} * info.height <= kFuzzPixels) {
    check_against_libjpeg(bytes, nullptr);
    check_against_libjpeg(bytes, &box);
  }
  Image image, part, turned;
  const DecodeResult failed = decoder.decode(bytes, image);
  TESSERA_CHECK(!failed || !failed->reason.empty());
  if (failed) return false;
  ImageView region;
  TESSERA_CHECK(!decoder.decode_region(bytes, box, part, region) && region.width == box.width && region.height == box.height);
  const int orientation = exif_orientation(bytes);
  TESSERA_CHECK(1 <= orientation && orientation <= 8);
  turn_upright(image, orientation, turned);
  return true;
}

void put(std::string& bytes, size_t at, std::string_view value) { bytes.replace(at, value.size(), value); }

template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace

const std::vector<NamedTarget>& data_targets() {
  static const std::vector<NamedTarget> all = {{"tfrecord", tfrecords},
                                               {"tfrecord_resealed", resealed_tfrecords},
                                               {"example", example},
                                               {"array_record", array_record},
                                               {"array_record_resealed", resealed_array_record},
                                               {"chunk", chunk},
                                               {"wds", wds},
                                               {"wds_resealed", resealed_wds},
                                               {"json_fields", json_fields},
                                               {"tfds_info", tfds_info},
                                               {"tfds_features", tfds_features},
                                               {"tfds_split", tfds_split},
                                               {"lines", lines},
                                               {"parquet_footer", parquet_footer},
                                               {"charsmap", charsmap},
                                               {"tokenizer_json", tokenizer_json},
                                               {"image", image}};
  return all;
}

std::string reseal_tfrecords(std::string_view in) {
  std::string bytes(in);
  for (size_t at = 0; at + 12 <= bytes.size();) {
    uint64_t length;
    std::memcpy(&length, bytes.data() + at, sizeof length);
    put(bytes, at + 8, raw(masked_crc32c(std::string_view(bytes).substr(at, 8))));
    if (length > bytes.size()) break;
    at += 12 + length + 4;
  }
  return bytes;
}

// The chunks that lie in one block each, as those of small files do.
std::string reseal_array_record(std::string_view in) {
  std::string bytes(in);
  const auto block = static_cast<size_t>(kRiegeliBlock);
  for (size_t begin = 0; begin < bytes.size(); begin += block) {
    const size_t end = std::min(bytes.size(), begin + block);
    for (size_t at = begin + static_cast<size_t>(kRiegeliBlockHeader); at + kRiegeliHeader <= end;) {
      uint64_t size;
      std::memcpy(&size, bytes.data() + at + 8, sizeof size);
      const std::string_view all(bytes);
      const bool inside = size <= end - at - kRiegeliHeader;
      if (inside) put(bytes, at + 16, raw(riegeli_hash(all.substr(at + kRiegeliHeader, size))));
      put(bytes, at, raw(riegeli_hash(all.substr(at + 8, kRiegeliHeader - 8))));
      if (!inside) break;
      at += kRiegeliHeader + size;
    }
  }
  return bytes;
}

std::string reseal_tar(std::string_view in) {
  constexpr size_t kBlock = 512, kSize = 124, kChecksum = 148;
  std::string bytes(in);
  for (size_t at = 0; at + kBlock <= bytes.size();) {
    if (std::string_view(bytes).substr(at, kBlock).find_first_not_of('\0') == std::string_view::npos) break;
    put(bytes, at + kChecksum, "        ");
    unsigned sum = 0;
    for (size_t i = 0; i < kBlock; ++i) sum += static_cast<uint8_t>(bytes[at + i]);
    put(bytes, at + kChecksum, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
    const uint64_t size = std::strtoull(bytes.substr(at + kSize, 11).c_str(), nullptr, 8);
    if (size > bytes.size()) break;
    at += kBlock + (size + kBlock - 1) / kBlock * kBlock;
  }
  return bytes;
}

}  // namespace tessera::fuzz
