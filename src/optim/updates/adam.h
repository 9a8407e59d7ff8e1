#pragma once
// Adam's formula, which others fall back on; see adam.cc.

#include <string>

#include "optim/blocks.h"
#include "optim/moments.h"
#include "optim/update_rule.h"

namespace tessera::optim {

struct AdamOptions : MomentOptions {
  bool nesterov = false, amsgrad = false;
  std::string decoupled = "lr";
  bool caution = false;
  template <class Visitor>
  void visit(Visitor&& field) {
    MomentOptions::visit(field);
    field("nesterov", nesterov, "look one step ahead (Nesterov)");
    field("amsgrad", amsgrad, "divide by the largest second moment so far");
    field("decoupled", decoupled, kDecoupledHelp);
    field("caution", caution, "drop what disagrees with the gradient's sign");
  }
};

class Adam final : public UpdateRule {
 public:
  Adam(AdamOptions options, Decay decay) : UpdateRule(decay), options_(std::move(options)) {}
  std::vector<Slot> slots(const Param& param) const override;  // mu, nu; with amsgrad nu_max
  bool cycles_momentum() const override { return true; }
  Update update(const Param& param, ir::Value value, ir::Value grad, const ir::Values& slots,
                const UpdateContext& context) const override;

 private:
  // `b1`: a number, or what a schedule says.
  template <class Share>
  Update updated(const Param& param, ir::Value value, ir::Value grad, const ir::Values& slots, const UpdateContext& context,
                 const Share& b1) const;

  AdamOptions options_;
};

}  // namespace tessera::optim
