#include "train/reporting/reporter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/log.h"
#include "base/warning_listener.h"
#include "monitor/host_usage.h"
#include "pjrt/chip.h"
#include "train/reporting/hyper_parameters.h"
#include "train/reporting/model_flops.h"

namespace tessera::train {
namespace {

// The order of the metrics that the step program gives.
constexpr size_t kLoss = 0, kLr = 4;

constexpr double kWaitWorthAWord = 0.02;

// Devices whose memory is reported, at most: as many as a host has.
constexpr size_t kMaxDevices = 8;

// On the console prec@1 is top1.
constexpr std::string_view kPrec = "prec@";
std::string shown_name(const std::string& score) {
  return score.starts_with(kPrec) ? "top" + score.substr(kPrec.size()) : score;
}

// Evaluations about an epoch apart or more, and so near to the end of one, are that epoch's.
constexpr double kNearEpoch = 0.2;

// Averaged weights stay where they began for long, and are left out.
monitor::ClassCounts class_counts(const recipe::Recipe& recipe) {
  monitor::ClassCounts counts;
  for (const recipe::EvalPlan& plan : recipe.evals) {
    if (plan.options.type == "classification") counts[plan.name] = recipe.model->input().classes;
  }
  return counts;
}

}  // namespace

Reporter::Reporter(const recipe::Recipe& recipe, const std::string& workdir, int64_t cores, std::string command,
                   std::string version)
    : recipe_(recipe),
      workdir_(workdir),
      cores_(cores),
      command_(std::move(command)),
      version_(std::move(version)),
      writer_(workdir),
      alerts_(class_counts(recipe)) {}

// Both are cut to the end of `kept_step`.
void Reporter::begin_files(int64_t kept_step) {
  writer_.truncate_after(kept_step);
  // What was told of is not told again.
  for (const monitor::MetricRow& row : monitor::read_metrics(writer_.metrics_path())) alerts_.add(row);
  if (recipe_.monitor.sinks.empty()) return;
  begin_sinks(kept_step);
  set_warning_listener([sinks = sinks_](const std::string& text) { sinks->put(monitor::Text{"warnings", text}); });
}

void Reporter::begin_sinks(int64_t kept_step) {
  sinks_->begin(recipe_.monitor.sinks, {workdir_, kept_step, monitor::time_now(), uptime(), command_, version_});
  sinks_->put(hyper_parameters(recipe_.text));
  sinks_->put(monitor::Text{"recipe", monitor::as_code(recipe_.text)});
}

void Reporter::catch_up(const state::Progress& progress) {
  earlier_ = progress.seconds;
  if (recipe_.monitor.sinks.empty()) return;
  begin_sinks(progress.step);
  finish({});
}

Reporter::~Reporter() { set_warning_listener(nullptr); }

void Reporter::finish(const monitor::RunEnd& end) {
  set_warning_listener(nullptr);
  sinks_->put(end);
  sinks_->finish();
}

void Reporter::resume(const state::Progress& progress, double last_save) {
  const int64_t kept_step = progress.owed ? progress.step - 1 : progress.step;
  state::RunTimes times = progress.times;
  earlier_ = progress.seconds;
  // Of the starts before this one, as far as their lines tell.
  double last_uptime = 0;
  if (const auto row = monitor::last_metrics(writer_.metrics_path())) {
    const auto uptime = row->values.find("uptime");
    if (uptime != row->values.end()) last_uptime = uptime->second;
    // The line of a run's end comes after its save, and the checkpoint does not know how long that took.
    if (row->step <= kept_step && last_uptime > earlier_) {
      times.save += last_uptime - earlier_;
      earlier_ = last_uptime;
      last_save = 0;
    }
  }
  if (last_save > 0) {
    times.save += last_save;
    earlier_ += last_save;
    timings_.push_back({"save", {last_save, 1}});
  }
  clock_.resume(times, earlier_, last_uptime);
  interval_step_ = progress.step;
  begin_files(kept_step);
  // A run of its own writes one of step 1. One that began with another's state may be stopped before its first.
  if (kept_step > 0 && !recipe_.run.resume && !monitor::last_metrics(writer_.metrics_path())) {
    log_warning(fmt::format("`{}` has no line of the steps up to {}: it was removed or cut, and the run's curves begin here",
                            writer_.metrics_path(), kept_step));
  }
}

void Reporter::watch(const pjrt::Client& client) {
  client_ = &client;
  const pjrt::Chip* chip = pjrt::chip_of_device(client.devices().front().kind);
  if (!chip) return;
  peak_flops_ = recipe_.compute == DType::kBF16 ? chip->bf16_flops : chip->f32_flops;
  flops_per_image_ = model_flops(recipe_) / static_cast<double>(recipe_.batch);
}

void Reporter::begin() {
  clock_.begin();
  std::vector<monitor::ScoreColumn> columns;
  const auto add = [&](const std::string& evaluator, std::vector<evaluators::ScoreKind> kinds) {
    // As Scores has them.
    std::stable_partition(kinds.begin(), kinds.end(), [](const evaluators::ScoreKind& kind) { return kind.share; });
    for (const evaluators::ScoreKind& kind : kinds) {
      if (shows(kind.name)) columns.push_back({evaluator, shown_name(kind.name), recipe::in_per_cent(kind.name, kind.share)});
    }
  };
  for (const recipe::EvalPlan& plan : recipe_.evals) {
    add(plan.name, plan.evaluator->score_kinds());
    if (recipe_.average) add(recipe::averaged_name(plan.name), plan.evaluator->score_kinds());
  }
  console_.begin(in_epochs(), recipe_.total, std::move(columns));
  begin_interval(Clock::now());
}

void Reporter::waited(double seconds) {
  wait_ += seconds;
  clock_.add(&state::RunTimes::input, seconds);
}

void Reporter::begin_interval(Clock::time_point start) {
  earlier_seconds_ += interval_seconds();
  earlier_wait_ += wait_;
  interval_ = ready_ = start;
  paused_ = {};
  wait_ = 0;
  if (loader_) stages_ = loader_->stages();
}

double Reporter::uptime() const { return earlier_ + seconds_of(Clock::now() - start_); }

double Reporter::interval_seconds() const { return std::max(seconds_of(ready_ - interval_ - paused_), 0.0); }

Reporter::Pause::~Pause() {
  // A line may have been written meanwhile, and a new interval begun.
  reporter_.paused_ += Clock::now() - std::max(*reporter_.pause_, reporter_.interval_);
  reporter_.pause_.reset();
  if (reporter_.waited_for_peers_) reporter_.peers_paused_ += reporter_.waited_for_peers_() - reporter_.peers_at_pause_;
}

void Reporter::watch_peers(std::function<double()> waited) {
  waited_for_peers_ = std::move(waited);
  peers_paused_ = waited_for_peers_();
}

Reporter::Timed::~Timed() {
  const double seconds = seconds_of(Clock::now() - start_);
  if (phase_) reporter_.clock_.add(phase_, seconds);
  if (name_.empty()) return;
  auto& timings = reporter_.timings_;
  auto at = std::ranges::find(timings, name_, &std::pair<std::string, Timing>::first);
  if (at == timings.end()) at = timings.insert(at, {name_, {}});
  at->second.seconds += seconds;
  ++at->second.count;
}

std::vector<std::pair<const char*, double>> Reporter::stage_shares() const {
  if (!loader_) return {};
  std::vector<std::pair<const char*, double>> now = loader_->stages().named();
  const auto before = stages_.named();
  double sum = 0;
  for (size_t i = 0; i < now.size(); ++i) sum += now[i].second -= before[i].second;
  for (auto& [name, share] : now) share = sum > 0 ? share / sum : 0;
  return now;
}

// The examples and epochs of each set of a mixture.
void Reporter::add_sets(int64_t step, std::vector<monitor::Metric>& out) const {
  const std::vector<data::DataSet>& sets = recipe_.data.sets;
  if (!loader_ || sets.size() < 2) return;
  const std::vector<uint64_t> seen = loader_->seen(step);
  for (size_t i = 0; i < sets.size(); ++i) {
    out.push_back({"examples_seen/" + sets[i].name, static_cast<int64_t>(seen[i])});
    out.push_back({"epoch/" + sets[i].name, static_cast<double>(seen[i]) / static_cast<double>(sets[i].source->size())});
  }
}

// prec@5 of five classes or fewer is always 1.
bool Reporter::shows(const std::string& score) const { return recipe::tells_something(score, recipe_.model->input().classes); }

bool Reporter::in_epochs() const { return config::parse_duration(recipe_.run.total).unit == config::DurationUnit::kEpochs; }

bool Reporter::evaluates_at(int64_t step) const {
  return std::ranges::any_of(recipe_.evals,
                             [&](const recipe::EvalPlan& plan) { return recipe::due(plan, step, recipe_.run, recipe_.total); });
}

// What the console's table calls `step`: the epoch that ends there or, where evaluations come within epochs, a part of one.
std::optional<double> Reporter::table_epoch(int64_t step) const {
  if (!in_epochs()) return std::nullopt;
  const double epochs = recipe_.epochs(step), whole = std::round(epochs);
  const bool within = std::ranges::any_of(recipe_.evals, [&](const recipe::EvalPlan& plan) {
    return plan.every > 0 && recipe_.epochs(plan.every) < 1 - kNearEpoch;
  });
  return !within && std::abs(epochs - whole) <= kNearEpoch ? whole : epochs;
}

// Whether the table has a row here though nothing is evaluated: at the end of an epoch that no evaluation is about to show, or
// has just shown; and of a run that is not counted in epochs and has no evaluators, at each line of metrics.
bool Reporter::ends_row(int64_t step, bool log_now) const {
  if (!in_epochs()) return recipe_.evals.empty() && log_now;
  const double length = recipe_.epochs(1);  // epochs a step
  const auto whole = std::llround(recipe_.epochs(step));
  const auto at = [&](double epochs) { return std::min<int64_t>(recipe_.total, std::llround(epochs / length)); };
  if (whole < 1 || step != at(static_cast<double>(whole))) return false;
  for (int64_t near = at(static_cast<double>(whole) - 0.5) + 1; near <= at(static_cast<double>(whole) + 0.5); ++near) {
    if (evaluates_at(near)) return false;
  }
  return true;
}

monitor::StepLine Reporter::line_of(int64_t step, const state::StepMetrics& metrics, std::optional<int64_t> memory) const {
  const int64_t n = recipe_.examples_per_epoch, batch = recipe_.batch;
  monitor::StepLine line;
  line.step = step;
  line.steps = recipe_.total;
  line.epoch = (step * batch - 1) / n + 1;
  if (in_epochs()) line.epochs = static_cast<int64_t>(std::ceil(config::parse_duration(recipe_.run.total).value));
  line.steps_per_epoch = std::max<int64_t>(1, std::llround(static_cast<double>(n) / static_cast<double>(batch)));
  line.step_in_epoch = std::clamp<int64_t>(step - (line.epoch - 1) * n / batch, 1, line.steps_per_epoch);
  // Whole steps rarely end with the last epoch: what is over belongs to it.
  if (line.epochs > 0 && line.epoch > line.epochs) line.epoch = line.epochs, line.step_in_epoch = line.steps_per_epoch;
  line.loss = static_cast<double>(metrics[kLoss].value);
  line.lr = static_cast<double>(metrics[kLr].value);
  if (const double seconds = interval_seconds(); seconds > 0 && step > interval_step_) {
    line.images_per_second = static_cast<double>((step - interval_step_) * batch) / seconds;
    line.wait = std::clamp(wait_ / seconds, 0.0, 1.0);
  }
  if (line.wait > kWaitWorthAWord) {
    const auto shares = stage_shares();
    const auto slowest = std::ranges::max_element(shares, {}, &std::pair<const char*, double>::second);
    if (slowest != shares.end()) line.wait_for = slowest->first;
  }
  if (const double pace = pace_.seconds_per_step(); pace > 0) {
    line.eta_seconds = pace * static_cast<double>(recipe_.total - step);
  }
  if (memory) line.memory_bytes = static_cast<double>(*memory);
  return line;
}

// What the clock says of training since the line before, and of the run.
void Reporter::add_clocks(const monitor::StepLine& line, std::vector<monitor::Metric>& out) const {
  const state::RunTimes times = clock_.times();
  const double core_hours = (times.step + times.input) * static_cast<double>(cores_) / 3600;
  out.push_back({"core_hours", core_hours});
  if (client_) out.push_back({"core_hours_" + client_->devices().front().kind, core_hours});
  if (peak_flops_ > 0 && line.images_per_second) {
    out.push_back({"mfu", flops_per_image_ * *line.images_per_second / (peak_flops_ * static_cast<double>(cores_))});
  }
  for (monitor::Metric& share : goodput(times, monitor::time_now())) out.push_back(std::move(share));
  const auto steps = static_cast<double>(std::max<int64_t>(1, line.step - interval_step_));
  out.push_back({"z/secs/input", wait_ / steps});
  out.push_back({"z/secs/step", std::max(0.0, interval_seconds() - wait_) / steps});
}

// Means of what was timed since the line before.
void Reporter::add_timings(std::vector<monitor::Metric>& out) {
  for (const auto& [name, timing] : timings_) {
    out.push_back({"z/secs/" + name, timing.seconds / static_cast<double>(timing.count)});
  }
  timings_.clear();
}

// Since the line before.
void Reporter::add_traffic(std::vector<monitor::Metric>& out) {
  const Clock::time_point now = Clock::now();
  const auto total = monitor::host_traffic();
  const double seconds = std::chrono::duration<double>(now - traffic_at_).count();
  if (total && traffic_ && seconds > 0) {
    out.push_back({"y/hostio/read", static_cast<double>(total->read - traffic_->read) / seconds});
    out.push_back({"y/hostio/written", static_cast<double>(total->written - traffic_->written) / seconds});
  }
  traffic_ = total;
  traffic_at_ = now;
}

// Likewise: shares of the time of all of the machine's processors.
void Reporter::add_processors(std::vector<monitor::Metric>& out) {
  const auto total = monitor::processor_time();
  if (total && processors_ && total->all > processors_->all) {
    const double all = total->all - processors_->all;
    out.push_back({"y/hostcpu/used", (total->busy - processors_->busy) / all});
    out.push_back({"y/hostcpu/process", (total->process - processors_->process) / all});
  }
  processors_ = total;
}

void Reporter::add_processes(std::vector<monitor::Metric>& out) {
  const auto slowest = slowest_process_ ? slowest_process_() : std::nullopt;
  if (!slowest) return;
  const bool by_input = slowest->wait == monitor::Wait::kInput;
  out.push_back({"y/processes/slowest", slowest->process});
  out.push_back({by_input ? "y/processes/input_wait_most" : "y/processes/peer_wait_least", slowest->its});
  out.push_back({by_input ? "y/processes/input_wait_others" : "y/processes/peer_wait_others", slowest->others});
}

void Reporter::add_memory(std::vector<monitor::Metric>& out) {
  if (const auto host = monitor::host_memory()) {
    out.push_back({"y/hostmem/total", host->total});
    out.push_back({"y/hostmem/available", host->available});
    out.push_back({"y/hostmem/used", host->used()});
    out.push_back({"y/hostmem/resident", host->resident});
  }
  add_traffic(out);
  add_processors(out);
  if (!client_) return;
  const std::vector<size_t>& own = client_->own_devices();
  for (size_t device = 0; device < std::min(kMaxDevices, own.size()); ++device) {
    const auto memory = client_->memory(own[device]);
    if (!memory) continue;
    const std::string prefix = fmt::format("y/devmem/dev{}/", device);
    out.push_back({prefix + "bytes_in_use", memory->in_use});
    if (memory->peak_in_use) out.push_back({prefix + "peak_bytes_in_use", *memory->peak_in_use});
    if (memory->limit) out.push_back({prefix + "bytes_limit", *memory->limit});
  }
}

void Reporter::step(int64_t step, const state::StepMetrics& metrics, Clock::time_point ready, bool log_now,
                    std::optional<int64_t> memory) {
  ready_ = ready;
  pace_.known(step, interval_seconds());
  const auto waited = waited_for_peers_ ? std::optional(waited_for_peers_() - peers_paused_) : std::nullopt;
  loop_time_->set({step, earlier_seconds_ + interval_seconds(), earlier_wait_ + wait_, waited});
  const monitor::StepLine line = line_of(step, metrics, memory);
  console_.step(line, log_now);
  if (ends_row(step, log_now)) console_.row(table_epoch(step), step, line.loss);
}

void Reporter::write(int64_t step, const std::optional<state::StepMetrics>& metrics, const NamedScores& scores) {
  std::vector<monitor::Metric> out;
  if (metrics) {
    for (const state::StepMetric& metric : *metrics) out.push_back({metric.name, metric.value});
    const monitor::StepLine line = line_of(step, *metrics, {});
    if (const auto rate = line.images_per_second) {
      out.push_back({"img/sec", *rate});
      out.push_back({"img/sec/core", *rate / static_cast<double>(cores_)});
    }
    out.push_back({"input_wait", line.wait});
    for (const auto& [name, share] : stage_shares()) out.push_back({fmt::format("input/{}", name), share});
  }
  out.push_back({"uptime", uptime()});
  out.push_back({"examples_seen", step * recipe_.batch});
  out.push_back({"epoch", recipe_.epochs(step)});
  add_sets(step, out);
  out.push_back({"progress", static_cast<double>(step) / static_cast<double>(recipe_.total)});
  if (metrics) {
    for (const auto& [name, value] : recipe_.optimizer->schedules_at(step - 1)) out.push_back({name, value});
    add_clocks(line_of(step, *metrics, {}), out);
  }
  add_timings(out);
  add_memory(out);
  add_processes(out);
  for (const auto& [name, s] : scores) {
    for (const Score& score : s.values) out.push_back({fmt::format("{}/{}", name, score.name), score.value});
    out.push_back({name + "/count", s.count});
  }
  writer_.write(step, out);
  const std::vector<monitor::Alert> alerts = alerts_.add(monitor::parse_metrics_line(monitor::metrics_line(step, out)).value());
  sinks_->put(step, monitor::Scalars{std::move(out)});
  if (!scores.empty()) {
    writer_.write_summary(summary_of(step, metrics, scores));
    console_.row(table_epoch(step), step, metrics ? std::optional(static_cast<double>((*metrics)[kLoss].value)) : std::nullopt);
  }
  for (const monitor::Alert& alert : alerts) log_warning(fmt::format("{}; {}", alert.text, alert.advice));
  interval_step_ = step;
  pace_.end_interval();
  begin_interval(ready_);
}

// timm's columns are the recipe's first evaluator's. Every other score has a column of its own, empty where it was not due.
monitor::SummaryRow Reporter::summary_of(int64_t step, const std::optional<state::StepMetrics>& metrics,
                                         const NamedScores& scores) const {
  const auto value = [&](const std::string& evaluator, std::string_view score) -> std::optional<double> {
    const auto found = std::ranges::find(scores, evaluator, &NamedScores::value_type::first);
    return found == scores.end() ? std::nullopt : found->second.find(score);
  };
  const auto per_cent = [](std::optional<double> share) { return share ? std::optional(100 * *share) : std::nullopt; };
  const std::string& first = recipe_.evals.front().name;
  monitor::SummaryRow row{
      recipe_.epochs(step), {}, value(first, "loss"), per_cent(value(first, "prec@1")), per_cent(value(first, "prec@5")), step};
  if (metrics) row.train_loss = static_cast<double>((*metrics)[kLoss].value);
  const auto add = [&](const std::string& name, const recipe::EvalPlan& plan) {
    for (const evaluators::ScoreKind& kind : plan.evaluator->score_kinds()) {
      const bool timms = name == first && (kind.name == "loss" || kind.name == "prec@1" || kind.name == "prec@5");
      if (!timms) row.more.emplace_back(fmt::format("{}/{}", name, kind.name), value(name, kind.name));
    }
  };
  for (const recipe::EvalPlan& plan : recipe_.evals) {
    add(plan.name, plan);
    if (recipe_.average) add(recipe::averaged_name(plan.name), plan);
  }
  return row;
}

void Reporter::evaluated(const std::string& name, int64_t step, const Scores& scores, std::optional<double> best) {
  monitor::EvalLine line;
  line.name = name;
  line.step = step;
  const auto shown = [](const Score& score, double value) {
    return recipe::in_per_cent(score.name, score.share) ? 100 * value : value;
  };
  for (const Score& score : scores.values) {
    if (shows(score.name)) line.values.push_back({shown_name(score.name), shown(score, score.value)});
  }
  const Score& first = scores.values.front();
  if (best) line.change = shown(first, first.value - *best);
  line.best = best && first.better_than(*best);
  console_.evaluation(line);
}

}  // namespace tessera::train
