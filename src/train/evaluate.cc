#include "train/evaluate.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

namespace tessera::train {
namespace {

// A set whose rows take more is worth a word.
constexpr double kManyBytes = double{1 << 30};

// The rows of one batch on their way to the host.
class Part {
 public:
  Part() = default;
  explicit Part(const data::Batch& batch) {
    for (int64_t row = 0; row < batch.rows(); ++row) {
      if (batch.mask()[row] == 0) continue;
      places_.push_back(row);
      samples_.push_back(batch.samples()[row]);
      labels_.push_back(batch.labels()[row]);
    }
  }
  void expect(pjrt::Buffer rows) { rows_ = std::move(rows); }

  // Appends what has an example.
  void settle(objectives::Rows& out, bool labelled) {
    if (rows_.empty()) return;
    const std::vector<float> values = rows_.to_host<float>();
    out.features.width = rows_.type().dims[1];
    for (const int64_t place : places_) {
      const auto begin = values.begin() + place * out.features.width;
      out.features.values.insert(out.features.values.end(), begin, begin + out.features.width);
    }
    out.samples.insert(out.samples.end(), samples_.begin(), samples_.end());
    if (labelled) out.labels.insert(out.labels.end(), labels_.begin(), labels_.end());
  }

 private:
  std::vector<int64_t> places_, samples_;
  std::vector<int32_t> labels_;
  pjrt::Buffer rows_;
};

}  // namespace

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

std::optional<Evaluator::SetRows> Evaluator::rows_of(size_t set, DeviceArrays& state, const std::function<bool()>& stop,
                                                     size_t first) const {
  const EvalSet& of = plan_->sets[set];
  const data::Source& source = of.data.source();
  data::EvalLoader loader(of.data.sets.front(), of.data.loader(of.batch, 0));
  SetRows out;
  const auto settle = [&](Part& part) {
    part.settle(out.rows, !source.class_names().empty());
    const auto size = static_cast<size_t>(source.size() * out.rows.features.width);
    if (out.rows.features.values.capacity() >= size) return;
    const double bytes = static_cast<double>(size * sizeof(float));
    if (bytes > kManyBytes)
      log_note(fmt::format("`{}` keeps {} of {} in memory", plan_->name, human_bytes(bytes), source.name()));
    out.rows.features.values.reserve(size);
  };
  Part pending;  // of the batch before, read while the device works on this one
  while (std::optional<data::Batch> rows = loader.next()) {
    if (stop && stop()) return std::nullopt;
    Part part(*rows);
    DeviceBatch batch(*client_, layout_->mesh, std::move(*rows), of.data.pp(), plan_->scorer->inputs(set));
    DeviceArrays results = programs_[set]->execute(argument_lists(state, layout_->params, &batch.arguments(), first));
    settle(pending);
    part.expect(std::move(results[0][0]));
    pending = std::move(part);
  }
  settle(pending);
  out.skipped = loader.stats().skips;
  TESSERA_CHECK(out.rows.size() == source.size() - out.skipped, "evaluated {} of {} images, {} of them skipped",
                out.rows.size(), source.size(), out.skipped);
  return out;
}

std::optional<Evaluation> Evaluator::run(DeviceArrays& state, const std::function<bool()>& stop, size_t first) const {
  std::vector<objectives::Rows> sets;
  Evaluation out;
  for (size_t set = 0; set < plan_->sets.size(); ++set) {
    std::optional<SetRows> rows = rows_of(set, state, stop, first);
    if (!rows) return std::nullopt;
    if (set == 0) out.scores.count = rows->rows.size(), out.scores.skipped = rows->skipped;
    sets.push_back(std::move(rows->rows));
  }
  out.samples = sets[0].samples;
  out.labels = sets[0].labels;
  objectives::Outcome outcome = plan_->scorer->outcome(std::move(sets));
  const std::vector<objectives::ScoreKind> kinds = plan_->scorer->scores();
  TESSERA_CHECK(outcome.figures.size() == kinds.size(), "{} figures for {} scores", outcome.figures.size(), kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i) out.scores.values.push_back({kinds[i].name, kinds[i].share, outcome.figures[i]});
  std::ranges::stable_partition(out.scores.values, &Score::share);
  out.columns = std::move(outcome.columns);
  out.said = std::move(outcome.said);
  out.details = std::move(outcome.details);
  return out;
}

}  // namespace tessera::train
