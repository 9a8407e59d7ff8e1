#include "monitor/profile/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/printable.h"
#include "base/text/text.h"

namespace tessera::profile {
namespace {

constexpr size_t kRows = 15;  // of a table
constexpr size_t kNameWidth = 40;

class Totals {
 public:
  void add(const std::string& name, int64_t time) {
    Total& total = by_name_[name];
    total.name = name;
    ++total.count;
    total.time += time;
    total.longest = std::max(total.longest, time);
  }
  std::vector<Total> sorted() const {
    std::vector<Total> out;
    for (const auto& [name, total] : by_name_) out.push_back(total);
    std::ranges::stable_sort(out, std::greater(), &Total::time);
    return out;
  }

 private:
  std::map<std::string, Total> by_name_;
};

bool is_phase(SpanKind kind) { return kind == SpanKind::kPhase || kind == SpanKind::kStep; }

// Of the phases of one thread, which contain each other or stand apart.
void add_phases(const ThreadRecord& thread, Totals& totals) {
  struct Open {
    SpanRecord span;
    int64_t own;  // without what it contains
  };
  std::vector<SpanRecord> spans;
  std::ranges::copy_if(thread.spans, std::back_inserter(spans), [](const SpanRecord& span) { return is_phase(span.kind); });
  std::ranges::sort(
      spans, [](const SpanRecord& a, const SpanRecord& b) { return std::pair(a.begin, b.end) < std::pair(b.begin, a.end); });
  std::vector<Open> open;
  const auto close = [&] {
    const Open& last = open.back();
    totals.add(last.span.kind == SpanKind::kStep ? "all else" : last.span.name, last.own);
    open.pop_back();
  };
  for (const SpanRecord& span : spans) {
    while (!open.empty() && open.back().span.end <= span.begin) close();
    if (!open.empty()) open.back().own -= span.end - span.begin;
    open.push_back({span, span.end - span.begin});
  }
  while (!open.empty()) close();
}

// Steps that were cut off by the begin or the end are no measure.
void add_steps(const Recording& recording, Summary& out) {
  std::vector<int64_t> times;
  for (const ThreadRecord& thread : recording.threads) {
    for (const SpanRecord& span : thread.spans) {
      const bool whole = span.begin > recording.begin && span.end < recording.end;
      if (span.kind != SpanKind::kStep || !whole) continue;
      times.push_back(span.end - span.begin);
      if (times.back() <= out.slowest_step) continue;
      out.slowest_step = times.back();
      out.slowest = span.number;
    }
  }
  out.steps = static_cast<int64_t>(times.size());
  if (times.empty()) return;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  out.median_step = *middle;
}

std::vector<Total> device_totals(const std::vector<DevicePlane>& device) {
  Totals totals;
  for (const DevicePlane& plane : device) {
    if (!plane.is_device()) continue;
    // A plugin that has a line of operations draws the same time again in lines of steps, modules and names.
    const auto is_ops = [](const DeviceLine& line) { return line.name == "XLA Ops"; };
    const bool has_ops = std::ranges::any_of(plane.lines, is_ops);
    for (const DeviceLine& line : plane.lines) {
      if (has_ops ? !is_ops(line) : !line.name.starts_with("Stream")) continue;
      for (const DeviceEvent& event : line.events) totals.add(event.name, event.duration);
    }
  }
  return totals.sorted();
}

std::string seconds(int64_t nanoseconds) {
  const double value = static_cast<double>(nanoseconds) / 1e9;
  if (value >= 1) return fmt::format("{:.2f} s", value);
  return value >= 1e-3 ? fmt::format("{:.2f} ms", value * 1e3) : fmt::format("{:.1f} us", value * 1e6);
}

std::string short_name(const std::string& name) {
  std::string out = one_line(name);
  if (out.size() > kNameWidth - 2) out = out.substr(0, kNameWidth - 5) + "...";
  return out;
}

double share(int64_t part, int64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

// `whole`: what the shares are of.
std::string section(const std::string& title, const std::vector<Total>& rows, int64_t whole) {
  if (rows.empty()) return {};
  std::string out = fmt::format("\n\n{:<{}} {:>10} {:>7} {:>9} {:>10} {:>10}", title, kNameWidth, "time", "share", "times",
                                "mean", "longest");
  for (size_t i = 0; i < std::min(rows.size(), kRows); ++i) {
    const Total& row = rows[i];
    out +=
        fmt::format("\n  {:<{}} {:>10} {:>5.1f} % {:>9} {:>10} {:>10}", short_name(row.name), kNameWidth - 2, seconds(row.time),
                    share(row.time, whole), row.count, seconds(row.time / row.count), seconds(row.longest));
  }
  if (rows.size() > kRows) out += fmt::format("\n  and {} more", rows.size() - kRows);
  return out;
}

// A row for each part, `each` to how many the time is divided.
std::string part_rows(const std::vector<PartTime>& parts, int64_t each, int64_t all) {
  std::string out;
  for (size_t i = 0; i < std::min(parts.size(), kRows); ++i) {
    out += fmt::format("\n  {:<{}} {:>10} {:>10} {:>5.1f} %", short_name(parts[i].part), kNameWidth - 2,
                       seconds(parts[i].forward / each), parts[i].gradient > 0 ? seconds(parts[i].gradient / each) : "",
                       share(parts[i].all(), all));
  }
  if (parts.size() > kRows) out += fmt::format("\n  and {} more", parts.size() - kRows);
  return out;
}

std::string operation_rows(const std::vector<CpuTime>& times, int64_t each, int64_t all) {
  std::map<std::string, int64_t> operations;
  for (const CpuTime& time : times) operations[time.operation] += time.time;
  std::vector<std::pair<std::string, int64_t>> sorted(operations.begin(), operations.end());
  std::ranges::stable_sort(sorted, std::greater(), &std::pair<std::string, int64_t>::second);
  std::string out;
  for (size_t i = 0; i < std::min(sorted.size(), kRows); ++i) {
    out += fmt::format("\n  {:<{}} {:>10} {:>5.1f} %", short_name(sorted[i].first), kNameWidth - 2,
                       seconds(sorted[i].second / each), share(sorted[i].second, all));
  }
  if (sorted.size() > kRows) out += fmt::format("\n  and {} more", sorted.size() - kRows);
  return out;
}

int64_t sum(const std::vector<CpuTime>& times) {
  int64_t all = 0;
  for (const CpuTime& time : times) all += time.time;
  return all;
}

// Times of a step where there were steps, else of the whole profile; then what was no step's.
std::string cpu_sections(const Summary& summary) {
  std::vector<CpuTime> steps, beside;
  for (const CpuTime& time : summary.cpu) (is_beside_steps(time.scope) ? beside : steps).push_back(time);
  std::string out;
  if (!steps.empty()) {
    const int64_t each = std::max<int64_t>(1, summary.steps), all = sum(steps);
    const char* title = summary.steps > 0 ? "processor time of a step" : "processor time";
    out += fmt::format("\n\n{:<{}} {:>10} {:>10} {:>7}", fmt::format("{}: {}", title, seconds(all / each)), kNameWidth,
                       "forward", "gradient", "share");
    out += part_rows(part_times(steps), each, all);
    out += fmt::format("\n\n{:<{}} {:>10} {:>7}", "by operation", kNameWidth, "time", "share");
    out += operation_rows(steps, each, all);
  }
  if (!beside.empty()) {
    const int64_t all = sum(beside);
    out += fmt::format("\n\n{:<{}} {:>10} {:>10} {:>7}", fmt::format("processor time beside the steps: {}", seconds(all)),
                       kNameWidth, "time", "", "share");
    out += part_rows(part_times(beside), 1, all);
  }
  return out;
}

int64_t sum(const std::vector<Total>& totals) {
  int64_t all = 0;
  for (const Total& total : totals) all += total.time;
  return all;
}

}  // namespace

Summary summarise(const Profile& profile, const std::vector<DevicePlane>& device) {
  const Recording& recording = profile.recording;
  Summary out;
  out.duration = recording.end - recording.begin;
  out.lost = recording.lost;
  Totals phases, input, kernels, runtime, saves;
  for (const ThreadRecord& thread : recording.threads) {
    add_phases(thread, phases);
    bool of_input = false;
    for (const SpanRecord& span : thread.spans) {
      Totals* totals = nullptr;
      if (span.kind == SpanKind::kInput) totals = &input, of_input = true;
      if (span.kind == SpanKind::kKernel) totals = &kernels;
      if (span.kind == SpanKind::kRuntime) totals = &runtime;
      if (span.kind == SpanKind::kSave) totals = &saves;
      if (totals) totals->add(span.name, span.end - span.begin);
    }
    out.input_threads += of_input;
  }
  add_steps(recording, out);
  out.phases = phases.sorted();
  out.input = input.sorted();
  out.kernels = kernels.sorted();
  out.runtime = runtime.sorted();
  out.saves = saves.sorted();
  out.device = device_totals(device);
  out.cpu = profile.cpu;
  return out;
}

std::string table(const Summary& summary, const std::string& reason) {
  std::string out = fmt::format("profile of {} ({})", seconds(summary.duration), reason);
  if (summary.steps > 0) {
    out += fmt::format("\n{} whole steps, {} each (median); the slowest is {} with {}", summary.steps,
                       seconds(summary.median_step), human_count(summary.slowest), seconds(summary.slowest_step));
  }
  out += section("training loop", summary.phases, sum(summary.phases));
  out +=
      section(fmt::format("input, {} threads", summary.input_threads), summary.input, summary.duration * summary.input_threads);
  out += section("operations of the device", summary.device, sum(summary.device));
  out += cpu_sections(summary);
  out += section("kernels of the host's processor", summary.kernels, summary.duration);
  out += section("calls of the plugin", summary.runtime, summary.duration);
  out += section("checkpoints", summary.saves, summary.duration);
  if (summary.lost > 0) out += fmt::format("\n\n{} spans found no room and are missing", human_count(summary.lost));
  return out;
}

}  // namespace tessera::profile
