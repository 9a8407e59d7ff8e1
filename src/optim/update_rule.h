#pragma once
// The formula of one optimizer for one parameter. A new optimizer is one file with a factory, and a line in optimizers.def.

#include <memory>
#include <string>
#include <vector>

#include "config/section.h"
#include "ir/graph.h"

namespace tessera::optim {

struct UpdateContext {
  ir::Value step;           // f32 scalar: 1 for the first update
  ir::Value lr;             // f32 scalar: schedule times the parameter's multiplier
  ir::Value schedule;       // f32 scalar: the schedule relative to its base rate, without multiplier
  double weight_decay = 0;  // 0 where the mask says so
};

struct Update {
  ir::Value value;   // the new parameter
  ir::Values slots;  // its new slots
};

struct Slot {
  std::string name;
  // May be kept in bf16. Not so a running mean whose change in one step is below bf16's precision: it would stand still.
  bool coarse = false;
};

class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  // What is kept between updates for each parameter, in its shape, zero at the start: {"mu", "nu"}.
  virtual std::vector<Slot> slots() const = 0;
  // All f32, elementwise in the parameter's shape.
  virtual Update update(ir::Value value, ir::Value grad, const ir::Values& slots, const UpdateContext& context) const = 0;
};

#define TESSERA_OPTIMIZER(name, factory) std::unique_ptr<UpdateRule> factory(config::Section section);
#include "optim/optimizers.def"
#undef TESSERA_OPTIMIZER

}  // namespace tessera::optim
