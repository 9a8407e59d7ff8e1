#include "train/evaluate.h"

#include <array>
#include <cmath>

#include "base/error.h"

namespace tessera::train {

std::optional<Scores> Evaluator::run(DeviceArrays& state, const std::function<bool()>& stop) const {
  std::array<double, 4> sums{};
  double masked = 0;
  pjrt::Buffer pending;  // of the batch before, read while the device works on this one
  const auto settle = [&] {
    if (pending.empty()) return;
    const std::vector<float> part = pending.to_host<float>();
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(part[i]);
    pending = {};
  };

  const Data& data = plan_->data;
  data::EvalLoader loader(data.sets.front(), data.loader(plan_->batch, 0));
  while (std::optional<data::Batch> rows = loader.next()) {
    if (stop && stop()) return std::nullopt;
    DeviceBatch batch(*client_, layout_->mesh, std::move(*rows), data.pp().height(), data.pp().width(), /*with_mask=*/true);
    masked += batch.mask_sum();
    DeviceArrays results = program_->execute(argument_lists(state, layout_->params, &batch.arguments()));
    settle();
    pending = std::move(results[0][0]);
  }
  settle();

  const int64_t skipped = loader.stats().skips;
  const double expected = static_cast<double>(data.source().size() - skipped);
  TESSERA_CHECK(sums[3] == masked && masked == expected, "evaluated {} rows, sent {}, of {} images", sums[3], masked, expected);
  return Scores{sums[0] / sums[3], sums[1] / sums[3], sums[2] / sums[3], static_cast<int64_t>(sums[3]), skipped};
}

}  // namespace tessera::train
