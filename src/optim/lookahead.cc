#include "optim/lookahead.h"

#include "ir/ops.h"

namespace tessera::optim {

using ir::Value;

Lookahead::Lookahead(std::unique_ptr<UpdateRule> inner, int64_t k, double alpha)
    : UpdateRule(Decay::kNone), inner_(std::move(inner)), k_(k), alpha_(alpha) {}

std::vector<Slot> Lookahead::slots(const Param& param) const {
  std::vector<Slot> slots = inner_->slots(param);
  slots.push_back({"slow", param.block_dims()});
  return slots;
}

Update Lookahead::update(const Param& param, Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const {
  Update update = inner_->update(param, value, grad, ir::Values(slots.begin(), slots.end() - 1), c);
  const auto k = static_cast<double>(k_);
  const Value begins = ir::compare(ir::Compare::kEq, c.step, ir::constant(k));
  const Value joins = ir::compare(ir::Compare::kEq, ir::remainder(c.step, ir::constant(k)), ir::constant(0));
  const Value before = ir::select(begins, update.value, slots.back());
  const Value slow = ir::select(joins, before + (update.value - before) * alpha_, before);
  update.value = ir::select(joins, slow, update.value);
  update.slots.push_back(slow);
  return update;
}

}  // namespace tessera::optim
