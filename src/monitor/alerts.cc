#include "monitor/alerts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <numbers>
#include <optional>
#include <utility>

#include "base/median.h"
#include "base/text/text.h"
#include "monitor/process_figures.h"

namespace tessera::monitor {
namespace {

// The figure, where it is there and finite.
std::optional<double> find(const MetricRow& row, std::string_view name) {
  const auto found = row.values.find(name);
  return found == row.values.end() || !std::isfinite(found->second) ? std::nullopt : std::optional(found->second);
}

// Fires after `needed` bad lines in a row, and is ready again after `calm` good ones.
class Streak {
 public:
  Streak(int needed, int calm) : needed_(needed), calm_(calm) {}
  // True where this line completes it. A line that is neither bad nor good changes nothing.
  bool add(bool bad, bool good) {
    if (active_) {
      goods_ = good ? goods_ + 1 : bad ? 0 : goods_;
      if (goods_ >= calm_) reset();
      return false;
    }
    bads_ = bad ? bads_ + 1 : 0;
    return active_ = bads_ >= needed_;
  }
  int bads() const { return bads_; }
  // The lines so far are no part of it; an active one stays so.
  void interrupt() { bads_ = active_ ? bads_ : 0; }
  void reset() { bads_ = goods_ = 0, active_ = false; }

 private:
  int needed_, calm_, bads_ = 0, goods_ = 0;
  bool active_ = false;
};

// ---- loss_spike ----

constexpr size_t kLossWindow = 50, kLeastWindow = 20, kFirstLines = 5;
constexpr double kSpreads = 8, kManySpreads = 40;
constexpr double kDeviation = 1.4826;  // a standard deviation, in median distances
constexpr double kOfFall = 0.1, kMuchOfFall = 0.5;
constexpr double kCalmSpreads = 3;
constexpr int kCalmLines = 3;

class LossSpike final : public AlertDetector {
 public:
  void add(const MetricRow& row, bool, std::vector<Alert>& out) override {
    const auto loss = find(row, "training_loss");
    if (!loss) return;
    if (away_.size() >= kLossWindow) {  // it stays there
      window_.assign(away_.begin(), away_.end());
      settle();
    }
    if (window_.size() < kLeastWindow) return keep(*loss);
    const double middle = upper_median({window_.end() - kLeastWindow, window_.end()}), spread = spread_about(middle);
    lowest_ = std::min(lowest_, middle);
    const double above = *loss - middle, fall = std::max(0.0, *first_ - lowest_);
    if (active_) {
      away_.push_back(*loss);
      calm_ = above <= std::max(kCalmSpreads * spread, kOfFall * fall) ? calm_ + 1 : 0;
      if (calm_ >= kCalmLines) settle();
      return;
    }
    const bool high = above > std::max(kSpreads * spread, kOfFall * fall) && fall > 0;
    const bool very_high = above > std::max(kManySpreads * spread, kMuchOfFall * fall) && fall > 0;
    recent_.push_back(high);
    if (recent_.size() > 3) recent_.pop_front();
    if (very_high || std::ranges::count(recent_, true) >= 2) {
      active_ = true;
      out.push_back({"loss_spike", row.step,
                     fmt::format("the training loss jumped to {:.4g} at step {}, from about {:.4g}", *loss,
                                 human_count(row.step), middle),
                     "if it does not come down by itself, try a smaller learning rate, a longer warmup, or optimizer.clip"});
    } else if (!high) {
      keep(*loss);
    }
  }

 private:
  void keep(double loss) {
    window_.push_back(loss);
    if (window_.size() > kLossWindow) window_.pop_front();
    if (!first_ && window_.size() == kFirstLines) first_ = lowest_ = upper_median({window_.begin(), window_.end()});
  }
  // As a standard deviation: of a line from the next one, which a loss that falls changes little, or from the median, which one
  // that wanders does; the greater of them. Of constant losses it is a little more than nothing.
  double spread_about(double middle) const {
    std::vector<double> steps, distances;
    for (size_t i = 1; i < window_.size(); ++i) steps.push_back(std::abs(window_[i] - window_[i - 1]) / std::numbers::sqrt2);
    for (size_t i = window_.size() - kLeastWindow; i < window_.size(); ++i) distances.push_back(std::abs(window_[i] - middle));
    return std::max(kDeviation * std::max(upper_median(std::move(steps)), upper_median(std::move(distances))),
                    1e-3 * std::abs(middle));
  }
  void settle() {
    active_ = false, calm_ = 0;
    away_.clear(), recent_.clear();
  }

