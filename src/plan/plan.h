#pragma once
// What a recipe's training step would need and how fast it could be on some hardware: compiled for it, never run.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/section.h"
#include "plan/live_arrays.h"
#include "plan/roofline.h"
#include "plan/target.h"
#include "train/step/compile.h"

namespace tessera::plan {

// The recipe with these overrides ("accumulate=4") after its own.
using ReadRecipe = std::function<config::Section(const std::vector<std::string>& overrides)>;

// A change that makes the step fit: of the recipe ("accumulate=4"), or of the topology.
struct Proposal {
  std::string topology;
  std::vector<std::string> overrides;
  double peak_bytes = 0;
  std::optional<double> step_seconds;
};

struct Plan {
  std::string topology, device_kind, mesh;
  int64_t devices = 0, parameters = 0, batch = 0;
  std::vector<std::string> overrides;  // tried on top of the recipe's own
  // Of one device, in bytes. `temporaries`, `outputs` and `peak` are 0 when the compiler ran out of memory.
  double arguments = 0, temporaries = 0, outputs = 0, peak = 0;
  double memory = 0;  // that one device has; 0 where it is not known
  bool fits = true;
  std::string refusal;  // the compiler's words, when it gave up
  double compile_seconds = 0;
  bool compiled_before = false;      // by an earlier plan, which kept what the compiler said
  Counts counts;                     // of one device and step
  double state_bytes = 0;            // arguments read and results written
  std::optional<Roofline> roofline;  // nothing without figures of the chip
  double images_per_second = 0, mfu = 0;
  const pjrt::Chip* chip = nullptr;
  // The arrays that a device holds at the worst moment, largest first, and what they take together: what a schedule tells of the
  // peak. None and 0 where the plugin gives no schedule.
  std::vector<LiveArray> at_peak;
  double accounted = 0;
  std::vector<NamedType> largest;   // each device's part, largest first; when it does not fit
  std::vector<Proposal> proposals;  // that fit, best first; when it does not fit
};

struct PlanOptions {
  std::string topology;
  int64_t slices = 1;
  train::DeviceOptions device;
  bool propose = true;                                                           // look for what would fit
  std::function<void(const std::string&)> progress = [](const std::string&) {};  // what is being done
};

// Throws usage, data and device Errors; not fitting is no error.
Plan make_plan(const ReadRecipe& read, const PlanOptions& options);

// One screen of text.
std::string plan_text(const Plan& plan);
// Several plans as rows.
std::string plan_table(const std::vector<Plan>& plans);
// One JSON object: topology, devices, device_kind, mesh, parameters, per_device {argument_bytes, temp_bytes, output_bytes,
// peak_bytes, accounted_bytes, at_peak [{name, type, bytes}] (the five largest), hbm_bytes, flops, hbm_traffic_bytes,
// collectives {kind: {count, bytes}}}, fits, step_seconds, bound, images_per_second, mfu, compile_seconds, compiled_before,
// proposals [{topology, overrides, peak_bytes, step_seconds}].
std::string plan_json(const Plan& plan);

}  // namespace tessera::plan
