#include "optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text/pattern.h"
#include "base/text/text.h"
#include "config/other_words.h"
#include "ir/functions.h"
#include "ir/ops.h"
#include "optim/lookahead.h"

namespace tessera::optim {

const std::vector<const OptimizerKind*>& optimizer_kinds() {
  static const std::vector<const OptimizerKind*> kinds = {
#define OPTIMIZER(object) &object,
#include "optim/optimizers.def"
#undef OPTIMIZER
  };
  return kinds;
}

namespace {

const OptimizerKind& find_kind(const std::string& name, const config::Section& section) {
  std::vector<std::string> names;
  for (const OptimizerKind* kind : optimizer_kinds()) {
    if (name == kind->name) return *kind;
    names.push_back(kind->name);
  }
  section.fail("name", fmt::format("is \"{}\", which is no optimizer", name), config::suggest_value(name, names));
}

OptimizerOptions read_options(const std::string& name, config::Section section) {
  find_kind(name, section);  // its mistake comes first
  OptimizerOptions options;
  section.bind_part(options);
  if (options.lr.empty()) section.fail_missing("lr", "for example lr = \"cosine(1e-3, warmup=5 %)\"");
  if (!(options.weight_decay >= 0)) {
    section.fail("weight_decay", fmt::format("must not be negative, and is {}", options.weight_decay));
  }
  if (options.moments != "f32" && options.moments != "bf16") {
    section.fail("moments", fmt::format("is \"{}\"", options.moments), "f32 or bf16");
  }
  if (options.lookahead < 0) section.fail("lookahead", fmt::format("must not be negative, and is {}", options.lookahead));
  if (!(options.lookahead_alpha > 0 && options.lookahead_alpha <= 1)) {
    section.fail("lookahead_alpha", fmt::format("must lie in (0, 1], and is {}", options.lookahead_alpha));
  }
  return options;
}

std::unique_ptr<UpdateRule> make_rule(const std::string& name, const config::Section& section,
                                      const OptimizerOptions& options) {
  std::unique_ptr<UpdateRule> rule = find_kind(name, section).make(section);
  if (options.lookahead == 0) return rule;
  return std::make_unique<Lookahead>(std::move(rule), options.lookahead, options.lookahead_alpha);
}

// The slot of one parameter as an array of the state.
Param slot_array(const Slot& slot, const Param& param, DType coarse) {
  Dims dims = slot.dims;
  if (param.stacked) dims.insert(dims.begin(), param.type.dims[0]);
  return {slot.name + "/" + param.name, {slot.coarse ? coarse : DType::kF32, dims}, param.stacked};
}

}  // namespace

Optimizer::Optimizer(config::Section section, const RunLength& length)
    : section_(std::move(section)),
      name_(section_.name("adamw")),
      options_(read_options(name_, section_)),
      schedule_(Schedule::parse(options_.lr, length, section_.place("lr"))),
      clip_(parse_clip(options_.clip, section_.place("clip"))),
      update_(make_rule(name_, section_, options_)) {
  read_schedules(length);
}

void Optimizer::check_momentum(const Schedule& schedule, const char* key) const {
  if (!schedule.cycles_momentum() || update_->cycles_momentum()) return;
  section_.fail(key, fmt::format("cycles momentum, and {} has none that follows a schedule", name_),
                "leave `momentum` out of one_cycle, or take adamw, adam, nadamw, or sgd with momentum");
}

void Optimizer::read_schedules(const RunLength& length) {
  check_momentum(schedule_, "lr");
  for (const std::string& line : options_.schedules) {
    const auto rule = split_rule(line);
    more_schedules_.push_back(!rule || freezes(line) ? schedule_
                                                     : Schedule::parse(rule->second, length, section_.place("schedules")));
    check_momentum(more_schedules_.back(), "schedules");
    if (more_schedules_.back().plateau() && rule && !freezes(line)) {
      section_.fail("schedules", "can't hold a plateau",
                    "let `lr` be the plateau, and give other parameters a factor by lr_mult");
    }
  }
}

std::vector<std::pair<std::string, double>> Optimizer::schedules_at(int64_t step) const {
  std::vector<std::pair<std::string, double>> out;
  if (schedule_.cycles_momentum()) out.emplace_back("momentum", schedule_.momentum_at(step));
  for (size_t i = 0; i < more_schedules_.size(); ++i) {
    const auto rule = split_rule(options_.schedules[i]);
    if (!rule || freezes(options_.schedules[i])) continue;
    const bool again = std::ranges::any_of(out, [&](const auto& known) { return known.first == "lr/" + rule->first; });
    if (again) continue;  // the first rule of a pattern wins
    out.emplace_back("lr/" + rule->first, more_schedules_[i].at(step));
    if (more_schedules_[i].cycles_momentum()) out.emplace_back("momentum/" + rule->first, more_schedules_[i].momentum_at(step));
  }
  return out;
}

void Optimizer::bind(Params params) {
  TESSERA_CHECK(params_.empty(), "an optimizer is bound once");
  rules_ = resolve_rules(options_, params, section_.where());
  params_ = std::move(params);
  for (size_t i = 0; i < params_.size(); ++i) {
    TESSERA_CHECK(params_[i].type.dtype == DType::kF32, "{} is {}", params_[i].name, to_string(params_[i].type));
    if (trainable(i)) trained_.push_back(params_[i]);
  }
  place_slots();
}

// Grouped by name, in the order in which parameters first have one.
void Optimizer::place_slots() {
  std::vector<std::string> names;
  std::vector<std::vector<Slot>> slots;
  for (const Param& param : trained_) {
    for (const Slot& slot : slots.emplace_back(update_->slots(param))) {
      if (std::find(names.begin(), names.end(), slot.name) == names.end()) names.push_back(slot.name);
    }
  }
  slots_of_.resize(trained_.size());
  for (size_t t = 0; t < trained_.size(); ++t) slots_of_[t].resize(slots[t].size());
  for (const std::string& name : names) {
    for (size_t t = 0; t < trained_.size(); ++t) {
      for (size_t s = 0; s < slots[t].size(); ++s) {
        if (slots[t][s].name != name) continue;
        slots_of_[t][s] = slots_.size();
        slots_.push_back(slot_array(slots[t][s], trained_[t], parse_dtype(options_.moments)));
      }
    }
  }
}

ir::Value Optimizer::rate_of(const ParamRule& rule, ir::Value rate, const Param& param) const {
  if (rule.lr_mult != 1) rate = rate * rule.lr_mult;
  if (rule.block_mult.empty()) return rate;
  Dims dims(param.type.dims.size(), 1);
  dims[0] = param.type.dims[0];
  return rate * ir::constant_f32(dims, std::vector<float>(rule.block_mult.begin(), rule.block_mult.end()));
}

Optimizer::Result Optimizer::apply(const ir::Values& values, const ir::Values& grads, const ir::Values& slots, ir::Value step,
                                   ir::Value lr_scale, ir::Value grad_norm) const {
  TESSERA_CHECK(values.size() == params_.size() && grads.size() == trained_.size() && slots.size() == slots_.size());
  const ir::NameScope scope("optimizer");
  ir::Values trained;
  for (size_t i = 0; i < values.size(); ++i) {
    if (trainable(i)) trained.push_back(values[i]);
  }
  TESSERA_CHECK(static_cast<bool>(lr_scale) == schedule_.plateau().has_value());
  Result result{values, slots, schedule_.at(step), grad_norm ? grad_norm : ir::global_norm(grads)};
  if (lr_scale) result.lr = result.lr * lr_scale;
  ir::Values rates = {result.lr};
  for (const Schedule& schedule : more_schedules_) rates.push_back(schedule.at(step));
  const ir::Values ready = update_->prepare(clip_->apply(trained_, trained, grads, result.grad_norm));

  UpdateContext context;
  context.step = ir::convert(step, DType::kF32) + 1.0;
  size_t t = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!trainable(i)) continue;
    const ir::NameScope named(params_[i].name);
    const ParamRule& rule = rules_[i];
    const Schedule& schedule = rule.schedule == 0 ? schedule_ : more_schedules_[rule.schedule - 1];
    context.base = schedule.sweeps() ? rates[rule.schedule] : ir::constant(schedule.base());
    context.momentum = schedule.cycles_momentum() ? schedule.momentum_at(step) : ir::Value();
    context.schedule = schedule.sweeps() ? ir::constant(1.0) : rates[rule.schedule] / schedule.base();
    context.lr = rate_of(rule, rates[rule.schedule], params_[i]);
    context.weight_decay = options_.weight_decay * rule.decay;
    ir::Values own;
    for (const size_t at : slots_of_[t]) own.push_back(ir::convert(slots[at], DType::kF32));
    const Update update = update_->update(params_[i], values[i], ready[t], own, context);
    result.values[i] = update.value;
    for (size_t s = 0; s < own.size(); ++s) {
      const size_t at = slots_of_[t][s];
      result.slots[at] = ir::convert(update.slots[s], slots_[at].type.dtype);
    }
    ++t;
  }
  return result;
}

}  // namespace tessera::optim
