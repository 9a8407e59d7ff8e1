#pragma once
// What this process tells the others' leader of itself (train/process/figure_exchange.h).

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "monitor/host_usage.h"
#include "monitor/process_figures.h"
#include "pjrt/client.h"

namespace tessera::train {

// How far the loop is: written by its thread after each step, read by another.
class LoopTime {
 public:
  struct Total {
    int64_t step = 0;
    double seconds = 0, waited = 0;                  // of all steps of this start: what they took, and of that for input
    std::optional<double> for_peers = std::nullopt;  // likewise: for other processes, where that can be told
  };
  void set(const Total& total) {
    const std::lock_guard lock(mutex_);
    total_ = total;
  }
  Total get() const {
    const std::lock_guard lock(mutex_);
    return total_;
  }

 private:
  mutable std::mutex mutex_;
  Total total_;
};

// For one thread.
class OwnFigures {
 public:
  // `client`: whose first device is asked for its memory; null: none is. `step`: after which this start begins.
  OwnFigures(std::shared_ptr<const LoopTime> loop, std::shared_ptr<const pjrt::Client> client, int64_t step = 0);
  // Since the call before. Where no step ended since then, waits and time of a step are those of before.
  monitor::ProcessFigures take();

 private:
  const std::shared_ptr<const LoopTime> loop_;
  const std::shared_ptr<const pjrt::Client> client_;
  LoopTime::Total before_;
  std::optional<double> input_wait_, peer_wait_, step_seconds_;
  std::chrono::steady_clock::time_point at_ = std::chrono::steady_clock::now();
  std::optional<monitor::HostTraffic> traffic_ = monitor::host_traffic();
  std::optional<monitor::ProcessorTime> processors_ = monitor::processor_time();
};

}  // namespace tessera::train
