#include "data/index/shards.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text/text.h"
#include "data/index/manifest_check.h"
#include "data/index/progress.h"
#include "store/encoding/crc32c.h"
#include "store/servers/buckets.h"
#include "store/servers/egress.h"
#include "store/url.h"

namespace tessera::data {
namespace {

// Sections of the sidecar.
enum : size_t { kCounts, kBlockEnds, kBlockCrcs, kLabelRange, kLabelNames, kLabelEnds, kBlocks, kSections };

constexpr int kShardThreads = 16;  // waiting for disks, not for cores

uint32_t block_crc(std::string_view bytes) { return store::crc32c(store::as_bytes(bytes)); }

}  // namespace

std::shared_ptr<const store::ReadableFile> ShardFiles::open(size_t shard, const std::string& path) const {
  using Made = LruCache<size_t, store::ReadableFile>::Made;
  return files_.get(shard, [&] { return Made{store::files_at(path).open(path), 1}; });
}

// What scanning gives, shard by shard.
struct ShardIndex::Built {
  std::vector<int64_t> counts;
  std::vector<std::string> extents;
  std::vector<LabelColumn> labels;
  std::vector<LabelsFound> found;
  std::atomic<int64_t> total = 0;
  std::atomic<bool> own_extents = false;
};

ShardIndex::ShardIndex(std::vector<std::string> paths, ShardIndexOptions options)
    : paths_(std::move(paths)), options_(std::move(options)) {
  auto counts = check_manifests(paths_, options_.where);
  if (!options_.counts) options_.counts = std::move(counts);
  if (!paths_.empty() && store::is_bucket(paths_.front()) && store::egress_of(paths_.front())) {
    stat_all();
    store::expect_egress_allowed(paths_.front(), static_cast<int64_t>(bytes_), options_.where);
  }
  if (options_.counts && !options_.needs_labels) {
    first_ = {0};
    for (const int64_t count : *options_.counts) first_.push_back(first_.back() + count);
    if (size() > kMaxStored) return;
    first_.clear();
  }
  sidecar_path_ = sidecar_path(identity(), absolute_path(paths_.empty() ? "" : paths_.front()));
  stat_all();
  if (!load()) build();
}

void ShardIndex::stat_all() {
  stamps_.resize(paths_.size());
  const auto count = static_cast<int64_t>(paths_.size());
  const bool remote = std::ranges::any_of(paths_, [](const std::string& path) { return store::is_remote(path); });
  const int64_t grain = remote ? 1 : 256;
  try {
    parallel_for((count + grain - 1) / grain, thread_count(count > 4 * grain ? kShardThreads : 1, count),
                 [&](int64_t part, int) {
                   for (int64_t i = part * grain; i < std::min(count, (part + 1) * grain); ++i)
                     stamps_[static_cast<size_t>(i)] = stamp_of(paths_[static_cast<size_t>(i)]);
                 });
  } catch (const Error& error) {
    throw data_error(error.message(), options_.where, error.help());
  }
  bytes_ = 0;
  for (const FileStamp& stamp : stamps_) bytes_ += static_cast<uint64_t>(stamp.size);
}

std::string ShardIndex::identity() const {
  const char* labels = options_.label_lists ? " with lists of labels" : " with labels";
  return options_.call + (options_.needs_labels ? labels : "");
}

Hash128 ShardIndex::fingerprint() const {
  Hasher hasher;
  hasher.add(identity());
  for (const std::string& path : paths_) hasher.add(path);
  hasher.add({reinterpret_cast<const char*>(stamps_.data()), stamps_.size() * sizeof(FileStamp)});
  return hasher.finish();
}

std::optional<uint64_t> ShardIndex::stamp(int64_t sample) const {
  const size_t shard = locate(sample).shard;
  return stamps_.empty() ? stamp_number(paths_[shard]) : stamp_number(stamps_[shard]);
}

std::string ShardIndex::id(int64_t sample) const {
  const Place place = locate(sample);
  return fmt::format("{}#{}", std::filesystem::path(paths_[place.shard]).filename().string(), place.sample);
}

bool ShardIndex::load() {
  auto sidecar = Sidecar::open(sidecar_path_, SidecarKind::kShardIndex, fingerprint(), kSections);
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
  if (!sidecar->readable()) {
    first_.clear(), block_ends_.clear(), block_crcs_.clear(), labels_ = {};
    return false;
  }
  sidecar_ = std::move(sidecar);
  return true;
}

void ShardIndex::build() {
  const int64_t began = now_nanoseconds();
  const auto count = static_cast<int64_t>(paths_.size());
  Built built;
  built.counts.resize(paths_.size());
  built.extents.resize(paths_.size());
  built.labels.resize(paths_.size());
  built.found.resize(paths_.size());
  IndexProgress progress(options_.name, "shards scanned", count);
  parallel_for(count, thread_count(kShardThreads, count), [&](int64_t index, int) {
    const auto i = static_cast<size_t>(index);
    try {
      ShardScan scan = scan_shard(i, *store::files_at(paths_[i]).open(paths_[i]));
      built.counts[i] = scan.samples();
      if (scan.count) built.own_extents = true;
      built.found[i].add(scan.labels);
      if ((built.total += built.counts[i]) <= kMaxStored) {
        built.extents[i] = encode_extents(scan.extents);
        built.labels[i] = std::move(scan.labels);
      }
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
    labels_.merge(built.found[i]);
  }
  stored_ = own_extents_ || size() <= kMaxStored;
  if (size() <= kMaxStored) join_blocks(built);
  keep(began);
}

// Blocks of extents, then of labels; there is one of the two at least.
void ShardIndex::join_blocks(Built& built) {
  if (own_extents_ && !options_.needs_labels) return;
  const std::vector<std::string> names(labels_.names.begin(), labels_.names.end());
  for (size_t i = 0; i < paths_.size(); ++i) {
    const std::string block = std::exchange(built.extents[i], {}) + std::exchange(built.labels[i], {}).encode(names);
    built_blocks_ += block;
    block_ends_.push_back(built_blocks_.size());
    block_crcs_.push_back(block_crc(block));
  }
}

void ShardIndex::keep(int64_t began) const {
  int64_t newest = 0;
  for (const FileStamp& stamp : stamps_) newest = std::max(newest, stamp.mtime);
  if (too_fresh(newest, began)) return;
  TextList names;
  for (const std::string& name : labels_.names) names.add(name);
  const std::vector<int64_t> range = {labels_.least, labels_.most, own_extents_};
  write_sidecar(sidecar_path_, SidecarKind::kShardIndex, fingerprint(),
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

// A copy: what was checked is what is used, also where the mapped file can't be read a second time.
std::string ShardIndex::block(size_t shard) const {
  if (block_ends_.empty()) return {};
  const std::string_view all = sidecar_ ? sidecar_->section(kBlocks) : std::string_view(built_blocks_);
  const uint64_t begin = shard == 0 ? 0 : block_ends_[shard - 1];
  std::string bytes(all.substr(begin, block_ends_[shard] - begin));
  return block_crc(bytes) == block_crcs_[shard] ? bytes : std::string();
}

ShardScan ShardIndex::scan_shard(size_t shard, const store::ReadableFile& file) const {
  ShardScan scan = options_.scan(paths_[shard], file, options_.needs_labels);
  TESSERA_CHECK(scan.labels.size() == (options_.needs_labels ? scan.samples() : 0));
  return scan;
}

ShardScan ShardIndex::scan_again(size_t shard) const {
  ShardScan scan = scan_shard(shard, *file(shard));
  if (scan.samples() != samples_of(shard)) {
    throw data_error(fmt::format("`{}` has {} samples, but {} are expected: the file is cut short or of another version",
                                 paths_[shard], human_count(scan.samples()), human_count(samples_of(shard))));
  }
  return scan;
}

std::vector<Extent> ShardIndex::extents_of(size_t shard) const {
  const std::string kept = block(shard);
  std::string_view bytes = kept;
  if (auto extents = take_extents(bytes, samples_of(shard))) return *std::move(extents);
  return scan_again(shard).extents;
}

std::optional<CodedLabels> ShardIndex::decode(std::string_view labels, size_t shard,
                                              const std::vector<std::string>& names) const {
  const auto most = static_cast<int64_t>(names.size());
  if (options_.label_lists) return decode_label_lists(labels, samples_of(shard), most);
  auto one_of_each = decode_labels(labels, samples_of(shard), most);
  return one_of_each ? std::optional(CodedLabels{*std::move(one_of_each), {}}) : std::nullopt;
}

CodedLabels ShardIndex::labels_of(size_t shard, const std::vector<std::string>& names) const {
  const std::string kept = block(shard);
  std::string_view bytes = kept;
  if (own_extents_ || take_extents(bytes, samples_of(shard))) {
    if (auto labels = decode(bytes, shard, names)) return *std::move(labels);
  }
  return decode(scan_again(shard).labels.encode(names), shard, names).value();
}

bool ShardIndex::visit_labels(const std::vector<SampleRange>& ranges, const VisitLabels& visit) const {
  if (size() > kMaxStored) return false;
  if (!options_.needs_labels) {
    ShardIndexOptions options = options_;
    options.needs_labels = true;
    return ShardIndex(paths_, std::move(options)).visit_labels(ranges, visit);
  }
  const std::vector<std::string> names(labels_.names.begin(), labels_.names.end());
  std::optional<size_t> decoded;
  CodedLabels labels;
  for (const SampleRange& range : ranges) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      const Place place = locate(i);
      if (decoded != place.shard) labels = labels_of(place.shard, names);
      decoded = place.shard;
      visit(labels.of(place.sample), names);
    }
  }
  return true;
}

Extent ShardIndex::extent(const Place& place) const {
  const auto extents = extents_.get(place.shard, [&] {
    auto made = std::make_shared<const std::vector<Extent>>(extents_of(place.shard));
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
          .sidecar = stamps_.empty() ? std::string() : sidecar_path_,
          .call = identity()};
}

}  // namespace tessera::data
