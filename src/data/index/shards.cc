#include "data/index/shards.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "data/index/progress.h"
#include "store/crc32c.h"

namespace tessera::data {
namespace {

// Sections of the sidecar.
enum : size_t { kCounts, kBlockEnds, kBlockCrcs, kLabelRange, kLabelNames, kLabelEnds, kBlocks, kSections };

constexpr int kThreads = 16;  // waiting for disks, not for cores

void put_varint(std::string& out, uint64_t value) {
  for (; value > 127; value >>= 7) out += static_cast<char>((value & 127) | 128);
  out += static_cast<char>(value);
}

bool take_varint(std::string_view& in, uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 63 && !in.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(in.front());
    in.remove_prefix(1);
    value |= uint64_t{byte & 127u} << shift;
    if (byte < 128) return true;
  }
  return false;
}

uint32_t checksum(std::string_view bytes) { return store::crc32c(store::as_bytes(bytes)); }

}  // namespace

void LabelsFound::add(const LabelsFound& other) {
  least = std::min(least, other.least);
  most = std::max(most, other.most);
  names.insert(other.names.begin(), other.names.end());
}

std::shared_ptr<const store::ReadableFile> ShardFiles::open(size_t shard, const std::string& path) const {
  using Made = LruCache<size_t, store::ReadableFile>::Made;
  return files_.get(shard, [&] { return Made{store::local_files().open(path), 1}; });
}

std::string encode_extents(const std::vector<Extent>& extents) {
  std::string out;
  int64_t end = 0;
  for (const Extent& extent : extents) {
    TESSERA_CHECK(extent.offset >= end && extent.length >= 0);
    put_varint(out, static_cast<uint64_t>(extent.offset - end));
    put_varint(out, static_cast<uint64_t>(extent.length));
    end = extent.offset + extent.length;
  }
  return out;
}

std::optional<std::vector<Extent>> decode_extents(std::string_view bytes, int64_t count) {
  constexpr uint64_t kMost = uint64_t{1} << 60;
  if (count < 0 || static_cast<uint64_t>(count) > bytes.size() / 2) return std::nullopt;
  std::vector<Extent> extents(static_cast<size_t>(count));
  uint64_t end = 0;
  for (Extent& extent : extents) {
    uint64_t gap = 0, length = 0;
    if (!take_varint(bytes, gap) || !take_varint(bytes, length) || gap > kMost || length > kMost) return std::nullopt;
    const uint64_t offset = end + gap;
    end = offset + length;
    if (end > kMost) return std::nullopt;
    extent = {static_cast<int64_t>(offset), static_cast<int64_t>(length)};
  }
  if (!bytes.empty()) return std::nullopt;
  return extents;
}

// What scanning gives, shard by shard.
struct ShardIndex::Built {
  std::vector<int64_t> counts;
  std::vector<std::string> blocks;
  std::vector<LabelsFound> labels;
  std::atomic<int64_t> total = 0;
  std::atomic<bool> own_extents = false;
};

ShardIndex::ShardIndex(std::vector<std::string> paths, ShardIndexOptions options)
    : paths_(std::move(paths)), options_(std::move(options)) {
  if (options_.counts && !options_.needs_labels) {
    first_ = {0};
    for (const int64_t count : *options_.counts) first_.push_back(first_.back() + count);
    if (size() > kMostStored) return;
    first_.clear();
  }
  if (options_.needs_labels) options_.call += " with labels";
  sidecar_path_ = sidecar_path(options_.call, absolute_path(paths_.empty() ? "" : paths_.front()));
  stat_all();
  if (!load()) build();
}

