#include "train/reporting/profiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/median.h"
#include "base/system/cpu_samples.h"
#include "base/system/file_calls.h"
#include "base/system/process.h"
#include "base/system/spans.h"
#include "base/text/text.h"
#include "pjrt/code_names.h"
#include "pjrt/plugin/profiler.h"
#include "pjrt/program/hlo.h"
#include "store/file.h"

namespace tessera::train {
namespace {

constexpr size_t kRing = 50;        // steps
constexpr double kTimesSlower = 3;  // than the median
constexpr double kLeastLoss = 0.1;  // seconds beyond it: of shorter steps a busy machine makes three times as long ones
constexpr int64_t kStepsLookedAt = 10;
constexpr int64_t kWarmUp = 3, kFirstSteps = 20;  // of plan_first_steps
constexpr auto kFirstTime = std::chrono::seconds(3);
constexpr auto kMaxLookedAt = std::chrono::seconds(30);
constexpr int kMaxOfARun = 3;  // profiles of slow steps
constexpr auto kWritePatience = std::chrono::seconds(10);
constexpr const char* kSlow = "_slow";

int64_t unix_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// What is to be recorded.
struct Order {
  std::string reason, suffix;
  std::optional<int64_t> last;                       // the step that ends it,
  Profiles::Clock::time_point not_before;            // or a later one
  std::optional<Profiles::Clock::time_point> until;  // or when
  Profiles::Done done;                               // null: the console gets the table
};

}  // namespace

bool is_slow_step(double seconds, std::vector<double> before) {
  if (before.size() < kRing) return false;
  const double median = upper_median(std::move(before));
  return seconds > kTimesSlower * median && seconds > median + kLeastLoss;
}

struct Profiles::Work : std::enable_shared_from_this<Work> {
  explicit Work(std::string workdir_path) : workdir(std::move(workdir_path)), place(store::local_files().info(workdir)) {}

  const std::string workdir;
  const std::optional<store::FileInfo> place;  // of the workdir, when the run began
  std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<const pjrt::Plugin> plugin;
  std::shared_ptr<const pjrt::Executable> program;
  bool on_cpu = false;
  std::string left_out;               // why the plugin's profiler records nothing
  bool busy = false;                  // from the start of a recording until it is written
  int threads = 0;                    // that have not told what became of theirs
  std::optional<int64_t> last;        // step of the one under way,
  Clock::time_point not_before;       // which goes on until then
  std::optional<Recording> recorded;  // once the loop ended it
  bool ending = false;

