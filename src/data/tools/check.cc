#include "data/tools/check.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/cores.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/system/file_calls.h"
#include "data/activity.h"
#include "data/loader/token_rows.h"
#include "image/codec/exif.h"

namespace tessera::data {
namespace {

constexpr auto kProgressInterval = std::chrono::milliseconds(100);
constexpr double kPatience = 60;  // seconds that a file may take before it is reported

struct FileResult {
  bool done = false;
  std::vector<int32_t> labels;  // one, in a source with classes, but for a multi-label one
  std::string reason;           // empty when the file was decoded
  image::ImageInfo info;
  image::Repairs repairs;
  bool turned = false;
  uint64_t bytes = 0;
  Hash128 hash;
};

// Sums and firsts over all samples, in whatever order.
void add_text(TextCount& count, int64_t sample, const TextValues& values) {
  for (const std::string_view text : values) {
    ++count.texts;
    if (text.empty()) ++count.empty;
    const auto size = static_cast<int64_t>(text.size());
    if (std::pair(size, -sample) > std::pair(count.longest, -count.longest_sample)) {
      count.longest = size;
      count.longest_sample = sample;
    }
  }
}

void add_texts(TextCount& sum, const TextCount& part) {
  sum.texts += part.texts;
  sum.empty += part.empty;
  if (std::pair(part.longest, -part.longest_sample) > std::pair(sum.longest, -sum.longest_sample)) {
    sum.longest = part.longest;
    sum.longest_sample = part.longest_sample;
  }
}

struct CheckWorker {
  CheckWorker(const Source& source, const Pp* pp, const image::DecodeLimits& limits)
      : decoder(limits), texts(source.text_fields().size()) {
    if (pp) tokens.emplace(*pp, source);
  }
  image::Decoder decoder;
  Sample read;
  image::Image image;
  std::vector<TextCount> texts;
  std::optional<TokenRows> tokens;
  int64_t cut_texts = 0;

  void check(const Source& source, int64_t sample, FileResult& result, Activity& activity) {
    result.done = true;
    activity.begin(0, sample, "reading");
    read.label = -1;  // that of the sample before; of a row that can't be read it stays unknown
    std::optional<std::string> unread = source.read(sample, read);
    result.labels = source.multi_label() ? read.labels : std::vector<int32_t>{read.label};
    if (unread) {
      result.reason = std::move(*unread);
      return;
    }
    result.bytes = read.image.size();
    result.hash = hash128({reinterpret_cast<const char*>(read.image.data()), read.image.size()});
    activity.enter("decoding");
    image::SampleError failed = decoder.decode(read.image, image);
    if (!failed) failed = check_texts(sample);
    if (failed) {
      result.reason = std::move(failed->reason);
    } else {
      result.info = {image::sniff_format(read.image), image.width(), image.height()};
      result.repairs = decoder.repairs();
      result.turned = image::exif_orientation(read.image) != 1;
    }
  }

  image::SampleError check_texts(int64_t sample) {
    for (size_t field = 0; field < texts.size(); ++field) add_text(texts[field], sample, read.texts[field]);
    if (!tokens) return std::nullopt;
    if (image::SampleError failed = tokens->make(read, {0, 0, static_cast<uint64_t>(sample)})) return failed;
    cut_texts += tokens->cut();
    return std::nullopt;
  }
};

// Hands out samples to threads; the calling thread reports progress.
class Checker {
 public:
  Checker(const Source& source, const Pp* pp, const image::DecodeLimits& limits, CheckReport& report)
      : source_(source), pp_(pp), limits_(limits), report_(report), results_(static_cast<size_t>(source.size())) {
    for (const std::string& field : source.text_fields()) report_.texts.push_back({field});
  }

  std::vector<FileResult> run(const CheckProgress& progress, int threads) {
    std::vector<std::thread> pool = start(threads);
    double tell_at = kPatience;
    {
      std::unique_lock lock(mutex_);
      while (!finished_.wait_for(lock, kProgressInterval, [this] { return running_ == 0; })) {
        lock.unlock();
        if (progress && !progress(done_, source_.size())) next_ = source_.size();
        tell_at = tell_what_hangs(tell_at);
        lock.lock();
      }
    }
    for (std::thread& thread : pool) thread.join();
    if (failed_) std::rethrow_exception(failed_);
    if (progress) progress(done_, source_.size());
    return std::move(results_);
  }