  std::deque<double> window_;    // lines that are no part of a spike
  std::vector<double> away_;     // since the alert
  std::deque<bool> recent_;      // of the last three lines, which were high
  std::optional<double> first_;  // median of the run's first lines
  double lowest_ = 0;            // median of a window
  bool active_ = false;
  int calm_ = 0;
};

// ---- input ----

constexpr double kDeadInput = 0.25, kLiveInput = 0.15;
constexpr int kDeadLines = 5, kLiveLines = 3;
constexpr std::string_view kStage = "input/";

std::string input_advice(const std::string& stage) {
  if (stage == "read") return "try data.cache, a faster disk, or few large files for many small ones (tessera data convert)";
  if (stage == "decode") return "try data.threads, smaller files, or data.cache; tessera data bench shows each stage";
  return "try data.threads, data.cache, or a cheaper chain; tessera data bench shows each stage";
}

class DeadInput final : public AlertDetector {
 public:
  void add(const MetricRow& row, bool start, std::vector<Alert>& out) override {
    const auto wait = find(row, "input_wait");
    if (start) streak_.reset();
    if (start || !wait || !find(row, "img/sec")) return;  // the first batches of a start are always waited for
    const bool bad = *wait >= kDeadInput;
    if (!bad || streak_.bads() == 0) stages_.clear(), waits_ = 0;
    for (const auto& [name, share] : row.values) {
      if (name.starts_with(kStage) && std::isfinite(share)) stages_[name.substr(kStage.size())] += share;
    }
    waits_ += *wait;
    if (!streak_.add(bad, *wait < kLiveInput)) return;
    const auto slowest = std::ranges::max_element(stages_, {}, [](const auto& stage) { return stage.second; });
    const bool known = slowest != stages_.end() && slowest->second > 0;
    const std::string stage = known ? slowest->first : "";
    const std::string most =
        known ? fmt::format("; {:.0f} % of the input's work is {}", 100 * slowest->second / kDeadLines, stage) : "";
    out.push_back({"input", row.step,
                   fmt::format("the devices waited {:.0f} % of the time for input, up to step {}{}", 100 * waits_ / kDeadLines,
                               human_count(row.step), most),
                   input_advice(stage)});
  }

 private:
  Streak streak_{kDeadLines, kLiveLines};
  std::map<std::string, double> stages_;  // sums over the lines of the streak
  double waits_ = 0;
};

// ---- images ----

constexpr int kAlikeLines = 2;

class ImagesAlike final : public AlertDetector {
 public:
  void add(const MetricRow& row, bool, std::vector<Alert>& out) override {
    if (!find(row, "training_loss")) return;  // not of a step
    const bool alike = find(row, "images_alike").value_or(0) > 0;
    if (!streak_.add(alike, !alike)) return;
    out.push_back({"images", row.step,
                   fmt::format("all images of a batch are the same, at step {} and the line before", human_count(row.step)),
                   "look at them with `tessera data show`, and at the column of their paths and the chain that makes them"});
  }

 private:
  Streak streak_{kAlikeLines, 1};
};

// ---- process ----

constexpr double kTogether = 0.1;  // share of the time
constexpr double kMaxProcesses = 1e9;
constexpr int kHeldUpLines = 5, kTogetherLines = 3;

class HeldUp final : public AlertDetector {
 public:
  void add(const MetricRow& row, bool start, std::vector<Alert>& out) override {
    if (start) streak_.reset();
    const std::optional<SlowestProcess> told = start ? std::nullopt : slowest_in(row);
    if (!told) return;
    if (streak_.bads() > 0 && slowest_ != told->process) streak_.interrupt();
    slowest_ = told->process;
    if (streak_.bads() == 0) by_input_ = by_peers_ = {};
    Sums& sums = told->wait == Wait::kInput ? by_input_ : by_peers_;
    sums.its += told->its, sums.others += told->others, ++sums.lines;
    if (!streak_.add(told->holds_up(), told->held_up() < kTogether)) return;
    const SlowestProcess mean{told->process, {}, sums.its / sums.lines, sums.others / sums.lines, told->wait};
    out.push_back({"process", row.step,
                   fmt::format("up to step {}: {}, and wait for it", human_count(row.step), in_words(mean)),
                   fmt::format("compare the {} of its host with those of the others; hosts.json of the run and its live page "
                               "name the host{}",
                               told->wait == Wait::kInput ? "disk, the network and the other work"
                                                          : "processors, their clock and the other work",
                               told->wait == Wait::kPeers && told->process == 0 ? "; this process also saves the run" : "")});
  }

