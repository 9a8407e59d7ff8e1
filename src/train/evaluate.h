#pragma once
// Exact evaluation: every image once, sums and counts, whatever the number of images and the batch.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pjrt/executable.h"
#include "train/device.h"
#include "train/recipe.h"

namespace tessera::train {

struct Scores {
  double loss = 0;      // mean cross-entropy, natural logarithm
  double prec1 = 0;     // share of images whose label is the first guess
  double prec5 = 0;     // … among the first five
  int64_t count = 0;    // images
  int64_t skipped = 0;  // files that could not be read, left out of everything above
};

class Evaluator {
 public:
  // `program`: of eval_program for this layout and this plan's batch and pp chain.
  Evaluator(std::shared_ptr<const pjrt::Client> client, std::shared_ptr<const pjrt::Executable> program,
            const StateLayout& layout, const EvalPlan& plan)
      : client_(std::move(client)), program_(std::move(program)), layout_(&layout), plan_(&plan) {}

  // The parameters at the head of `state` are read, not consumed. Nothing when stop() became true before the last batch.
  std::optional<Scores> run(DeviceArrays& state, const std::function<bool()>& stop = {}) const;

 private:
  std::shared_ptr<const pjrt::Client> client_;
  std::shared_ptr<const pjrt::Executable> program_;
  const StateLayout* layout_;
  const EvalPlan* plan_;
};

}  // namespace tessera::train
