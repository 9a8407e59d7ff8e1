#pragma once
// Adam's formula, which others fall back on; see adam.cc.

#include <string>

#include "optim/blocks.h"
#include "optim/update_rule.h"

namespace tessera::optim {

struct AdamOptions {
  double b1 = 0.9;
  double b2 = 0.999;
  double eps = 1e-8;
  bool nesterov = false, amsgrad = false;
  std::string decoupled = "lr";
  bool caution = false;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("b1", b1, "decay of the first moment");
    field("b2", b2, "decay of the second moment");
    field("eps", eps, "added to the root of the second moment");
    field("nesterov", nesterov, "look one step ahead (Nesterov)");
    field("amsgrad", amsgrad, "divide by the largest second moment so far");
    field("decoupled", decoupled, kDecoupledHelp);
    field("caution", caution, "drop what disagrees with the gradient's sign");
  }
  void check(const config::Section& section) const;
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