 private:
  static std::optional<SlowestProcess> slowest_in(const MetricRow& row) {
    const auto process = find(row, "y/processes/slowest");
    if (!process || !(*process >= 0 && *process < kMaxProcesses)) return std::nullopt;
    const auto told = [&](Wait wait, const char* its_name, const char* others_name) -> std::optional<SlowestProcess> {
      const auto its = find(row, its_name), others = find(row, others_name);
      if (!its || !others) return std::nullopt;
      return SlowestProcess{static_cast<int64_t>(*process), {}, *its, *others, wait};
    };
    const auto by_input = told(Wait::kInput, "y/processes/input_wait_most", "y/processes/input_wait_others");
    return by_input ? by_input : told(Wait::kPeers, "y/processes/peer_wait_least", "y/processes/peer_wait_others");
  }

  struct Sums {
    double its = 0, others = 0;
    int lines = 0;
  };
  Streak streak_{kHeldUpLines, kTogetherLines};
  int64_t slowest_ = -1;
  Sums by_input_, by_peers_;  // over the lines of the streak
};

// ---- throughput ----

constexpr double kSlow = 0.7, kFastAgain = 0.85;
constexpr int kSlowLines = 5, kFastLines = 3;
constexpr size_t kLeastRates = 10, kMaxRates = 10'000;
constexpr double kSomeWaiting = 0.05;

// `waited`: the share of the slow time that went into waiting for input.
std::string slow_advice(double waited) {
  return waited >= kSomeWaiting
             ? "look for other work on the machine, a hot device that clocks down, or a disk that is slow to read"
             : "look for other work on the machine, or a hot device that clocks down";
}

std::string rate_text(double rate) { return fmt::format("{:.{}f}", rate, rate < 10 ? 1 : 0); }

class Throughput final : public AlertDetector {
 public:
  void add(const MetricRow& row, bool start, std::vector<Alert>& out) override {
    if (start) streak_.reset(), rates_.clear();
    const auto rate = find(row, "img/sec");
    if (start || !rate || !(*rate > 0)) return;
    if (rates_.size() >= kLeastRates) {
      const double usual = rates_[rates_.size() / 2];
      const bool slow = *rate < kSlow * usual;
      last_ = slow && streak_.bads() > 0 ? std::max(last_, *rate) : *rate;
      waits_ = find(row, "input_wait").value_or(0) + (slow && streak_.bads() > 0 ? waits_ : 0);
      if (streak_.add(slow, *rate > kFastAgain * usual)) {
        out.push_back({"throughput", row.step,
                       fmt::format("training slowed down to {} img/s or less at step {}, from {}", rate_text(last_),
                                   human_count(row.step), rate_text(usual)),
                       slow_advice(waits_ / kSlowLines)});
      }
    }
    if (rates_.size() < kMaxRates) rates_.insert(std::ranges::upper_bound(rates_, *rate), *rate);
  }

 private:
  Streak streak_{kSlowLines, kFastLines};
  std::vector<double> rates_;  // of this start, sorted
  double last_ = 0;            // the fastest of the slow lines
  double waits_ = 0;           // sum over them
};

// ---- memory ----

constexpr size_t kMemoryBlocks = 15, kMemoryBlock = 10;
constexpr double kGrowth = 0.05, kGrowthBytes = 64 << 20, kLateGrowth = 0.4, kGivenBack = 0.125;

class Memory final : public AlertDetector {
 public:
  void add(const MetricRow& row, bool start, std::vector<Alert>& out) override {
    const auto epoch = find(row, "epoch");
    if (start) blocks_.clear(), block_.clear(), first_epoch_ = epoch, told_.reset();
    if (!first_epoch_) first_epoch_ = epoch;
    const auto resident = find(row, "y/hostmem/resident");
    if (!resident || !epoch || *epoch < *first_epoch_ + 1) return;
    block_.push_back(*resident);
    if (block_.size() < kMemoryBlock) return;
    blocks_.push_back(upper_median(std::exchange(block_, {})));
    if (blocks_.size() > kMemoryBlocks) blocks_.pop_front();
    if (told_ && blocks_.back() <= *told_) told_.reset();
    if (told_ || !grows()) return;
    told_ = blocks_.back();
    out.push_back(
        {"memory", row.step,
         fmt::format("the memory of the process grows: {} at step {}, {} more than {} lines before",
                     human_bytes(blocks_.back()), human_count(row.step), human_bytes(blocks_.back() - blocks_.front()),
                     kMemoryBlocks * kMemoryBlock),
         "try a smaller data.cache or data.memory; a run that is stopped and started again goes on from its checkpoint"});
  }

