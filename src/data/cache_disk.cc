#include <fmt/core.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "data/cached_source.h"
#include "data/read_file.h"
#include "store/crc32c.h"
#include "store/file.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kMagic = 0x31435354;  // "TSC1"
constexpr int64_t kFilesInFolder = 1000;

// A kept sample: this, then numbers (of each field how many texts it has, and their lengths), the id, the texts, the image
// file. Little-endian.
struct Header {
  uint32_t magic, checksum;  // the checksum is of all that follows it
  int32_t label;
  uint32_t id_size, numbers;
};
constexpr size_t kUnchecked = 2 * sizeof(uint32_t);

uint32_t checksum(std::string_view kept) { return store::crc32c(store::as_bytes(kept.substr(kUnchecked))); }

std::string pack(const Sample& sample, const std::string& id) {
  std::vector<uint32_t> numbers;
  for (const auto& field : sample.texts) {
    numbers.push_back(static_cast<uint32_t>(field.size()));
    for (const std::string_view text : field) numbers.push_back(static_cast<uint32_t>(text.size()));
  }
  const Header header{kMagic, 0, sample.label, static_cast<uint32_t>(id.size()), static_cast<uint32_t>(numbers.size())};
  std::string kept(reinterpret_cast<const char*>(&header), sizeof header);
  kept.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(uint32_t));
  kept += id;
  for (const auto& field : sample.texts) {
    for (const std::string_view text : field) kept += text;
  }
  kept.append(reinterpret_cast<const char*>(sample.image.data()), sample.image.size());
  const uint32_t sum = checksum(kept);
  std::memcpy(kept.data() + offsetof(Header, checksum), &sum, sizeof sum);
  return kept;
}

// Points `sample` into its memory, which is a kept sample; false when it is another's or damaged.
bool unpack(Sample& sample, const std::string& id) {
  const std::string_view kept(reinterpret_cast<const char*>(sample.memory.data()), sample.memory.size());
  Header header;
  if (kept.size() < sizeof header) return false;
  std::memcpy(&header, kept.data(), sizeof header);
  if (header.magic != kMagic || header.checksum != checksum(kept)) return false;
  size_t at = sizeof header + header.numbers * sizeof(uint32_t);
  if (at > kept.size() || kept.substr(at, header.id_size) != id) return false;
  at += header.id_size;
  size_t next = 0;
  const auto number = [&] {
    uint32_t value;
    std::memcpy(&value, kept.data() + sizeof header + next++ * sizeof value, sizeof value);
    return value;
  };
  for (sample.texts.clear(); next < header.numbers;) {
    sample.texts.emplace_back(number());
    for (std::string_view& text : sample.texts.back()) {
      text = kept.substr(at, number());
      at += text.size();
    }
  }
  sample.label = header.label;
  sample.image = sample.memory.view().subspan(at);
  return true;
}

class DiskCache final : public CachedSource {
 public:
  DiskCache(std::shared_ptr<const Source> source, const std::string& path, std::shared_ptr<ByteBudget> budget)
      : CachedSource(std::move(source)), budget_(std::move(budget)), states_(static_cast<size_t>(size())) {
    const Hash128 name = Hasher().add(this->name()).add(std::to_string(size())).add(join(text_fields(), ",")).finish();
    folder_ = fs::path(path) / to_string(name);
    find_kept();
  }

  std::optional<std::string> read(int64_t index, Sample& sample) const override {
    std::atomic<State>& state = states_[static_cast<size_t>(index)];
    if (state == State::kKept) {
      if (!read_whole_file(file_of(index), sample.memory) && unpack(sample, id(index))) return std::nullopt;
      state = State::kLeft;
    }
    if (std::optional<std::string> failed = source_->read(index, sample)) return failed;
    State expected = State::kUnknown;
    if (state.compare_exchange_strong(expected, State::kLeft) && keep(index, sample)) state = State::kKept;
    return std::nullopt;
  }

  void prefetch(int64_t index) const override {
    if (states_[static_cast<size_t>(index)] == State::kKept) {
      fetch_file(file_of(index));
    } else {
      source_->prefetch(index);
    }
  }

 private:
  enum class State : uint8_t { kUnknown, kKept, kLeft };

  std::string file_of(int64_t index) const {
    return (folder_ / std::to_string(index / kFilesInFolder) / std::to_string(index)).string();
  }

  // Takes up what earlier runs kept, as far as the limit goes; the rest, and what they left unfinished, is removed.
  void find_kept() {
    std::error_code none;
    for (fs::recursive_directory_iterator at(folder_, none), end; at != end; at.increment(none)) {
      if (!at->is_regular_file(none)) continue;
      const std::string file = at->path().filename();
      const bool number = file.size() < 19 && file.find_first_not_of("0123456789") == std::string::npos;
      const int64_t index = number ? std::stoll(file) : -1;
      if (index >= 0 && index < size() && budget_->take(static_cast<int64_t>(at->file_size(none)))) {
        states_[static_cast<size_t>(index)] = State::kKept;
      } else {
        fs::remove(at->path(), none);
      }
    }
  }

  bool keep(int64_t index, const Sample& sample) const {
    const std::string kept = pack(sample, id(index));
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
  fs::path folder_;
  mutable std::vector<std::atomic<State>> states_;  // by sample
  mutable std::atomic<bool> warned_ = false;
};

}  // namespace

std::shared_ptr<const Source> cache_on_disk(std::shared_ptr<const Source> source, const std::string& path,
                                            std::shared_ptr<ByteBudget> budget) {
  return std::make_shared<DiskCache>(std::move(source), path, std::move(budget));
}

}  // namespace tessera::data
