#include "optim/optimizer.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"
#include "ir/functions.h"
#include "ir/ops.h"

namespace tessera::optim {
namespace {

struct Entry {
  const char* name;
  std::unique_ptr<UpdateRule> (*make)(config::Section);
};
constexpr Entry kOptimizers[] = {
#define TESSERA_OPTIMIZER(name, factory) {name, factory},
#include "optim/optimizers.def"
#undef TESSERA_OPTIMIZER
};

std::unique_ptr<UpdateRule> make_rule(const std::string& name, const config::Section& section) {
  std::vector<std::string> names;
  for (const Entry& entry : kOptimizers) {
    if (name == entry.name) return entry.make(section);
    names.push_back(entry.name);
  }
  section.fail("name", fmt::format("is \"{}\", which is no optimizer", name), suggest_name(name, names));
}

OptimizerOptions read_options(config::Section section) {
  OptimizerOptions options;
  section.bind_part(options);
  if (options.lr.empty()) section.fail_missing("lr", "for example lr = \"cosine(1e-3, warmup=5 %)\"");
  if (!(options.weight_decay >= 0)) {
    section.fail("weight_decay", fmt::format("must not be negative, and is {}", options.weight_decay));
  }
  if (options.moments != "f32" && options.moments != "bf16") {
    section.fail("moments", fmt::format("is \"{}\"", options.moments), "f32 or bf16");
  }
  return options;
}

}  // namespace

Optimizer::Optimizer(config::Section section, const RunLength& length)
    : section_(std::move(section)),
      name_(section_.name("adamw")),
      options_(read_options(section_)),
      schedule_(Schedule::parse(options_.lr, length, section_.place("lr"))),
      clip_(parse_clip(options_.clip, section_.place("clip"))),
      update_(make_rule(name_, section_)) {}

void Optimizer::bind(Params params) {
  TESSERA_CHECK(params_.empty(), "an optimizer is bound once");
  rules_ = resolve_rules(options_, params, section_.where());
  params_ = std::move(params);
  for (size_t i = 0; i < params_.size(); ++i) {
    TESSERA_CHECK(params_[i].type.dtype == DType::kF32, "{} is {}", params_[i].name, to_string(params_[i].type));
    if (trainable(i)) trained_.push_back(params_[i]);
  }
  for (const Slot& slot : update_->slots()) {
    const DType dtype = slot.coarse ? parse_dtype(options_.moments) : DType::kF32;
    for (const Param& param : trained_)
      slots_.push_back({slot.name + "/" + param.name, {dtype, param.type.dims}, param.stacked});
  }
}

Optimizer::Result Optimizer::apply(const ir::Values& values, const ir::Values& grads, const ir::Values& slots,
                                   ir::Value step) const {
  TESSERA_CHECK(values.size() == params_.size() && grads.size() == trained_.size() && slots.size() == slots_.size());
  const ir::NameScope scope("optimizer");
  ir::Values trained;
  for (size_t i = 0; i < values.size(); ++i) {
    if (trainable(i)) trained.push_back(values[i]);
  }
  Result result{values, slots, schedule_.at(step), ir::global_norm(grads)};
  const ir::Values clipped = clip_->apply(trained_, trained, grads, result.grad_norm);

  const ir::Value count = ir::convert(step, DType::kF32) + 1.0;
  const ir::Value relative = result.lr / schedule_.base();
  const size_t per_param = update_->slots().size();
  size_t t = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!trainable(i)) continue;
    const ParamRule& rule = rules_.rules[i];
    ir::Values own;
    for (size_t s = 0; s < per_param; ++s) own.push_back(ir::convert(slots[s * trained_.size() + t], DType::kF32));
    const ir::Value lr = rule.lr_mult == 1 ? result.lr : result.lr * rule.lr_mult;
    const Update update =
        update_->update(values[i], clipped[t], own, {count, lr, relative, options_.weight_decay * rule.decay});
    result.values[i] = update.value;
    for (size_t s = 0; s < per_param; ++s) {
      const size_t at = s * trained_.size() + t;
      result.slots[at] = ir::convert(update.slots[s], slots_[at].type.dtype);
    }
    ++t;
  }
  return result;
}

}  // namespace tessera::optim
