#pragma once
// The variance rectification of Liu et al. 2019 (RAdam).

#include "ir/graph.h"

namespace tessera::optim {

struct Rectification {
  ir::Value length;  // rho(t) = rho_inf - 2 t b2^t / (1 - b2^t), the length of the approximated simple moving average, f32
  ir::Value scale;   // sqrt((rho - 4) (rho - 2) rho_inf / ((rho_inf - 4) (rho_inf - 2) rho)); only where length > 4
};
// `step` counts from 1.
Rectification rectify(double b2, ir::Value step);

}  // namespace tessera::optim