 private:
  // As much as counts, not less and less, and block after block but for one: an allocator gives a little back now and then, leak
  // or not.
  bool grows() const {
    if (blocks_.size() < kMemoryBlocks) return false;
    int pauses = 0;
    double given_back = 0;
    for (size_t i = 1; i < blocks_.size(); ++i) {
      const double fall = blocks_[i - 1] - blocks_[i];
      if (fall >= 0) ++pauses, given_back += fall;
    }
    const double growth = blocks_.back() - blocks_.front(), late = blocks_.back() - blocks_[kMemoryBlocks / 2];
    return growth >= std::max(kGrowth * blocks_.front(), kGrowthBytes) && late >= kLateGrowth * growth && pauses <= 1 &&
           given_back <= kGivenBack * growth;
  }

  std::deque<double> blocks_;  // medians of so many lines each
  std::vector<double> block_;  // the one to come
  std::optional<double> first_epoch_, told_;
};

// ---- chance ----

constexpr double kErrors = 3, kClearErrors = 5;
constexpr int kChanceEvaluations = 3;
constexpr int64_t kChanceSteps = 300;

class Chance final : public AlertDetector {
 public:
  Chance(std::string evaluator, int64_t classes) : name_(std::move(evaluator)), classes_(classes) {}

  void add(const MetricRow& row, bool, std::vector<Alert>& out) override {
    const auto score = find(row, name_ + "/prec@1"), count = find(row, name_ + "/count"), epoch = find(row, "epoch");
    if (!score || !count || *count < 1 || row.step < kChanceSteps || (epoch && *epoch < 1)) return;
    const double chance = 1 / static_cast<double>(classes_), error = std::sqrt(chance * (1 - chance) / *count);
    if (!streak_.add(*score <= chance + kErrors * error, *score > chance + kClearErrors * error)) return;
    out.push_back({"chance", row.step,
                   fmt::format("`{}` is at the level of chance, 1 of {} classes, after {} steps: top1 {:.2f}", name_,
                               human_count(classes_), human_count(row.step), 100 * *score),
                   "look at images and labels (tessera data show), the learning rate, and whether the training loss falls"});
  }

 private:
  Streak streak_{kChanceEvaluations, 1};
  std::string name_;
  int64_t classes_;
};

}  // namespace

Alerts::Alerts(const ClassCounts& classes) {
  detectors_.push_back(std::make_unique<LossSpike>());
  detectors_.push_back(std::make_unique<DeadInput>());
  detectors_.push_back(std::make_unique<ImagesAlike>());
  detectors_.push_back(std::make_unique<HeldUp>());
  detectors_.push_back(std::make_unique<Throughput>());
  detectors_.push_back(std::make_unique<Memory>());
  for (const auto& [evaluator, count] : classes) {
    if (count > 1) detectors_.push_back(std::make_unique<Chance>(evaluator, count));
  }
}

// badput/init is the share of time before a start's first step. Multiplied by the core hours it is the same in all lines of a
// start, so another product means another start.
bool Alerts::is_start(const MetricRow& row) {
  const auto init = find(row, "badput/init"), hours = find(row, "core_hours"), good = find(row, "goodput"),
             input = find(row, "badput/input");
  if (!init || !hours || !good || !input || !(*good + *input > 0)) return false;
  const double now = *init * *hours / (*good + *input), before = std::exchange(init_hours_, now);
  return std::abs(now - before) > 1e-6 * std::abs(before);
}

std::vector<Alert> Alerts::add(const MetricRow& row) {
  std::vector<Alert> out;
  const bool start = is_start(row);
  for (const auto& detector : detectors_) detector->add(row, start, out);
  return out;
}

std::vector<Alert> alerts_of(const std::vector<MetricRow>& rows, const ClassCounts& classes) {
  Alerts alerts(classes);
  std::vector<Alert> out;
  for (const MetricRow& row : rows) {
    for (Alert& alert : alerts.add(row)) out.push_back(std::move(alert));
  }
  return out;
}

}  // namespace tessera::monitor
