#pragma once
// Gradient clipping, chosen by recipe text:
//
//   none
//   norm(max)                      all gradients times min(1, max / (norm + 1e-6)), norm over all of them:
//                                  torch.nn.utils.clip_grad_norm_
//   value(max)                     each element into [-max, max]
//   adaptive(clip, eps=1e-3, exclude=head/.*)
//                                  timm's adaptive_clip_grad (Brock et al. 2021): for each output unit, the gradient's norm is
//                                  at most clip * max(norm of the weights, eps). Parameters that match `exclude` are left
//                                  alone.
// The output units of a `kernel` ([in, out] or [h, w, in, out]) lie along its last axis; any other parameter is one unit.
// Stacked parameters are clipped block by block.

#include <memory>
#include <string>

#include "ir/graph.h"
#include "optim/param.h"

namespace tessera::optim {

class Clip {
 public:
  virtual ~Clip() = default;
  // Clipped gradients. `values` are the parameters' values, `norm` the f32 global norm of the gradients.
  virtual ir::Values apply(const Params& params, const ir::Values& values, const ir::Values& grads, ir::Value norm) const = 0;
};

// A mistake in `text` is a usage Error at `where`.
std::unique_ptr<Clip> parse_clip(const std::string& text, const std::string& where = {});

}  // namespace tessera::optim