 private:
  std::vector<std::thread> start(int threads) {
    for (int i = 0; i < threads; ++i) activities_.emplace_back();
    std::vector<std::thread> pool;
    running_ = threads;
    try {
      for (Activity& activity : activities_) pool.emplace_back([this, &activity] { work(activity); });
    } catch (const std::system_error&) {
      if (pool.empty()) throw;  // else those that there are do it
      const std::lock_guard lock(mutex_);
      running_ -= threads - static_cast<int>(pool.size());
    }
    return pool;
  }

  // Once a file has taken `patience` seconds; gives when to tell again.
  double tell_what_hangs(double patience) const {
    double longest = 0;
    for (const Activity& activity : activities_) {
      const std::optional<Activity::Seen> seen = activity.see();
      if (!seen) continue;
      longest = std::max(longest, seen->seconds);
      if (seen->seconds < patience) continue;
      // By its number: some sources read a file to find the name.
      log_warning(fmt::format("{} sample {} of `{}` has taken {:.0f} s so far", seen->phase, seen->sample,
                              one_line(source_.name()), seen->seconds));
      return 5 * patience;
    }
    return longest < kPatience ? kPatience : patience;
  }

  void work(Activity& activity) {
    leave_out_file_calls();  // tell_what_hangs() tells of them
    try {
      CheckWorker worker(source_, pp_, limits_);
      for (int64_t i; (i = next_++) < source_.size(); ++done_) {
        worker.check(source_, i, results_[static_cast<size_t>(i)], activity);
      }
      activity.rest();
      const std::lock_guard lock(mutex_);
      for (size_t field = 0; field < worker.texts.size(); ++field) add_texts(report_.texts[field], worker.texts[field]);
      report_.cut_texts += worker.cut_texts;
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failed_ = std::current_exception();
      next_ = source_.size();
    }
    const std::lock_guard lock(mutex_);
    if (--running_ == 0) finished_.notify_all();
  }

  const Source& source_;
  const Pp* pp_;
  image::DecodeLimits limits_;
  CheckReport& report_;  // it fills in the texts
  std::vector<FileResult> results_;
  std::deque<Activity> activities_;  // of the threads
  std::atomic<int64_t> next_ = 0, done_ = 0;
  std::mutex mutex_;
  std::condition_variable finished_;
  int running_ = 0;
  std::exception_ptr failed_;
};

// Whether the file's name ends as those of another image format do.
bool named_otherwise(const std::string& id, image::ImageFormat format) {
  const image::ImageFormat named = image::format_of_name(id);
  return named != image::ImageFormat::kUnknown && named != format;
}

void add_size(CheckReport& report, const Source& source, int64_t sample, const image::ImageInfo& info, int64_t& fewest,
              int64_t& most) {
  const int64_t pixels = int64_t{info.width} * info.height;
  if (most == 0) {
    report.min_width = info.width;
    report.min_height = info.height;
  }
  report.min_width = std::min(report.min_width, info.width);
  report.max_width = std::max(report.max_width, info.width);
  report.min_height = std::min(report.min_height, info.height);
  report.max_height = std::max(report.max_height, info.height);
  if (most == 0 || pixels < fewest) {
    fewest = pixels;
    report.smallest = source.id(sample);
  }
  if (pixels > most) {
    most = pixels;
    report.largest = source.id(sample);
  }
}

bool same_bytes(const Source& source, int64_t a, int64_t b) {
  Sample first, second;
  if (source.read(a, first) || source.read(b, second)) return false;
  return std::ranges::equal(first.image, second.image);
}

void find_duplicates(CheckReport& report, const Source& source, const std::vector<FileResult>& results) {
  std::map<std::pair<uint64_t, uint64_t>, std::vector<int64_t>> by_hash;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].bytes > 0) by_hash[{results[i].hash.high, results[i].hash.low}].push_back(static_cast<int64_t>(i));
  }
  for (const auto& [hash, samples] : by_hash) {
    DuplicateFiles group;
    for (const int64_t sample : samples) {
      if (!group.samples.empty() && !same_bytes(source, group.samples.front(), sample)) continue;
      group.samples.push_back(sample);
      group.ids.push_back(source.id(sample));
      const auto labels = [&](int64_t s) { return results[static_cast<size_t>(s)].labels; };
      if (labels(sample) != labels(group.samples.front())) group.labels_differ = true;
    }
    if (group.samples.size() > 1) report.duplicates.push_back(std::move(group));
  }
  std::ranges::sort(report.duplicates, {}, [](const DuplicateFiles& group) { return group.samples.front(); });
}

