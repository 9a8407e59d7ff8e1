#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <protozero/pbf_writer.hpp>

#include "base/text/json.h"
#include "data/formats/array_record/array_record.h"
#include "data/formats/array_record/riegeli.h"
#include "data/formats/bytes/bytes_file.h"
#include "data/formats/csv.h"
#include "data/formats/example.h"
#include "data/formats/json_fields.h"
#include "data/formats/lines.h"
#include "data/formats/mat.h"
#include "data/formats/parquet/parquet.h"
#include "data/formats/parquet/parquet_footer.h"
#include "data/formats/tar.h"
#include "data/formats/tfds_info.h"
#include "data/formats/tfrecord.h"
#include "data/formats/webdataset.h"
#include "data/index/shards.h"
#include "data/text/byte_bpe.h"
#include "data/text/charsmap.h"
#include "data/tools/prepare/coco_annotations.h"
#include "fuzz/targets.h"
#include "image/codec/codecs.h"
#include "image/codec/exif.h"
#include "image/codec/pixels_file.h"
#include "store/memory_files.h"

namespace tessera::fuzz {
namespace {

using namespace data;
using namespace image;

constexpr int64_t kFuzzPixels = 1 << 18;

void put(std::string& bytes, size_t at, std::string_view value) { bytes.replace(at, value.size(), value); }

template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

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

// Records written again are the same bytes but for the checksums of damaged ones.
void check_written(std::string_view bytes, const std::vector<Extent>& records) {
  std::string written;
  for (const Extent& record : records) {
    const std::string_view data = bytes.substr(static_cast<size_t>(record.offset), static_cast<size_t>(record.length));
    written += tfrecord_header(data) + std::string(data) + tfrecord_footer(data);
    TESSERA_CHECK(tfrecord_intact(data, tfrecord_footer(data)));
  }
  TESSERA_CHECK(written.size() == bytes.size() && scan_tfrecords("written", BytesFile(written)) == records);
}

bool tfrecords(std::string_view bytes) {
  return parses([&] {
    const BytesFile file(bytes);
    const std::vector<Extent> records = scan_tfrecords("fuzz", file);
    check_extents(records, bytes);
    const auto first = first_tfrecord_extent("fuzz", file);
    TESSERA_CHECK(first.has_value() == !records.empty() && (!first || *first == records[0]));
    check_written(bytes, records);
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

// Features written again are read as they were.
void check_written(const std::vector<std::string>& keys, const std::vector<Feature>& features) {
  ExampleWriter writer;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (features[i].kind == FeatureKind::kBytes) writer.bytes_list(keys[i], features[i].values);
    if (features[i].kind == FeatureKind::kIntegers) writer.integer(keys[i], features[i].integer);
  }
  const std::string written = writer.finish();
  const auto again = parse_example(written, keys);
  TESSERA_CHECK(again && again->size() == keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    const Feature &one = features[i], &same = (*again)[i];
    if (one.kind != FeatureKind::kBytes && one.kind != FeatureKind::kIntegers) continue;
    TESSERA_CHECK(same.kind == one.kind && same.values == one.values && same.bytes == one.bytes && same.integer == one.integer);
  }
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
  check_written(keys, *features);
  return !example_keys(bytes).empty();
}

// The records of a file's first chunks, as many as there are or `most`.
std::vector<std::string> read_records(const store::ReadableFile& file, const ArrayRecordIndex& index, size_t most) {
  std::vector<std::string> records;
  for (size_t i = 0; i + 1 < index.offsets.size() && i < most; ++i) {
    RecordGroup group;
    read_record_group("fuzz", file, index.offsets[i], index.offsets[i + 1], index.first[i + 1] - index.first[i], group);
    for (size_t r = 0; r < group.ends.size(); ++r) {
      TESSERA_CHECK(group[r].size() <= group.values.size());
      records.emplace_back(group[r]);
    }
  }
  return records;
}

// Records written again are read as they were.
void check_written(const std::vector<std::string>& records) {
  testing::MemoryFiles files;
  const auto writable = files.create("written");
  ArrayRecordWriter writer(*writable);
  for (const std::string& record : records) writer.add(record);
  writer.finish();
  const auto file = files.open("written");
  const ArrayRecordIndex index = read_array_record_index("written", *file);
  TESSERA_CHECK(index.records() == std::ssize(records) && read_records(*file, index, records.size()) == records);
}

bool array_record(std::string_view bytes) {
  return parses([&] {
    constexpr size_t kMaxChunks = 64, kMaxWritten = 4096;
    const BytesFile file(bytes);
    const std::vector<std::string> records = read_records(file, read_array_record_index("fuzz", file), kMaxChunks);
    size_t sum = records.size();
    for (const std::string& record : records) sum += record.size();
    if (sum <= kMaxWritten) check_written(records);
    return true;
  });
}

bool resealed_array_record(std::string_view bytes) { return array_record(reseal_array_record(bytes)); }

// Puts bytes of a chunk behind others, with a block's header wherever one is due.
void put_in_blocks(std::string& file, std::string_view bytes) {
  while (!bytes.empty()) {
    if (std::ssize(file) % kRiegeliBlock == 0) file += riegeli_block_header(0, 0);
    const std::string_view part = bytes.substr(0, static_cast<size_t>(kRiegeliBlock - std::ssize(file) % kRiegeliBlock));
    file += part;
    bytes.remove_prefix(part.size());
  }
}

// Takes two bytes off the front: the lower one first. Missing ones are zero.
size_t take_number(std::string_view& bytes) {
  size_t number = 0;
  for (size_t i = 0; i < 2 && !bytes.empty(); ++i, bytes.remove_prefix(1)) {
    number |= size_t{static_cast<uint8_t>(bytes[0])} << (8 * i);
  }
  return number;
}

// Header and data of a chunk, from its type, its number of records, its decoded size and the size of its data (two bytes each
// of all but the type) and its data.
std::string take_chunk(std::string_view& bytes) {
  RiegeliHeader header{.type = bytes[0]};
  bytes.remove_prefix(1);
  header.records = take_number(bytes), header.decoded_size = take_number(bytes);
  const size_t size = take_number(bytes);
  const std::string data(bytes.substr(0, size));
  bytes.remove_prefix(data.size());
  header.data_size = data.size(), header.data_hash = riegeli_hash(data);
  return riegeli_header(header) + data;
}

// Two bytes say where the first chunk begins. The chunks follow, and the last one lies in the last block. So every byte has a
// meaning, and no checksum keeps an input from the parser.
bool array_record_chunks(std::string_view bytes) {
  const auto fill_block = [](std::string& file) {
    file.resize(static_cast<size_t>((std::ssize(file) + kRiegeliBlock - 1) / kRiegeliBlock * kRiegeliBlock));
  };
  std::string file = riegeli_block_header(0, 0);
  file.resize(file.size() + take_number(bytes));
  while (!bytes.empty()) {
    const std::string chunk = take_chunk(bytes);
    if (bytes.empty()) fill_block(file);
    put_in_blocks(file, chunk);
  }
  fill_block(file);
  return array_record(file);
}

// A chunk's data behind its number of records and decoded size, two bytes each.
bool chunk(std::string_view bytes) {
  const uint64_t records = take_number(bytes), decoded = take_number(bytes);
  RecordGroup group;
  if (!decode_simple_chunk(bytes, records, decoded, group)) return false;
  TESSERA_CHECK(group.ends.size() == records && group.values.size() == decoded &&
                (records == 0 || group.ends.back() == decoded));
  return true;
}

// The members of an archive: name and content.
std::vector<std::pair<std::string, std::string>> tar_members(std::string_view bytes) {
  const BytesFile file(bytes);
  Window window(file);
  std::vector<std::pair<std::string, std::string>> members;
  for (int64_t at = 0;;) {
    const auto member = read_tar_member("fuzz", window, at);
    if (!member) return members;
    members.emplace_back(member->name, window.get(member->data, member->size));
    at = member->end;
  }
}

// Members written again are read as they were. Checksums are put right first. A name ends where a zero byte stands in it,
// unless it is a long one.
bool tar(std::string_view bytes) {
  return parses([&] {
    auto members = tar_members(reseal_tar(bytes));
    std::erase_if(members, [](const auto& member) { return member.first.find('\0') != std::string::npos; });
    std::string written;
    for (const auto& [name, content] : members)
      written += tar_header(name, std::ssize(content)) + content + tar_padding(std::ssize(content));
    TESSERA_CHECK(tar_members(written + tar_end()) == members && tar_members(written) == members);
    return !members.empty();
  });
}

// The members of one extension, seen while the archive is scanned, are those of the samples.
void check_visited(const store::ReadableFile& file, const std::vector<Extent>& samples) {
  size_t seen = 0;
  std::string first;
  const auto visit = [&](const WdsSample& sample) {
    if (seen++ == 0 && sample.find("txt")) first = sample.find("txt")->data;
    TESSERA_CHECK(sample.members.size() <= 1 && (sample.find("txt") != nullptr) == !sample.members.empty());
  };
  TESSERA_CHECK(scan_wds("fuzz", file, "txt", visit) == samples && seen == samples.size());
  const bool any = visit_first_wds("fuzz", file, [&](const WdsSample& sample) {
    const WdsMember* member = sample.find("txt");
    TESSERA_CHECK((member ? member->data : "") == first);
  });
  TESSERA_CHECK(any == !samples.empty());
}

bool wds(std::string_view bytes) {
  return parses([&] {
    const BytesFile file(bytes);
    const std::vector<Extent> samples = scan_wds("fuzz", file);
    check_extents(samples, bytes);
    check_visited(file, samples);
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
  std::string problem;
  const auto fields = parse_json_fields(bytes, names, &problem);
  const bool object = fields.has_value();
  TESSERA_CHECK(object == problem.empty());
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
      TESSERA_CHECK(info.find(split.name) && info.find(split.name)->name == split.name);
    }
    info.find("no split of this name");
    return true;
  });
}

bool tfds_features(std::string_view bytes) {
  return parses([&] { return !parse_tfds_features("fuzz", bytes).empty(); });
}

// The parts of a range follow each other from its beginning, to its end unless what is left over is dropped.
void check_parts(const TfdsRange& range) {
  constexpr int64_t kParts = 3;
  for (const bool drop : {false, true}) {
    int64_t at = range.from;
    for (int64_t i = 0; i < kParts; ++i) {
      const TfdsRange part = even_tfds_part(range, i, kParts, drop);
      TESSERA_CHECK(part.from == at && part.from <= part.to);
      at = part.to;
    }
    TESSERA_CHECK(drop ? range.to - kParts < at && at <= range.to : at == range.to);
  }
}

bool tfds_split(std::string_view bytes) {
  return parses([&] {
    for (const TfdsSlice& slice : parse_tfds_split(bytes, "fuzz")) {
      for (const auto& shards : std::vector<std::vector<int64_t>>{{}, {7}, {1'000'000, 0, 281'167}}) {
        for (const TfdsRounding rounding : {TfdsRounding::kClosest, TfdsRounding::kPct1DropRemainder}) {
          const auto range = resolve_tfds_slice(slice, shards, rounding);
          const int64_t samples = std::accumulate(shards.begin(), shards.end(), int64_t{0});
          TESSERA_CHECK(!range || (0 <= range->from && range->from <= range->to && range->to <= samples));
          if (range) check_parts(*range);
        }
      }
    }
    return true;
  });
}

bool lines(std::string_view bytes) {
  return parses([&] {
    const BytesFile file(bytes);
    const std::vector<Extent> found = scan_lines("fuzz", file);
    check_extents(found, bytes);
    for (const Extent& line : found) {
      const std::string_view text = bytes.substr(static_cast<size_t>(line.offset), static_cast<size_t>(line.length));
      TESSERA_CHECK(!text.empty() && text.find('\n') == std::string_view::npos && text.find('\0') == std::string_view::npos);
    }
    TESSERA_CHECK(first_line("fuzz", file).empty() == found.empty());
    return !found.empty();
  });
}

bool csv(std::string_view bytes) {
  return parses([&] {
    const BytesFile file(bytes);
    const std::vector<Extent> records = scan_csv("fuzz", file, ',');
    check_extents(records, bytes);
    bool whole = true;
    for (const Extent& record : records) {
      const auto fields = parse_csv_record(read_extent(file, record), ',');
      // Only the last may lack the end of a quote.
      TESSERA_CHECK(whole && (!fields || !fields->empty()));
      whole = fields.has_value();
    }
    const std::string first = first_csv_record("fuzz", file, ',');
    TESSERA_CHECK(records.empty() ? first.empty() : first == read_extent(file, records[0]));
    return !records.empty() && whole;
  });
}

// The footer alone, as it stands before its length and PAR1.
bool parquet_footer(std::string_view bytes) {
  const auto depth = parquet_schema_depth(bytes);
  TESSERA_CHECK(!depth || *depth <= bytes.size());
  const auto is_checked = [](std::string_view file) {
    return parses([&] {
      check_parquet_footer("fuzz", BytesFile(file));
      return true;
    });
  };
  is_checked(bytes);
  const std::string file = "PAR1" + std::string(bytes) + raw(static_cast<uint32_t>(bytes.size())) + "PAR1";
  TESSERA_CHECK(is_checked(file) == (depth && *depth <= kMaxParquetDepth));
  return depth > 0;
}

// The table of a SentencePiece model, without the model around it.
bool charsmap(std::string_view bytes) {
  std::string spec, model;
  protozero::pbf_writer(spec).add_bytes(2, bytes.data(), bytes.size());
  protozero::pbf_writer(model).add_message(3, spec);
  return charsmaps_are_sound(model) && !bytes.empty();
}

bool tokenizer_json(std::string_view bytes) {
  return parses([&] {
    const auto tokenizer = make_byte_bpe("fuzz", bytes, {});
    std::vector<int32_t> ids;
    for (const char* text : {"A small RED circle, isn't it?\n", "\xc3\xa4<|endoftext|> \xff 12"}) tokenizer->encode(text, ids);
    for (const std::optional<int32_t> id : {tokenizer->bos(), tokenizer->eos()}) {
      if (id) ids.push_back(*id);
    }
    for (const int32_t id : ids) {
      TESSERA_CHECK(id >= 0 && id < tokenizer->vocabulary());
      tokenizer->find(tokenizer->piece(id));
    }
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
void check_against_libjpeg(ByteSpan bytes, const Box* box) {
  JpegDecoder library(true), both;
  both.share_tables(library);
  Image wanted_memory, memory;
  ImageView wanted, view;
  DecodeMeter meter({.pixels = kFuzzPixels, .seconds = 0}, nullptr);
  const SampleError failed = library.decode(bytes, meter, box, wanted_memory, wanted);
  const SampleError result = both.decode(bytes, meter, box, memory, view);
  TESSERA_CHECK(result.has_value() == failed.has_value());
  TESSERA_CHECK(failed ? result->reason == failed->reason : same_pixels(view, wanted));
}

// Pixels kept as a file are read as they were.
void check_kept(const Image& image, int orientation) {
  std::string file(pixels_file_size(image.width(), image.height()), '\0');
  write_pixels_file(image.view(), orientation, {}, reinterpret_cast<uint8_t*>(file.data()));
  const ByteSpan bytes(reinterpret_cast<const uint8_t*>(file.data()), file.size());
  TESSERA_CHECK(is_pixels_file(bytes) && read_pixels_file(bytes).orientation == orientation);
  Decoder decoder;
  ImageInfo info;
  Image again;
  TESSERA_CHECK(!decoder.probe(bytes, info) && !decoder.decode(bytes, again) && same_pixels(again.view(), image.view()));
  const Box box{image.width() / 2, 0, image.width() - image.width() / 2, image.height()};
  ImageView region;
  TESSERA_CHECK(!decoder.decode_region(bytes, box, again, region) && same_pixels(region, image.view().crop(box)));
}

// What is over a limit is refused with a reason. What is stopped, or takes too long, may be decoded before anybody looks.
void check_limits(ByteSpan bytes, const ImageInfo& info) {
  const std::atomic<bool> stop = true;
  const int64_t pixels = int64_t{info.width} * info.height;
  Decoder decoder;
  Image image;
  const auto decode = [&](const DecodeLimits& limits, const std::atomic<bool>* stopped) {
    decoder.set_limits(limits, stopped);
    const SampleError failed = decoder.decode(bytes, image);
    TESSERA_CHECK(!failed || !failed->reason.empty());
    return !failed;
  };
  TESSERA_CHECK(!decode({.pixels = pixels - 1}, nullptr) && !decode({.bytes = 0}, nullptr));
  decode({}, &stop);
  decode({.seconds = 1e-9}, nullptr);
}

// Two pictures decoded in turns, what is missing made up: each is what it is alone. Files that are cut short are taken too.
void check_in_turns(ByteSpan bytes, const Box& box) {
  Decoder one({.pixels = kFuzzPixels, .seconds = 0}), other({.pixels = kFuzzPixels, .seconds = 0});
  other.share_tables(one);
  Image one_memory, other_memory;
  ImageView one_view, other_view;
  one.start_region(bytes, box, one_memory, {.fill_truncated = true});
  other.start_region(bytes, box, other_memory, {.fill_truncated = true});
  while (one.decoding() && other.decoding()) Decoder::decode_on(one, &other);
  while (one.decoding()) Decoder::decode_on(one, nullptr);
  while (other.decoding()) Decoder::decode_on(other, nullptr);
  const SampleError failed = one.finish_region(one_view), failed_too = other.finish_region(other_view);
  TESSERA_CHECK(failed.has_value() == failed_too.has_value());
  TESSERA_CHECK(failed || (same_pixels(one_view, other_view) && one.repairs().any() == other.repairs().any()));
}

// A picture file: its pixels whole and in a box, and turned as its EXIF data says.
bool image(std::string_view text) {
  const ByteSpan bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  Decoder decoder({.pixels = kFuzzPixels, .seconds = 0});
  ImageInfo info;
  if (const SampleError failed = decoder.probe(bytes, info)) {
    TESSERA_CHECK(!failed->reason.empty());
    return false;
  }
  TESSERA_CHECK(format_name(info.format) != std::string_view("unknown") && info.width > 0 && info.height > 0);
  const Box box{info.width / 3, info.height / 4, (info.width + 1) / 2, (info.height + 1) / 2};
  if (info.format == ImageFormat::kJpeg && int64_t{info.width} * info.height <= kFuzzPixels) {
    check_against_libjpeg(bytes, nullptr);
    check_against_libjpeg(bytes, &box);
  }
  check_in_turns(bytes, box);
  Image image, part, turned;
  const SampleError failed = decoder.decode(bytes, image);
  TESSERA_CHECK(!failed || !failed->reason.empty());
  if (failed) return false;
  ImageView region;
  TESSERA_CHECK(!decoder.decode_region(bytes, box, part, region) && region.width == box.width && region.height == box.height);
  const int orientation = exif_orientation(bytes);
  TESSERA_CHECK(1 <= orientation && orientation <= 8);
  check_kept(image, orientation);
  if (info.format != ImageFormat::kPixels) check_limits(bytes, info);
  turn_upright(image, orientation, turned);
  return true;
}

// COCO's captions and objects. What becomes of them are lines of lists.
bool coco(std::string_view bytes) {
  const auto check = [&](auto read, bool captions, bool labels) {
    return parses([&] {
      CocoAnnotations found;
      read(bytes, "fuzz", found);
      const std::string classes = coco_classes(found);
      TESSERA_CHECK(std::ranges::count(classes, '\n') == std::ssize(found.categories));
      for (const auto& [id, image] : found.images) {
        TESSERA_CHECK(image.file.find('/') == std::string::npos && !image.file.starts_with('.'));
        const std::string line = coco_line("train2017", image, found, captions, labels);
        TESSERA_CHECK(line.find('\n') == line.size() - 1 && parse_json(line, "fuzz").is_object());
      }
      return !found.images.empty();
    });
  };
  const bool captions = check(read_coco_captions, true, false), objects = check(read_coco_objects, false, true);
  return captions || objects;
}

bool mat(std::string_view bytes) {
  return parses([&] {
    const auto structs = read_mat_structs(bytes, "fuzz", "synsets", {"WNID", "ILSVRC2012_ID"});
    for (const MatStruct& one : structs) TESSERA_CHECK(one.size() == 2 && (one[0].text.empty() || !one[0].number));
    return true;
  });
}

}  // namespace

const std::vector<NamedTarget>& data_targets() {
  static const std::vector<NamedTarget> all = {{"tfrecord", tfrecords, 1024},
                                               {"tfrecord_resealed", resealed_tfrecords, 1024},
                                               {"example", example, 1024},
                                               {"array_record", array_record, 140000},
                                               {"array_record_resealed", resealed_array_record, 140000},
                                               {"array_record_chunks", array_record_chunks, 1024},
                                               {"chunk", chunk, 2048},
                                               {"wds", wds, 8192},
                                               {"wds_resealed", resealed_wds, 8192},
                                               {"tar", tar, 4096},
                                               {"json_fields", json_fields, 1024},
                                               {"tfds_info", tfds_info, 2048},
                                               {"tfds_features", tfds_features, 2048},
                                               {"tfds_split", tfds_split, 128},
                                               {"lines", lines, 256},
                                               {"csv", csv, 256},
                                               {"mat", mat, 4096},
                                               {"coco", coco, 1024},
                                               {"parquet_footer", parquet_footer, 9000},
                                               {"charsmap", charsmap, 2048},
                                               {"tokenizer_json", tokenizer_json, 16384},
                                               {"image", image, 4096}};
  return all;
}

std::string reseal_tfrecords(std::string_view in) {
  std::string bytes(in);
  for (size_t at = 0; at + 12 <= bytes.size();) {
    uint64_t length;
    std::memcpy(&length, bytes.data() + at, sizeof length);
    put(bytes, at + 8, raw(store::masked_crc32c(std::string_view(bytes).substr(at, 8))));
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
