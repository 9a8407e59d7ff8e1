#pragma once
// What optimizers like Adam read: how their two running means decay.

#include "config/section.h"
#include "optim/update_rule.h"

namespace tessera::optim {

struct MomentOptions {
  double b1 = 0.9;
  double b2 = 0.999;
  double eps = 1e-8;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("b1", b1, "decay of the first moment");
    field("b2", b2, "decay of the second moment");
    field("eps", eps, "added to the root of the second moment");
  }
  // A usage Error for a decay outside [0, 1) and for an eps that is not above 0.
  void check(const config::Section& section) const {
    check_share(section, "b1", b1);
    check_share(section, "b2", b2);
    check_positive(section, "eps", eps);
  }
};

}  // namespace tessera::optim
