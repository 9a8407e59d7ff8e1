#pragma once
// When a run is profiled, and what becomes of it (src/monitor/profile):
//   - the steps of `monitor.profile = "steps 2-6"`;
//   - for some seconds when somebody asks (tessera profile RUN, control_socket.h);
//   - the ten steps after one that took more than three times the median of those before it, once a start and three times a run.
// A profile is collected and written on a thread of its own. It never ends a run, and one that can't be written is a warning.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "monitor/profile/files.h"
#include "pjrt/executable.h"
#include "pjrt/plugin/plugin.h"
#include "recipe/recipe.h"

namespace tessera::train {

// Whether a step that took `seconds` is to be looked at, after `before`, the latest 50 or so.
bool is_slow_step(double seconds, std::vector<double> before);

// What became of a profile that was asked for.
struct ProfileOutcome {
  profile::ProfileFiles files;
  std::string failure;  // empty: it is written
};

class Profiles {
 public:
  using Clock = std::chrono::steady_clock;
  using Done = std::function<void(const ProfileOutcome&)>;  // called once, on any thread; must not throw

  Profiles(std::string workdir, recipe::ProfilePlan plan);
  // end(), if nobody called it.
  ~Profiles();
  Profiles(const Profiles&) = delete;
  Profiles& operator=(const Profiles&) = delete;

  // Whose devices are recorded too, from the next profile on. Where they are this machine's processors (`on_cpu`), samples say
  // what these compute.
  void watch(std::shared_ptr<const pjrt::Plugin> plugin, bool on_cpu);
  // The plugin's profiler is not used. `why` is said with each profile.
  void leave_device_out(const std::string& why);
  // Whether steps after `step` are to be profiled, as is known before the run compiles its programs.
  bool planned(int64_t step) const { return plan_.first > 0 && plan_.last > step; }
  // The step's program: what the plugin compiled is named after its instructions.
  void watch(std::shared_ptr<const pjrt::Executable> program);

  // ---- on any thread ----
  // One of so many seconds, from now on. Refused while another is taken or written.
  void ask(double seconds, const Done& done);

  // ---- for the loop ----
  // Steps after `step` are profiled, once what a start does in its first ones is over: 20 of them, or as many as take 3 seconds.
  void plan_first_steps(int64_t step);
  // `step` will be dispatched next.
  void before(int64_t step);
  // The metrics of `step` are known, and were ready at `ready`.
  void settled(int64_t step, Clock::time_point ready);
  // Something else than steps came in between: the time of the next one is no measure.
  void interrupted() { ready_.reset(); }
  // What is being taken is cut off; waits until it is written, but not for ever.
  void end();

 private:
  struct Work;
  void look_at(int64_t step, double seconds);

  recipe::ProfilePlan plan_;
  Clock::duration least_{};     // time of the steps that are planned, be they more than planned
  std::shared_ptr<Work> work_;  // the threads' too
  std::optional<Clock::time_point> ready_;
  std::vector<double> times_;  // of the latest steps, in seconds; a ring
  int64_t measured_ = 0;
  bool steps_taken_ = false, slow_taken_ = false;
};

}  // namespace tessera::train
