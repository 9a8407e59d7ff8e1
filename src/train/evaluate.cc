#include "train/evaluate.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tessera::train {

std::optional<double> Scores::find(std::string_view name) const {
  for (const Score& score : values) {
    if (score.name == name) return score.value;
  }
  return std::nullopt;
}

double Scores::at(std::string_view name) const {
  const std::optional<double> value = find(name);
  TESSERA_CHECK(value, "there is no score {}", name);
  return *value;
}

std::optional<Scores> Evaluator::run(DeviceArrays& state, const std::function<bool()>& stop, size_t first) const {
  const std::vector<objectives::ScoreKind> kinds = plan_->scorer->scores();
  std::vector<double> sums(kinds.size() + 1, 0);  // of each score, and of the mask
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
    DeviceBatch batch(*client_, layout_->mesh, std::move(*rows), data.pp(), plan_->scorer->inputs(), /*with_mask=*/true);
    masked += batch.mask_sum();
    DeviceArrays results = program_->execute(argument_lists(state, layout_->params, &batch.arguments(), first));
    settle();
    pending = std::move(results[0][0]);
  }
  settle();

  const int64_t skipped = loader.stats().skips;
  const double expected = static_cast<double>(data.source().size() - skipped);
  const double count = sums.back();
  TESSERA_CHECK(count == masked && masked == expected, "evaluated {} rows, sent {}, of {} images", count, masked, expected);
  Scores scores{{}, static_cast<int64_t>(count), skipped};
  for (size_t i = 0; i < kinds.size(); ++i) scores.values.push_back({kinds[i].name, kinds[i].share, sums[i] / count});
  std::ranges::stable_partition(scores.values, &Score::share);
  return scores;
}

}  // namespace tessera::train
