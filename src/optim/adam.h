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
  bool nesterov = false;
  std::string decoupled = "lr";
  bool caution = false;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("b1", b1, "decay of the first moment");
    field("b2", b2, "decay of the second moment");
    field("eps", eps, "added to the root of the second moment");
    field("nesterov", nesterov, "look one step ahead (Nesterov)");
    field("decoupled", decoupled, kDecoupledHelp);
    field("caution", caution, "drop what disagrees with the gradient's sign");
  }
  void check(const config::Section& section) const;
};

class Adam final : public UpdateRule {
 public:
  Adam(AdamOptions options, Decay decay) : UpdateRule(decay), options_(std::move(options)) {}
  std::vector<Slot> slots(const Param& param) const override;  // mu, nu
  Update update(const Param& param, ir::Value value, ir::Value grad, const ir::Values& slots,
                const UpdateContext& context) const override;

 private:
  AdamOptions options_;
};

}  // namespace tessera::optim
