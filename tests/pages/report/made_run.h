#pragma once
// Directories of runs, made without training.

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "image/codec/png.h"
#include "monitor/metrics.h"
#include "store/temp_dir.h"
#include "train/evaluate/evaluation_summary.h"
#include "train/workdir/run_facts.h"

namespace tessera::testing {

inline void write_square(const std::string& path, uint8_t shade) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  image::Image picture(8, 8);
  for (int y = 0; y < 8; ++y) std::fill_n(picture.row(y), 24, shade);
  image::write_png(path, picture.view());
}

// `root`/data/{train,val} with two images of each of `classes`.
inline void make_data(const std::string& root, const std::vector<std::string>& classes) {
  for (const char* split : {"train", "val"}) {
    for (size_t c = 0; c < classes.size(); ++c) {
      for (int i = 0; i < 2; ++i) {
        write_square(fmt::format("{}/data/{}/{}/{}.png", root, split, classes[c], i), static_cast<uint8_t>(40 * c + 20));
      }
    }
  }
}

inline std::string recipe_text(const std::string& root, const std::string& lr = "1e-3") {
  return fmt::format(R"toml(seed = 1
total = "100 steps"
[data]
source = "folder({0}/data/train)"
batch = 2
pp = "decode | resize(8) | flip_lr | value_range(-1, 1)"
[optimizer]
lr = "{1}"
[eval.val]
type = "classification"
[eval.val.data]
source = "folder({0}/data/val)"
pp = "decode | resize(8) | value_range(-1, 1)"
)toml",
                     root, lr);
}

// What a run of 100 steps measured: `val` every 20 steps.
struct Measured {
  std::vector<double> accuracy, loss, training_loss;  // at steps 20, 40, …
  double wait = 0;
};

inline void write_metrics(const std::string& run, const Measured& measured) {
  std::filesystem::create_directories(run);
  monitor::MetricWriter writer(run);
  for (size_t i = 0; i < measured.training_loss.size(); ++i) {
    const auto step = static_cast<int64_t>(20 * (i + 1));
    std::vector<monitor::Metric> row = {{"training_loss", measured.training_loss[i]},
                                        {"l2_grads", 1.0},
                                        {"lr", 1e-3},
                                        {"img/sec", 10.0},
                                        {"input_wait", measured.wait},
                                        {"input/decode", 0.75},
                                        {"input/read", 0.25},
                                        {"uptime", 5.0 + 6.0 * static_cast<double>(i + 1)},
                                        {"examples_seen", 2 * step},
                                        {"epoch", static_cast<double>(step) / 2}};
    if (i < measured.accuracy.size()) row.push_back({"val/prec@1", measured.accuracy[i]});
    if (i < measured.loss.size()) row.push_back({"val/loss", measured.loss[i]});
    row.push_back({"val/count", int64_t{1000}});
    writer.write(step, row);
  }
}

// Lines in which one kind of alert is found, and nothing else (monitor/alerts.h); `val` has two classes.
inline std::vector<monitor::MetricRow> alarming_rows(const std::string& kind) {
  std::vector<monitor::MetricRow> rows;
  for (int64_t i = 0; i < 400; ++i) {
    monitor::MetricRow& row = rows.emplace_back(monitor::MetricRow{10 * (i + 1), {}});
    const double line = static_cast<double>(i + 1);
    row.values = {{"epoch", line / 20}, {"uptime", line}, {"examples_seen", 1000 * line}};
    if (kind == "loss_spike") row.values["training_loss"] = i % 70 == 60 && i < 200 ? 50 : 2 - 0.004 * line;
    if (kind == "images") row.values.insert({{"training_loss", 2}, {"images_alike", 1}});
    row.values["img/sec"] = kind == "throughput" && i >= 200 ? 500 : 1000;
    row.values["input_wait"] = kind == "input" && i >= 200 && i < 208 ? 0.5 : 0.01;
    if (kind == "process") {
      row.values.insert({{"y/processes/slowest", 1},
                         {"y/processes/input_wait_most", i >= 200 && i < 208 ? 0.4 : 0.02},
                         {"y/processes/input_wait_others", 0.01}});
    }
    row.values["y/hostmem/resident"] = (1 << 30) * (kind == "memory" ? 1 + 0.002 * line : 1);
    if (kind == "chance" && i % 40 == 39) row.values.insert({{"val/prec@1", i < 300 ? 0.5 : 0.9}, {"val/count", 1000}});
  }
  return rows;
}

inline train::EvaluationSummary summary_of(const std::vector<std::string>& classes) {
  train::EvaluationSummary out{"val", "val", 100, {{"prec@1", true, 0.5}, {"loss", false, 1.5}}, 4, 0, classes};
  out.confusion = {{0, 0, 1}, {0, 1, 1}, {1, 0, 1}, {1, 1, 1}};
  out.worst_by = "loss";
  out.worst = {{1, classes[0] + "/1.png", 0, 1, 3.25, 0.97}, {2, classes[1] + "/0.png", 1, 0, 2}};
  return out;
}

inline train::RunFacts facts_of(const std::string& state, const std::string& message = "") {
  train::RunFacts facts{state, message, "tessera train x.toml", "tessera 0.2.0", "cpu", "cpu", "1.0"};
  facts.parameters = 1234;
  facts.flops = 1e6;
  facts.planned = {1 << 20, 1 << 19, 1 << 18, 1 << 21, 0, 1 << 20};
  facts.host_peak = 1 << 28;
  return facts;
}

// A whole run at `root`/NAME, with its data.
inline std::string make_run(const std::string& root, const std::string& name, const std::vector<std::string>& classes,
                            const std::string& lr = "1e-3") {
  std::string run = root + "/" + name;
  make_data(root, classes);
  write_metrics(run, {{0.5, 0.6, 0.7, 0.75, 0.74}, {2, 1.5, 1.2, 1.1, 1.15}, {2, 1.5, 1, 0.9, 0.8}, 0.02});
  spill(run + "/recipe.toml", recipe_text(root, lr));
  spill(run + "/run.json", train::to_json(facts_of("done")));
  std::filesystem::create_directories(run + "/evals");
  spill(run + "/evals/val.last.json", train::to_json(summary_of(classes)));
  return run;
}

}  // namespace tessera::testing
