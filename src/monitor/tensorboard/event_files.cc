#include "monitor/tensorboard/event_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "base/log.h"
#include "base/text/text.h"
#include "monitor/tensorboard/event.h"
#include "store/encoding/tfrecord_frame.h"

namespace tessera::monitor {
namespace {

constexpr std::string_view kEventFile = "events.out.tfevents.", kSuffix = ".tessera";
constexpr size_t kDigits = 10;

std::string file_name(int64_t number) { return fmt::format("{}{:0{}}{}", kEventFile, number, kDigits, kSuffix); }

// Nothing for a file that is not ours.
std::optional<int64_t> number_of_file(std::string_view name) {
  if (name.size() != kEventFile.size() + kDigits + kSuffix.size()) return std::nullopt;
  if (!name.starts_with(kEventFile) || !name.ends_with(kSuffix)) return std::nullopt;
  int64_t number = 0;
  for (const char digit : name.substr(kEventFile.size(), kDigits)) {
    if (digit < '0' || digit > '9') return std::nullopt;
    number = 10 * number + (digit - '0');
  }
  return number;
}

struct Event {
  std::string_view record;  // with its frame
  EventFacts facts;
};

// The events of a file up to its end or its first damage.
std::vector<Event> events_of(std::string_view bytes) {
  constexpr size_t kFrame = store::kTfrecordHeader + store::kTfrecordFooter;
  std::vector<Event> events;
  while (bytes.size() >= kFrame) {
    const std::optional<uint64_t> length = store::tfrecord_length(bytes.substr(0, store::kTfrecordHeader));
    if (!length || *length > bytes.size() - kFrame) break;
    const std::string_view data = bytes.substr(store::kTfrecordHeader, *length);
    if (!store::tfrecord_intact(data, bytes.substr(store::kTfrecordHeader + *length, store::kTfrecordFooter))) break;
    const std::optional<EventFacts> facts = read_event(data);
    if (!facts) break;
    events.push_back({bytes.substr(0, kFrame + *length), *facts});
    bytes.remove_prefix(kFrame + *length);
  }
  return events;
}

struct OldFile {
  std::string path;
  store::Bytes bytes;
  std::vector<Event> events;
};

// The records at the start of a file that belong to no step: its version, and start_event.
constexpr size_t kPreamble = 2;

// Whether the file is one of ours whose start came no later than `kept_step`.
bool is_kept(const OldFile& file, int64_t kept_step) {
  return file.events.size() > kPreamble && file.events[1].facts.start && file.events[1].facts.step <= kept_step;
}

// Keeps the events that `keep` names; a file without any is removed.
void rewrite(store::FileSystem& files, const OldFile& file, const std::vector<Event>& kept) {
  size_t size = 0;
  for (const Event& event : kept) size += event.record.size();
  if (kept.size() <= kPreamble) return files.remove_file(file.path);
  if (size == file.bytes.size()) return;
  store::write_atomic(files, file.path, [&](const std::string& temporary) {
    const auto out = files.create(temporary);
    for (const Event& event : kept) out->write(store::as_bytes(event.record));
    out->sync();
    out->close();
  });
}

}  // namespace

void EventFile::add(std::string_view event) {
  file_.add(fmt::format("{}{}{}", store::tfrecord_header(event), event, store::tfrecord_footer(event)));
}

EarlierEvents cut_event_files(store::FileSystem& files, const std::string& directory, int64_t kept_step,
                              const std::set<int64_t>& wanted) {
  EarlierEvents out;
  std::vector<OldFile> old;
  int64_t last = 0;
  for (const store::FileInfo& info : files.list(directory)) {
    const std::optional<int64_t> number = number_of_file(info.name);
    if (!number) continue;
    last = std::max(last, *number);
    OldFile file{store::join_path(directory, info.name), {}, {}};
    if (info.size > 0) file.bytes = files.map(file.path);
    file.events = events_of(store::as_text(file.bytes.data));
    if (!file.bytes.readable())
      log_warning(
          fmt::format("`{}` can't be read to its end: TensorBoard's images and histograms there are lost, and its figures are "
                      "written again",
                      file.path));
    if (!is_kept(file, kept_step)) {
      files.remove_file(file.path);
      continue;
    }
    for (const Event& event : file.events) {
      if (event.facts.scalars && event.facts.step <= kept_step) out.scalar_steps.insert(event.facts.step);
    }
    old.push_back(std::move(file));
  }
  const auto missing = std::ranges::find_if(wanted, [&](int64_t step) { return !out.scalar_steps.contains(step); });
  const int64_t first_missing = missing == wanted.end() ? std::numeric_limits<int64_t>::max() : *missing;
  out.scalar_steps.erase(out.scalar_steps.lower_bound(first_missing), out.scalar_steps.end());
  for (const OldFile& file : old) {
    std::vector<Event> kept;
    for (const Event& event : file.events) {
      const EventFacts& facts = event.facts;
      if (facts.of_run || facts.step > kept_step || (facts.scalars && facts.step >= first_missing)) continue;
      kept.push_back(event);
    }
    rewrite(files, file, kept);
  }
  out.next_path = store::join_path(directory, file_name(last + 1));
  return out;
}

}  // namespace tessera::monitor
