#include <fmt/core.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/system/process.h"
#include "base/text/digits.h"
#include "base/text/text.h"
#include "data/cache/cache.h"
#include "data/cache/whole_pictures.h"
#include "data/forwarding_source.h"
#include "data/read_file.h"
#include "store/encoding/crc32c.h"
#include "store/file.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kKeptMagic = 0x32435354;  // "TSC2"
constexpr int64_t kFilesInFolder = 1000;

// A kept sample: this, then numbers (of each field how many texts it has, and their lengths; then the labels of a multi-label
// source), the id, the texts, the image file. Little-endian.
struct KeptHeader {
  uint32_t magic, checksum;  // the checksum is of all that follows it
  int32_t label;             // of a multi-label source how many labels there are
  uint32_t id_size, numbers;
  uint32_t stamp[2];  // of the source's file, the low half first
};
constexpr size_t kUnchecked = 2 * sizeof(uint32_t);

uint32_t kept_checksum(std::string_view kept) { return store::crc32c(store::as_bytes(kept.substr(kUnchecked))); }

// `image`: the sample's file, or its picture.
std::string pack(const Sample& sample, ByteSpan image, bool multi_label, const std::string& id, uint64_t stamp) {
  std::vector<uint32_t> numbers;
  for (const auto& field : sample.texts) {
    numbers.push_back(static_cast<uint32_t>(field.size()));
    for (const std::string_view text : field) numbers.push_back(static_cast<uint32_t>(text.size()));
  }
  for (const int32_t label : multi_label ? sample.labels : std::vector<int32_t>())
    numbers.push_back(static_cast<uint32_t>(label));
  const KeptHeader header{kKeptMagic,
                          0,
                          multi_label ? static_cast<int32_t>(sample.labels.size()) : sample.label,
                          static_cast<uint32_t>(id.size()),
                          static_cast<uint32_t>(numbers.size()),
                          {static_cast<uint32_t>(stamp), static_cast<uint32_t>(stamp >> 32)}};
  std::string kept(reinterpret_cast<const char*>(&header), sizeof header);
  kept.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(uint32_t));
  kept += id;
  for (const auto& field : sample.texts) {
    for (const std::string_view text : field) kept += text;
  }
  kept.append(reinterpret_cast<const char*>(image.data()), image.size());
  const uint32_t sum = kept_checksum(kept);
  std::memcpy(kept.data() + offsetof(KeptHeader, checksum), &sum, sizeof sum);
  return kept;
}

// Points `sample` into its memory, which is a kept sample, and gives the stamp it was kept with; nothing when it is another's
// or damaged.
std::optional<uint64_t> unpack_sample(Sample& sample, bool multi_label, const std::string& id) {
  const std::string_view kept(reinterpret_cast<const char*>(sample.memory.data()), sample.memory.size());
  KeptHeader header;
  if (kept.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, kept.data(), sizeof header);
  if (header.magic != kKeptMagic || header.checksum != kept_checksum(kept)) return std::nullopt;
  size_t at = sizeof header + header.numbers * sizeof(uint32_t);
  if (at > kept.size() || kept.substr(at, header.id_size) != id) return std::nullopt;
  at += header.id_size;
  size_t next = 0;
  const auto number = [&] {
    uint32_t value;
    std::memcpy(&value, kept.data() + sizeof header + next++ * sizeof value, sizeof value);
    return value;
  };
  const auto labels = static_cast<uint32_t>(multi_label ? header.label : 0);
  if (labels > header.numbers) return std::nullopt;
  for (sample.texts.clear(); next < header.numbers - labels;) {
    sample.texts.emplace_back(number());
    for (std::string_view& text : sample.texts.back()) {
      text = kept.substr(at, number());
      at += text.size();
    }
  }
  sample.labels.clear();
  while (next < header.numbers) sample.labels.push_back(static_cast<int32_t>(number()));
  sample.label = multi_label ? 0 : header.label;
  sample.image = sample.memory.view().subspan(at);
  return header.stamp[0] | uint64_t{header.stamp[1]} << 32;
}

class DiskCache final : public ForwardingSource {
 public:
  DiskCache(std::shared_ptr<const Source> source, const std::string& path, std::shared_ptr<ByteBudget> budget,
            const std::optional<image::DecodeLimits>& decoded, bool shared)
      : ForwardingSource(std::move(source)), budget_(std::move(budget)), shared_(shared), states_(static_cast<size_t>(size())) {
    if (decoded) decoder_.emplace(*decoded);
    Hasher name;
    name.add(this->name()).add(std::to_string(size())).add(join(text_fields(), ","));
    if (multi_label()) name.add("labels").add(join(class_names(), "\n"));
    // The same table may be read by another column, and a cache from before this was known of is not asked.
    if (const std::string call = source_->facts().call; !call.empty()) name.add(call);
    if (decoded) name.add("decoded");
    folder_ = fs::path(path) / to_string(name.finish());
    find_kept();
  }

  std::optional<std::string> read(int64_t index, Sample& sample) const override {
    std::atomic<State>& state = states_[static_cast<size_t>(index)];
    if (const State now = state; has_file(now) && take(index, sample, now)) return std::nullopt;
    if (state == State::kUnknown && adopt(index, sample)) return std::nullopt;
    State expected = State::kUnknown;
    const bool first = state.compare_exchange_strong(expected, State::kLeft);
    const std::optional<uint64_t> stamp = first ? source_->stamp(index) : std::nullopt;  // before the file may change again
    if (std::optional<std::string> failed = source_->read(index, sample)) return failed;
    if (stamp && keep(index, sample, *stamp)) state = State::kKept;
    return std::nullopt;
  }