void ShardIndex::stat_all() {
  stamps_.resize(paths_.size());
  const auto count = static_cast<int64_t>(paths_.size());
  constexpr int64_t kGrain = 256;
  try {
    parallel_for((count + kGrain - 1) / kGrain, thread_count(count > 4 * kGrain ? kThreads : 1, count), [&](int64_t part, int) {
      for (int64_t i = part * kGrain; i < std::min(count, (part + 1) * kGrain); ++i)
        stamps_[static_cast<size_t>(i)] = stamp_of(paths_[static_cast<size_t>(i)]);
    });
  } catch (const store::IoError& error) {
    throw data_error(error.message(), options_.where, error.help());
  }
  for (const FileStamp& stamp : stamps_) bytes_ += static_cast<uint64_t>(stamp.size);
}

Hash128 ShardIndex::fingerprint() const {
  Hasher hasher;
  hasher.add(options_.call);
  for (const std::string& path : paths_) hasher.add(path);
  hasher.add({reinterpret_cast<const char*>(stamps_.data()), stamps_.size() * sizeof(FileStamp)});
  return hasher.finish();
}

std::optional<uint64_t> ShardIndex::stamp(int64_t sample) const {
  const size_t shard = locate(sample).shard;
  return stamps_.empty() ? stamp_number(paths_[shard]) : stamp_number(stamps_[shard]);
}

bool ShardIndex::load() {
  auto sidecar = Sidecar::open(sidecar_path_, SidecarKind::kShards, fingerprint(), kSections);
  if (!sidecar) return false;
  const auto counts = sidecar->array<int64_t>(kCounts);
  const auto ends = sidecar->array<uint64_t>(kBlockEnds);
  const auto crcs = sidecar->array<uint32_t>(kBlockCrcs);
  const auto range = sidecar->array<int64_t>(kLabelRange);
  const auto name_ends = sidecar->array<uint64_t>(kLabelEnds);
  if (!counts || !ends || !crcs || !range || !name_ends || counts->size() != paths_.size() + 1 || range->size() != 3)
    return false;
  const TextView names(sidecar->section(kLabelNames), *name_ends);
  const TextView blocks(sidecar->section(kBlocks), *ends);
  const bool whole = names.valid() && blocks.valid() && counts->front() == 0 && std::ranges::is_sorted(*counts) &&
                     ends->size() == crcs->size() && (ends->empty() || ends->size() == paths_.size());
  if (!whole) return false;
  first_.assign(counts->begin(), counts->end());
  block_ends_.assign(ends->begin(), ends->end());
  block_crcs_.assign(crcs->begin(), crcs->end());
  labels_.least = (*range)[0], labels_.most = (*range)[1];
  own_extents_ = (*range)[2] != 0;
  for (size_t i = 0; i < names.size(); ++i) labels_.names.emplace(names[i]);
  stored_ = own_extents_ || !block_ends_.empty();
  sidecar_ = std::move(sidecar);
  return true;
}