std::string odd_reason(const image::ImageInfo& info, int64_t median) {
  const int longer = std::max(info.width, info.height), shorter = std::min(info.width, info.height);
  if (longer > CheckReport::kMaxAspect * shorter) return fmt::format("a side is {} times the other", longer / shorter);
  const int64_t pixels = int64_t{info.width} * info.height;
  if (pixels * CheckReport::kMaxArea < median) return fmt::format("{} times fewer pixels than the median", median / pixels);
  return {};
}

void find_odd_sizes(CheckReport& report, const Source& source, const std::vector<FileResult>& results) {
  std::vector<int64_t> areas;
  for (const FileResult& result : results) {
    if (result.info.width > 0) areas.push_back(int64_t{result.info.width} * result.info.height);
  }
  if (areas.empty()) return;
  const auto middle = areas.begin() + static_cast<ptrdiff_t>(areas.size() / 2);
  std::nth_element(areas.begin(), middle, areas.end());
  for (size_t i = 0; i < results.size(); ++i) {
    const image::ImageInfo& info = results[i].info;
    if (info.width == 0) continue;
    std::string reason = odd_reason(info, *middle);
    const auto sample = static_cast<int64_t>(i);
    if (!reason.empty()) report.odd_sizes.push_back({sample, source.id(sample), info.width, info.height, std::move(reason)});
  }
}

}  // namespace

CheckReport check_source(const Source& source, const CheckProgress& progress, int threads, const Pp* pp,
                         const image::DecodeLimits& limits) {
  if (threads <= 0) threads = static_cast<int>(usable_cores());
  CheckReport report;
  const std::vector<FileResult> results = Checker(source, pp, limits, report).run(progress, threads);
  for (TextCount& texts : report.texts) {
    if (texts.longest_sample >= 0) texts.longest_id = source.id(texts.longest_sample);
  }
  const bool stopped = std::ranges::any_of(results, [](const FileResult& result) { return !result.done; });
  if (!stopped) report.damaged_shards = find_damaged_shards(source.shard_paths(), threads);
  for (const std::string& name : source.class_names()) report.classes.push_back({name, 0, 0});
  int64_t fewest = 0, most = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    const FileResult& result = results[i];
    const auto sample = static_cast<int64_t>(i);
    if (!result.done) continue;
    ++report.samples;
    report.file_bytes += result.bytes;
    const bool readable = result.reason.empty();
    if (readable && source.multi_label()) report.unlabelled += result.labels.empty();
    for (const int32_t label : report.classes.empty() ? std::vector<int32_t>() : result.labels) {
      if (label < 0) continue;
      ClassCount& count = report.classes[static_cast<size_t>(label)];
      ++count.samples;
      if (!readable) ++count.unreadable;
    }
    if (!readable) {
      report.unreadable.push_back({sample, source.id(sample), result.reason});
      continue;
    }
    ++report.formats[static_cast<size_t>(result.info.format)];
    report.repairs.add(result.repairs);
    report.with_orientation += result.turned;
    report.misnamed += named_otherwise(source.id(sample), result.info.format);
    add_size(report, source, sample, result.info, fewest, most);
  }
  for (const FileResult& result : results) report.hashes.push_back(result.bytes > 0 ? result.hash : Hash128());
  find_duplicates(report, source, results);
  find_odd_sizes(report, source, results);
  return report;
}

}  // namespace tessera::data
