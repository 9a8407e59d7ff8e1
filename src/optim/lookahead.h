#pragma once
// Lookahead around any optimizer (Zhang et al. 2019), as timm's wrapper: after every k-th update the slow weights go the share
// `alpha` towards the parameters, which then take their value. They begin as the parameters after the k-th update.

#include <memory>

#include "optim/update_rule.h"

namespace tessera::optim {

class Lookahead final : public UpdateRule {
 public:
  // k >= 1, alpha in (0, 1].
  Lookahead(std::unique_ptr<UpdateRule> inner, int64_t k, double alpha);
  std::vector<Slot> slots(const Param& param) const override;  // the inner one's, then "slow"
  ir::Values prepare(const ir::Values& grads) const override { return inner_->prepare(grads); }
  bool cycles_momentum() const override { return inner_->cycles_momentum(); }
  Update update(const Param& param, ir::Value value, ir::Value grad, const ir::Values& slots,
                const UpdateContext& context) const override;

 private:
  std::unique_ptr<UpdateRule> inner_;
  int64_t k_;
  double alpha_;
};

}  // namespace tessera::optim