void ShardIndex::build() {
  const int64_t began = now_nanoseconds();
  const auto count = static_cast<int64_t>(paths_.size());
  Built built;
  built.counts.resize(paths_.size());
  built.blocks.resize(paths_.size());
  built.labels.resize(paths_.size());
  IndexProgress progress(options_.name, "shards scanned", count);
  parallel_for(count, thread_count(kThreads, count), [&](int64_t index, int) {
    const auto i = static_cast<size_t>(index);
    try {
      ShardScan scan = options_.scan(paths_[i], *store::local_files().open(paths_[i]));
      built.counts[i] = scan.count.value_or(static_cast<int64_t>(scan.extents.size()));
      if (scan.count) built.own_extents = true;
      if ((built.total += built.counts[i]) <= kMostStored) built.blocks[i] = encode_extents(scan.extents);
      built.labels[i] = std::move(scan.labels);
    } catch (const Error& error) {
      throw data_error(error.message(), options_.where, error.help());
    }
    if (options_.counts && (*options_.counts)[i] != built.counts[i]) {
      throw data_error(fmt::format("`{}` has {} samples, but the description of the data set says {}", paths_[i],
                                   human_count(built.counts[i]), human_count((*options_.counts)[i])),
                       options_.where, "the file is cut short or of another version: copy it again");
    }
    progress.add(1);
  });
  own_extents_ = built.own_extents;
  first_ = {0};
  for (size_t i = 0; i < paths_.size(); ++i) {
    first_.push_back(first_.back() + built.counts[i]);
    labels_.add(built.labels[i]);
  }
  stored_ = own_extents_ || size() <= kMostStored;
  if (!own_extents_ && stored_) {
    for (std::string& one : built.blocks) {
      built_blocks_ += one;
      block_ends_.push_back(built_blocks_.size());
      block_crcs_.push_back(checksum(one));
      one = {};
    }
  }
  int64_t newest = 0;
  for (const FileStamp& stamp : stamps_) newest = std::max(newest, stamp.mtime);
  if (too_fresh(newest, began)) return;
  TextList names;
  for (const std::string& name : labels_.names) names.add(name);
  const std::vector<int64_t> range = {labels_.least, labels_.most, own_extents_};
  write_sidecar(sidecar_path_, SidecarKind::kShards, fingerprint(),
                {section_of(first_),
                 section_of(block_ends_),
                 section_of(block_crcs_),
                 section_of(range),
                 {names.text},
                 section_of(names.ends),
                 {built_blocks_, false}});
}

ShardIndex::Place ShardIndex::locate(int64_t sample) const {
  const auto shard = static_cast<size_t>(std::ranges::upper_bound(first_, sample) - first_.begin() - 1);
  return {shard, sample - first_[shard]};
}

std::string_view ShardIndex::block(size_t shard) const {
  const std::string_view all = sidecar_ ? sidecar_->section(kBlocks) : std::string_view(built_blocks_);
  const uint64_t begin = shard == 0 ? 0 : block_ends_[shard - 1];
  return all.substr(begin, block_ends_[shard] - begin);
}

std::vector<Extent> ShardIndex::decode(size_t shard) const {
  const std::string_view bytes = block(shard);
  if (checksum(bytes) == block_crcs_[shard]) {
    if (auto extents = decode_extents(bytes, first_[shard + 1] - first_[shard])) return *std::move(extents);
  }
  return scan_again(shard);
}

std::vector<Extent> ShardIndex::scan_again(size_t shard) const {
  ShardScan scan = options_.scan(paths_[shard], *file(shard));
  const int64_t wanted = first_[shard + 1] - first_[shard];
  if (static_cast<int64_t>(scan.extents.size()) != wanted) {
    throw data_error(fmt::format("`{}` has {} samples, but {} are expected: the file is cut short or of another version",
                                 paths_[shard], human_count(static_cast<int64_t>(scan.extents.size())), human_count(wanted)));
  }
  return std::move(scan.extents);
}

Extent ShardIndex::extent(const Place& place) const {
  const auto extents = extents_.get(place.shard, [&] {
    auto made = std::make_shared<const std::vector<Extent>>(stored_ ? decode(place.shard) : scan_again(place.shard));
    const auto cost = static_cast<int64_t>(made->size() * sizeof(Extent));
    return LruCache<size_t, std::vector<Extent>>::Made{std::move(made), cost};
  });
  return (*extents)[static_cast<size_t>(place.sample)];
}

void ShardIndex::prefetch(int64_t sample) const {
  const Place place = locate(sample);
  try {
    const Extent bytes = extent(place);
    file(place.shard)->prefetch(bytes.offset, bytes.length);
  } catch (const Error&) {
  }
}

SourceFacts ShardIndex::facts() const {
  return {.shards = static_cast<int64_t>(paths_.size()),
          .bytes = bytes_,
          .index = sidecar_          ? IndexOrigin::kSidecar
                   : stamps_.empty() ? IndexOrigin::kNone
                                     : IndexOrigin::kBuilt,
          .sidecar = stamps_.empty() ? std::string() : sidecar_path_};
}

}  // namespace tessera::data