  // Why not; empty: it has begun.
  std::string begin(Order order);
  void record(const Order& order, std::optional<pjrt::Profiler> device);
  void expect_in_place() const;
  Recording wait_for_end(const Order& order);
  std::vector<profile::CpuTime> stop_samples(const Recording& recording);
  int slow_ones() const;
};

std::string Profiles::Work::begin(Order order) {
  std::shared_ptr<const pjrt::Plugin> of;
  std::string without;
  {
    const std::lock_guard lock(mutex);
    if (ending) return "the run has ended";
    if (busy || !start_recording()) return "the run is being profiled already";
    busy = true;
    ++threads;
    last = order.last;
    not_before = order.not_before;
    recorded.reset();
    of = left_out.empty() ? plugin : nullptr;
    without = left_out;
    if (on_cpu && !start_cpu_samples())
      log_warning("the system gives no samples of processor time; the profile is without them");
  }
  if (!without.empty()) log_note(fmt::format("the profile has what the host does: {}", without));
  std::optional<pjrt::Profiler> device;
  try {
    if (of) device = pjrt::Profiler::start(of);
  } catch (const Error& error) {
    log_warning(error.message() + "; the profile has what the host does");
  }
  try {
    std::thread([work = shared_from_this(), order = std::move(order), device = std::move(device)]() mutable {
      work->record(order, std::move(device));
    }).detach();
  } catch (const std::system_error& error) {
    stop_recording();
    stop_cpu_samples();
    const std::lock_guard lock(mutex);
    busy = false;
    --threads;
    last.reset();
    return fmt::format("the system has no thread for a profile: {}", error.code().message());
  }
  return {};
}

// On the thread of this profile.
void Profiles::Work::record(const Order& order, std::optional<pjrt::Profiler> device) {
  name_thread("profile");
  leave_out_file_calls();  // nobody waits for them
  ProfileOutcome outcome;
  try {
    profile::Profile profile{
        .recording = wait_for_end(order), .device = {}, .cpu = {}, .host = host_name(), .reason = order.reason};
    profile.cpu = stop_samples(profile.recording);
    profile.unix_begin = unix_nanoseconds() - (span_clock() - profile.recording.begin);
    try {
      if (device) profile.device = device->stop();
    } catch (const Error& error) {
      log_warning(error.message() + "; the profile has what the host did");
    }
    expect_in_place();
    outcome.files = profile::write_profile(workdir, std::move(profile), order.suffix);
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    outcome.failure = error.message();
  } catch (const std::exception& error) {
    outcome.failure = error.what();
  }
  device.reset();
  {
    const std::lock_guard lock(mutex);
    busy = false;
  }
  if (order.done) order.done(outcome);
  if (!outcome.failure.empty()) {
    if (!order.done) log_warning(fmt::format("no profile was written: {}", outcome.failure));
  } else if (order.done || !order.suffix.empty()) {
    log_line(fmt::format("profile ({}): {}", order.reason, outcome.files.directory));
  } else {
    log_line(fmt::format("{}\n{}", outcome.files.table, outcome.files.directory));
  }
  const std::lock_guard lock(mutex);
  --threads;
  changed.notify_all();
}

// Nothing is made in the place of a workdir that was moved or removed.
void Profiles::Work::expect_in_place() const {
  const auto there = store::local_files().info(workdir);
  if (there && place && there->id == place->id) return;
  throw data_error(fmt::format("the workdir `{}` was moved or removed meanwhile", workdir));
}

Recording Profiles::Work::wait_for_end(const Order& order) {
  std::unique_lock lock(mutex);
  const auto over = [this] { return ending || recorded.has_value(); };
  order.until ? (void)changed.wait_until(lock, *order.until, over) : changed.wait(lock, over);
  last.reset();
  if (!recorded) recorded = stop_recording();
  return std::move(*std::exchange(recorded, std::nullopt));
}

// None where the processors are not the device.
std::vector<profile::CpuTime> Profiles::Work::stop_samples(const Recording& recording) {
  const CpuSamples taken = stop_cpu_samples();
  std::shared_ptr<const pjrt::Plugin> of;
  std::shared_ptr<const pjrt::Executable> step;
  {
    const std::lock_guard lock(mutex);
    of = plugin;
    step = program;
  }
  if (taken.samples.empty() || !of) return {};
  if (taken.lost > 0)
    log_warning(fmt::format("{} samples of processor time found no room and are missing", human_count(taken.lost)));
  pjrt::HloModule instructions;
  try {
    std::string format;
    if (step) instructions = pjrt::parse_hlo(step->optimized_program(&format), format);
  } catch (const Error& error) {
    log_warning(error.message() + "; the profile does not say which layers were computed");
  }
  return profile::cpu_times(taken.samples, recording, pjrt::CodeNames(*of), instructions);
}

// That earlier starts of the run left.
int Profiles::Work::slow_ones() const {
  try {
    const std::string directory = profile::profiles_directory(workdir);
    if (!store::local_files().info(directory)) return 0;
    const auto entries = store::local_files().list(directory);
    return static_cast<int>(
        std::ranges::count_if(entries, [](const auto& entry) { return entry.name.find(kSlow) != std::string::npos; }));
  } catch (const Error&) {
    return kMaxOfARun;
  }
}

Profiles::Profiles(std::string workdir, recipe::ProfilePlan plan)
    : plan_(plan), work_(std::make_shared<Work>(std::move(workdir))) {}
Profiles::~Profiles() { end(); }

void Profiles::watch(std::shared_ptr<const pjrt::Plugin> plugin, bool on_cpu) {
  const std::lock_guard lock(work_->mutex);
  work_->plugin = std::move(plugin);
  work_->on_cpu = on_cpu;
}

void Profiles::leave_device_out(const std::string& why) {
  const std::lock_guard lock(work_->mutex);
  work_->left_out = why;
}

void Profiles::watch(std::shared_ptr<const pjrt::Executable> program) {
  const std::lock_guard lock(work_->mutex);
  work_->program = std::move(program);
}

void Profiles::plan_first_steps(int64_t step) {
  plan_.first = step + kWarmUp + 1;
  plan_.last = step + kWarmUp + kFirstSteps;
  least_ = kFirstTime;
}

void Profiles::ask(double seconds, const Done& done) {
  const auto duration = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  Order order{.reason = fmt::format("{:.4g} s, as asked", seconds),
              .suffix = {},
              .last = {},
              .not_before = {},
              .until = Clock::now() + duration,
              .done = done};
  const std::string failure = work_->begin(std::move(order));
  if (!failure.empty()) done({{}, failure});
}

void Profiles::before(int64_t step) {
  const int64_t last = plan_.last;
  if (steps_taken_ || step < plan_.first || step > last) return;
  std::string reason = step == last ? fmt::format("step {}", step) : fmt::format("steps {}-{}", step, last);
  if (least_.count() > 0) reason = fmt::format("from step {} on", step);
  // While another is taken, the rest of the steps may still be recorded.
  steps_taken_ =
      work_->begin({.reason = reason, .suffix = {}, .last = last, .not_before = Clock::now() + least_, .until = {}, .done = {}})
          .empty();
}

void Profiles::settled(int64_t step, Clock::time_point ready) {
  {
    const std::lock_guard lock(work_->mutex);
    if (work_->last && step >= *work_->last && ready >= work_->not_before) {
      work_->last.reset();
      work_->recorded = stop_recording();
      work_->changed.notify_all();
    }
  }
  const std::optional<Clock::time_point> before = std::exchange(ready_, ready);
  if (before) look_at(step, std::chrono::duration<double>(ready - *before).count());
}

void Profiles::look_at(int64_t step, double seconds) {
  if (plan_.slow_steps && !slow_taken_ && is_slow_step(seconds, times_) && work_->slow_ones() < kMaxOfARun) {
    const std::string reason = fmt::format("after step {}, which took {:.3g} s, {:.1f} times the median of those before it",
                                           step, seconds, seconds / upper_median(times_));
    Order order{.reason = reason,
                .suffix = kSlow,
                .last = step + kStepsLookedAt,
                .not_before = {},
                .until = Clock::now() + kMaxLookedAt,
                .done = {}};
    slow_taken_ = work_->begin(std::move(order)).empty();
    if (slow_taken_) {
      log_note(fmt::format("step {} took {:.3g} s, {:.1f} times the median of those before it; the next {} steps are profiled",
                           human_count(step), seconds, seconds / upper_median(times_), kStepsLookedAt));
    }
  }
  if (times_.size() < kRing) {
    times_.push_back(seconds);
  } else {
    times_[static_cast<size_t>(measured_) % kRing] = seconds;
  }
  ++measured_;
}

void Profiles::end() {
  std::unique_lock lock(work_->mutex);
  work_->ending = true;
  work_->changed.notify_all();
  const bool written = work_->changed.wait_for(lock, kWritePatience, [this] { return work_->threads == 0; });
  if (!written) log_warning("a profile takes long to write, and is left behind");
}

}  // namespace tessera::train
