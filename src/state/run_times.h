#pragma once
// Where the time of a run went, over all its starts.

namespace tessera::state {

// In seconds. Only `step` is productive: the steps that the run kept, without the time they waited for input.
struct RunTimes {
  double started = 0;  // when the first start began, in seconds since 1970; 0: not known
  double step = 0;
  double init = 0;        // of the program, before the first step: recipe, data, devices, weights
  double compile = 0;     // waited for compilations, before the first step and later
  double restore = 0;     // of the state, from a checkpoint to the devices
  double input = 0;       // steps waited for their input
  double evaluation = 0;  // evaluators, and what sinks get of a step besides: histograms, the first images
  double save = 0;        // saves held training up
  double wasted = 0;      // work that was lost with a start that was killed after its last checkpoint

  template <class Visitor>
  void visit(Visitor&& field) {
    field("started", started), field("step", step), field("init", init), field("compile", compile);
    field("restore", restore), field("input", input), field("evaluation", evaluation), field("save", save);
    field("wasted", wasted);
  }
};

}  // namespace tessera::state
