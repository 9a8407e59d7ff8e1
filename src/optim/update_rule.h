#pragma once
// The formula of one optimizer for one parameter. A new optimizer is one file with a factory, and a line in optimizers.def.

#include <memory>
#include <string>
#include <vector>

#include "config/section.h"
#include "ir/graph.h"
#include "optim/param.h"

namespace tessera::optim {

struct UpdateContext {
  ir::Value step;           // f32 scalar: 1 for the first update
  ir::Value lr;             // f32: schedule times the parameter's multiplier; a scalar, or [depth, 1, …] where blocks differ
  ir::Value schedule;       // f32 scalar: the schedule relative to its base rate, without multiplier
  ir::Value base;           // f32 scalar: that base rate
  ir::Value momentum;       // f32 scalar: replaces the rule's own where the schedule cycles momentum; else none
  double weight_decay = 0;  // 0 where the mask says so
};

struct Update {
  ir::Value value;   // the new parameter
  ir::Values slots;  // its new slots
};

// What is kept between updates for one parameter, f32, zero at the start.
struct Slot {
  std::string name;
  // Of one block's array: the parameter's own, with 1 in place of dimensions that are summed over. It lies on the mesh as the
  // parameter would, those dimensions whole.
  Dims dims;
  // May be kept in bf16. Not so a running mean whose change in one step is below bf16's precision: it would stand still.
  bool coarse = false;
};

// How weight decay acts: the option `decoupled`.
enum class Decay {
  kNone,      // "none": weight_decay * value is added to the gradient, or where the optimizer's paper adds it
  kLr,        // "lr": the value shrinks by lr * weight_decay (torch's AdamW)
  kSchedule,  // "schedule": by schedule * weight_decay, whatever the base rate (big_vision)
  kSquare,    // "square": by lr^2 / base rate * weight_decay (timm's corrected_weight_decay; Defazio 2025)
};
inline constexpr const char* kDecoupledHelp =
    "weight decay apart from the gradient, scaled by: \"lr\" (torch), \"schedule\" (big_vision: without the base rate), "
    "\"square\" (lr^2 / base rate); \"none\": within it (L2)";
// A text that names none of them is a usage Error at `decoupled` of the section.
Decay parse_decay(const config::Section& section, const std::string& text);

class UpdateRule {
 public:
  explicit UpdateRule(Decay decay) : decay_(decay) {}
  virtual ~UpdateRule() = default;
  virtual std::vector<Slot> slots(const Param& param) const = 0;
  // Whether it follows UpdateContext::momentum: with SGD's momentum or Adam's b1, as torch's OneCycleLR.
  virtual bool cycles_momentum() const { return false; }
  // What is done with the gradients of all trained parameters together, after clipping.
  virtual ir::Values prepare(const ir::Values& grads) const { return grads; }
  // All f32; `value` and `grad` in the parameter's shape, slots as slots() says. Blocks of a stacked parameter are updated as
  // if each were a parameter of its own.
  virtual Update update(const Param& param, ir::Value value, ir::Value grad, const ir::Values& slots,
                        const UpdateContext& context) const = 0;

 protected:
  // The value after decoupled weight decay; the same where it isn't decoupled.
  ir::Value shrink(ir::Value value, const UpdateContext& context) const;
  // The gradient with weight_decay * value; the same where that is decoupled.
  ir::Value penalize(ir::Value grad, ir::Value value, const UpdateContext& context) const;

 private:
  Decay decay_;
};

// 1 - b^t, exact for b near 1; the f32 scalar b is above 0.
ir::Value bias_correction(double b, ir::Value step);
ir::Value bias_correction(ir::Value b, ir::Value step);
// mean * b + x * (1 - b).
ir::Value moving_mean(ir::Value mean, ir::Value x, double b);
ir::Value moving_mean(ir::Value mean, ir::Value x, ir::Value b);
// True at the first update.
ir::Value first_update(const UpdateContext& context);

// Usage Errors at the key unless the number is as it says.
void check_share(const config::Section& section, const char* key, double value);     // in [0, 1)
void check_positive(const config::Section& section, const char* key, double value);  // > 0

// What a recipe's optimizer.name chooses.
struct OptimizerKind {
  const char* name;
  const char* help;
  std::unique_ptr<UpdateRule> (*make)(config::Section section);    // reads its own keys of the `optimizer` section
  std::vector<config::KeyDoc> (*keys)(const std::string& prefix);  // those keys
};
#define OPTIMIZER(object) extern const OptimizerKind object;
#include "optim/optimizers.def"
#undef OPTIMIZER

// By optimizers.def, in its order.
const std::vector<const OptimizerKind*>& optimizer_kinds();

}  // namespace tessera::optim
