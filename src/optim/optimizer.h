#pragma once
// From gradients to new parameters: clipping, schedule, per-pattern rules and an update rule, as functions of a graph.
//
//   Optimizer optimizer(recipe.section("optimizer"), length);      // every mistake of the recipe is found here …
//   optimizer.bind(params);                                        // … or here, where names are known
//   // in a graph:
//   Values grads = gradient(loss, <values of the parameters that trainable(i)>);
//   Optimizer::Result r = optimizer.apply(values, grads, slots, step);
//
// Frozen parameters have no gradient, no slots and no update. Slots are named arrays beside the parameters: "mu/<param>",
// "nu/<param>", grouped by slot, zero at the start, f32 or, where the recipe says so and the slot bears it, bf16. A slot has
// its parameter's shape, or that with 1 in place of some dimensions.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/section.h"
#include "ir/graph.h"
#include "optim/clip.h"
#include "optim/param.h"
#include "optim/rules.h"
#include "optim/schedule/schedule.h"
#include "optim/update_rule.h"

namespace tessera::optim {

struct OptimizerOptions : RuleOptions {
  std::string lr;
  double weight_decay = 0;
  std::string clip = "none";
  std::string moments = "f32";
  int64_t lookahead = 0;
  double lookahead_alpha = 0.5;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("lr", lr, "learning-rate schedule: cosine(1e-3, warmup=50 steps); tessera help schedules lists all");
    field("weight_decay", weight_decay, "weight decay, where the mask lets it act");
    field("decay_mask", decay_mask, "which parameters decay: timm, big_vision, all, none");
    field("decay_rules", decay_rules, "rules \"PATTERN = FACTOR\" that come before decay_mask");
    field("clip", clip, "gradient clipping: none, norm(1.0), value(0.5), adaptive(0.01)");
    field("moments", moments, "f32, or bf16 for what is not harmed by it: Adam's first moment, SGD's momentum");
    field("lr_mult", lr_mult, "rules \"PATTERN = FACTOR\" for the learning rate; 0 freezes");
    field("schedules", schedules,
          "rules \"PATTERN = SCHEDULE\" for parameters that follow another schedule than lr; none freezes");
    field("layer_decay", layer_decay, "factor of the learning rate from each layer to the one before it, as 0.75");
    field("layer_decay_min", layer_decay_min, "what that factor comes to at least");
    field("freeze", freeze, "patterns of parameters that are not trained");
    field("lookahead", lookahead, "slow weights that follow once in so many updates (Lookahead); 0 for none");
    field("lookahead_alpha", lookahead_alpha, "how far they follow, in (0, 1]");
  }
};

class Optimizer {
 public:
  // Reads `name` and all options of the recipe's `optimizer` section.
  Optimizer(config::Section section, const RunLength& length);

  // Settles the rules for these parameters (all f32). Call once, before what follows.
  void bind(Params params);

  const std::string& name() const { return name_; }
  const OptimizerOptions& options() const { return options_; }
  const Schedule& schedule() const { return schedule_; }
  const ParamRule& rule(size_t param) const { return rules_[param]; }
  bool trainable(size_t param) const { return !rules_[param].frozen; }
  // The slots of the trainable parameters, in the order of apply's `slots`.
  const Params& slots() const { return slots_; }

  // On the host what the schedules say of the update after `step` of them, plateaus' scales left out: "lr/PATTERN" for each rule
  // of `schedules`, and "momentum" and "momentum/PATTERN" where a schedule cycles it.
  std::vector<std::pair<std::string, double>> schedules_at(int64_t step) const;

  struct Result {
    ir::Values values;    // new parameters, all of them
    ir::Values slots;     // new slots
    ir::Value lr;         // the schedule at `step`, f32
    ir::Value grad_norm;  // global norm of the gradients before clipping, f32
  };
  // values: all parameters; grads: those of the trainable ones, f32; slots: as slots(); step: integer scalar, 0 at the first
  // update; lr_scale: f32 scalar that the plateau schedule `lr` is multiplied by, none for other schedules; grad_norm: the
  // global norm of the gradients, where the caller has it.
  Result apply(const ir::Values& values, const ir::Values& grads, const ir::Values& slots, ir::Value step,
               ir::Value lr_scale = {}, ir::Value grad_norm = {}) const;

 private:
  void place_slots();
  void read_schedules(const RunLength& length);
  void check_momentum(const Schedule& schedule, const char* key) const;
  ir::Value rate_of(const ParamRule& rule, ir::Value rate, const Param& param) const;

  config::Section section_;
  std::string name_;
  OptimizerOptions options_;
  Schedule schedule_;
  std::vector<Schedule> more_schedules_;  // of the rules `schedules`, a frozen one's not used
  std::unique_ptr<Clip> clip_;
  std::unique_ptr<UpdateRule> update_;
  Params params_, trained_, slots_;
  std::vector<std::vector<size_t>> slots_of_;  // of each trained parameter: places in slots_
  std::vector<ParamRule> rules_;
};

}  // namespace tessera::optim
