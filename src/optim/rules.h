#pragma once
// What the recipe's patterns say of each parameter: whether it decays, how fast it learns, whether it is frozen.

#include <string>
#include <vector>

#include "optim/param.h"

namespace tessera::optim {

// Rules as text, "PATTERN = VALUE", first match wins; a pattern must match a parameter's whole name (base/text/pattern.h).
struct RuleOptions {
  // What decays where no rule of `decay_rules` speaks:
  //   "timm"        timm's param_groups_weight_decay with ViT's no_weight_decay: not the parameters of rank 0 and 1 (stacked
  //   blocks
  //                 counted without their leading axis), `bias`, `pos_embed`, `cls_token`, `dist_token`
  //   "big_vision"  `.*/kernel` only
  //   "all", "none"
  std::string decay_mask = "timm";
  std::vector<std::string> decay_rules;
  std::vector<std::string> lr_mult;
  // "PATTERN = SCHEDULE": parameters whose rate follows another schedule than `lr`; `none` freezes.
  std::vector<std::string> schedules;
  // Rates are multiplied by max(layer_decay^(layers from the output), layer_decay_min): timm's param_groups_layer_decay.
  double layer_decay = 1;
  double layer_decay_min = 0;
  std::vector<std::string> freeze;  // patterns alone
};

// How one parameter is updated.
struct ParamRule {
  double decay = 1;                // times the optimizer's weight_decay
  double lr_mult = 1;              // times the schedule
  std::vector<double> block_mult;  // times that, of each block, where layer decay makes them differ
  size_t schedule = 0;             // 0: `lr`; else the place in `schedules`, from 1
  bool frozen = false;             // no gradient, no moments, no update; also where lr_mult is 0 or the schedule `none`
};

// True for a rule of `schedules` that freezes: "PATTERN = none".
bool freezes(const std::string& schedule_rule);

// One for each parameter. Usage Errors name `where` (the optimizer's section) and the key. A pattern that matches no parameter
// is an error too, with the nearest name, and so is every parameter frozen.
std::vector<ParamRule> resolve_rules(const RuleOptions& options, const Params& params, const std::string& where = {});

}  // namespace tessera::optim