  void prefetch(int64_t index) const override {
    if (has_file(states_[static_cast<size_t>(index)])) {
      fetch_file(file_of(index));
    } else {
      source_->prefetch(index);
    }
  }

 private:
  // kFound: an earlier run kept it, and nobody has compared stamps. kLeft: not kept, or a thread is about to.
  enum class State : uint8_t { kUnknown, kFound, kKept, kLeft };
  static bool has_file(State state) { return state == State::kFound || state == State::kKept; }

  std::string file_of(int64_t index) const {
    return (folder_ / std::to_string(index / kFilesInFolder) / std::to_string(index)).string();
  }

  // Takes up what earlier runs kept, as far as the limit goes; the rest, and what they left unfinished, is removed. Where others
  // share the folder all of it is taken up, since they may be reading what goes beyond the limit of this one.
  void find_kept() {
    std::error_code none;
    for (fs::recursive_directory_iterator at(folder_, none), end; at != end; at.increment(none)) {
      if (!at->is_regular_file(none)) continue;
      const std::string file = at->path().filename();
      if (is_being_written(file)) continue;
      const bool number = file.size() < 19 && file.find_first_not_of("0123456789") == std::string::npos;
      const int64_t index = number ? std::stoll(file) : -1;
      if (index >= 0 && index < size() && count_found(static_cast<int64_t>(at->file_size(none)))) {
        states_[static_cast<size_t>(index)] = State::kFound;
      } else {
        fs::remove(at->path(), none);
      }
    }
  }

  // Whether a kept sample of `bytes` stays; it then counts.
  bool count_found(int64_t bytes) {
    if (!shared_) return budget_->take(bytes);
    budget_->add(bytes);
    return true;
  }

  // By another process, which has its number behind a point.
  static bool is_being_written(const std::string& file) {
    const size_t point = file.rfind('.');
    if (point == std::string::npos) return false;
    const int64_t writer = parse_digits(std::string_view(file).substr(point + 1)).value_or(0);
    return writer > 0 && !process_is_dead(writer);
  }

  // Reads what another process kept since this one looked.
  bool adopt(int64_t index, Sample& sample) const {
    if (read_whole_file(file_of(index), sample.memory)) return false;
    const std::optional<uint64_t> kept = unpack_sample(sample, multi_label(), id(index));
    if (!kept || source_->stamp(index) != kept) return false;
    State expected = State::kUnknown;
    // What is there counts, though it may be more than the limit: nothing is added then.
    if (states_[static_cast<size_t>(index)].compare_exchange_strong(expected, State::kKept))
      budget_->add(static_cast<int64_t>(sample.memory.size()));
    return true;
  }

  // Reads the kept sample of a sample in state `now`, if it is as the source would give it. One that isn't is removed, and may
  // be kept anew.
  bool take(int64_t index, Sample& sample, State now) const {
    std::atomic<State>& state = states_[static_cast<size_t>(index)];
    const std::string file = file_of(index);
    const std::optional<uint64_t> kept =
        read_whole_file(file, sample.memory) ? std::nullopt : unpack_sample(sample, multi_label(), id(index));
    if (kept && (now == State::kKept || source_->stamp(index) == kept)) {
      state.compare_exchange_strong(now, State::kKept);
      return true;
    }
    // Another thread may have been here.
    if (!state.compare_exchange_strong(now, State::kLeft) || !kept) return false;
    std::error_code none;
    if (fs::remove(file, none)) budget_->give_back(static_cast<int64_t>(sample.memory.size()));
    state = State::kUnknown;
    return false;
  }

  bool keep(int64_t index, const Sample& sample, uint64_t stamp) const {
    PaddedBuffer picture;
    const bool whole = decoder_ && decoder_->decode(sample.image, picture);
    const std::string kept = pack(sample, whole ? picture.view() : sample.image, multi_label(), id(index), stamp);
    const auto bytes = static_cast<int64_t>(kept.size());
    if (!budget_->take(bytes)) return false;
    const std::string file = file_of(index), partial = fmt::format("{}.{}", file, ::getpid());
    try {
      store::FileSystem& files = store::local_files();
      fs::create_directories(fs::path(file).parent_path());
      const auto out = files.create(partial);
      out->write(store::as_bytes(kept));
      out->close();
      files.rename(partial, file);  // not synced: the checksum tells what a power cut left
      return true;
    } catch (const InternalError&) {
      throw;
    } catch (const std::exception& error) {
      budget_->give_back(bytes);
      std::error_code none;
      fs::remove(partial, none);
      if (!warned_.exchange(true))
        log_warning(fmt::format("the cache in {} takes nothing more: {}", folder_.string(), error.what()));
      return false;
    }
  }

  std::shared_ptr<ByteBudget> budget_;
  const bool shared_;
  std::optional<WholePictures> decoder_;  // nothing: files are kept as they are
  fs::path folder_;
  mutable std::vector<std::atomic<State>> states_;  // by sample
  mutable std::atomic<bool> warned_ = false;
};

}  // namespace

std::shared_ptr<const Source> cache_on_disk(std::shared_ptr<const Source> source, const std::string& path,
                                            std::shared_ptr<ByteBudget> budget,
                                            const std::optional<image::DecodeLimits>& decoded, bool shared) {
  return std::make_shared<DiskCache>(std::move(source), path, std::move(budget), decoded, shared);
}

}  // namespace tessera::data
