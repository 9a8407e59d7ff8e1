#include "monitor/metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/json.h"
#include "base/text/text.h"

namespace tessera::monitor {
namespace {

constexpr std::string_view kSummaryStart = "epoch,train_loss,eval_loss,eval_top1,eval_top5";

template <class Float>
std::string float_text(Float value) {
  if (std::isnan(value)) return "\"nan\"";
  if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  return fmt::format("{}", value);
}

std::string value_text(const MetricValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return nlohmann::json(*text).dump();
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  if (const auto* number = std::get_if<float>(&value)) return float_text(*number);
  return float_text(std::get<double>(value));
}

// The step of a line that is a whole JSON object with one; nothing otherwise.
std::optional<int64_t> step_of(std::string_view line) {
  const auto json = read_json(line).value;
  if (!json.is_object()) return std::nullopt;
  const auto step = json.find("step");
  if (step == json.end() || !step->is_number_integer()) return std::nullopt;
  return step->get<int64_t>();
}

std::optional<int64_t> summary_step(std::string_view line) {
  const std::string_view text = line.substr(line.rfind(',') + 1);
  int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return step;
}

std::string cell(const std::optional<double>& value) {
  if (!value) return {};
  std::string text = float_text(*value);
  std::erase(text, '"');
  return text;
}

std::optional<double> as_number(const nlohmann::json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

}  // namespace

std::string metrics_line(int64_t step, const std::vector<Metric>& metrics) {
  std::string line = fmt::format("{{\"step\":{}", step);
  std::set<std::string_view> names{"step"};
  for (const Metric& metric : metrics) {
    TESSERA_CHECK(names.insert(metric.name).second, "metric `{}` is given twice", metric.name);
    line += fmt::format(",{}:{}", nlohmann::json(metric.name).dump(), value_text(metric.value));
  }
  return line + "}";
}

std::string summary_header(const SummaryRow& row) {
  std::string line(kSummaryStart);
  for (const auto& [name, value] : row.more) line += fmt::format(",{}", csv_text(one_line(name)));
  return line + ",step";
}

std::string summary_line(const SummaryRow& row) {
  std::string line = fmt::format("{},{},{},{},{}", cell(row.epoch), cell(row.train_loss), cell(row.eval_loss),
                                 cell(row.eval_top1), cell(row.eval_top5));
  for (const auto& [name, value] : row.more) line += fmt::format(",{}", cell(value));
  return fmt::format("{},{}", line, row.step);
}

MetricWriter::MetricWriter(const std::string& workdir, store::FileSystem& files)
    : metrics_(store::join_path(workdir, "metrics.jsonl"), files), summary_(store::join_path(workdir, "summary.csv"), files) {}

void MetricWriter::truncate_after(int64_t step) {
  metrics_.filter([&](std::string_view line) {
    const auto found = step_of(line);
    return found && *found <= step;
  });
  summary_.filter([&](std::string_view line) {
    if (line.starts_with(kSummaryStart)) return step >= 0;
    const auto found = summary_step(line);
    return found && *found <= step;
  });
}

void MetricWriter::write(int64_t step, const std::vector<Metric>& metrics) { metrics_.add(metrics_line(step, metrics)); }

void MetricWriter::write_summary(const SummaryRow& row) {
  if (summary_.empty()) summary_.add(summary_header(row));
  summary_.add(summary_line(row));
}

void MetricWriter::flush() {
  metrics_.sync();
  summary_.sync();
}

std::optional<MetricRow> parse_metrics_line(std::string_view line) {
  const auto json = read_json(line).value;
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return std::nullopt;
  MetricRow row{json["step"].get<int64_t>(), {}};
  for (const auto& [name, value] : json.items()) {
    if (const auto number = as_number(value)) row.values[name] = *number;
  }
  return row;
}

std::vector<MetricRow> read_metrics(const std::string& path, store::FileSystem& files) {
  return files.info(path) ? parse_metrics(store::read_text(files, path)) : std::vector<MetricRow>();
}

std::vector<MetricRow> parse_metrics(std::string_view text, int64_t* unreadable) {
  std::vector<MetricRow> rows;
  const std::vector<std::string> lines = split(text, '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    if (auto row = parse_metrics_line(lines[i])) {
      rows.push_back(std::move(*row));
    } else if (unreadable && !lines[i].empty() && i + 1 < lines.size()) {
      ++*unreadable;
    }
  }
  return rows;
}

std::optional<MetricRow> last_metrics(const std::string& path, store::FileSystem& files) {
  constexpr int64_t kTail = 64 << 10;  // many lines
  const auto info = files.info(path);
  if (!info) return std::nullopt;
  const int64_t begin = std::max<int64_t>(0, info->size - kTail);
  const std::vector<std::byte> tail = store::read_range(files, path, begin, info->size - begin);
  const std::vector<std::string> lines = split(store::as_text(tail), '\n');
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (auto row = parse_metrics_line(*line)) return row;
  }
  return std::nullopt;
}

}  // namespace tessera::monitor
