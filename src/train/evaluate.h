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

struct Score {
  std::string name;
  bool share = false;  // in [0, 1], the more the better; else a mean, the less the better (objectives/scorer.h)
  double value = 0;
  bool better_than(double other) const { return share ? value > other : value < other; }
};

struct Scores {
  std::vector<Score> values;  // shares first: values[0] tells whether a model is better
  int64_t count = 0;          // images
  int64_t skipped = 0;        // files that could not be read, left out of everything above

  // The score `name`, which must be there.
  double at(std::string_view name) const;
  std::optional<double> find(std::string_view name) const;
};

class Evaluator {
 public:
  // `program`: of eval_program for this layout and this plan's batch and pp chain.
  Evaluator(std::shared_ptr<const pjrt::Client> client, std::shared_ptr<const pjrt::Executable> program,
            const StateLayout& layout, const EvalPlan& plan)
      : client_(std::move(client)), program_(std::move(program)), layout_(&layout), plan_(&plan) {}

  // The parameters at the head of `state`, or their averages at entry `first`, are read, not consumed. Nothing when stop()
  // became true before the last batch.
  std::optional<Scores> run(DeviceArrays& state, const std::function<bool()>& stop = {}, size_t first = 0) const;

 private:
  std::shared_ptr<const pjrt::Client> client_;
  std::shared_ptr<const pjrt::Executable> program_;
  const StateLayout* layout_;
  const EvalPlan* plan_;
};

}  // namespace tessera::train
