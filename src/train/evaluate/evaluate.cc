#include "train/evaluate/evaluate.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/system/spans.h"
#include "base/text/text.h"
#include "train/evaluate/gather_rows.h"
#include "train/process/loop_phases.h"
#include "train/step/device_batch.h"

namespace tessera::train {
namespace {

// A set whose rows take more is worth a word.
constexpr double kManyBytes = double{1 << 30};

// What has an example of the rows of one batch.
struct BatchRows {
  std::vector<int64_t> places, samples;
  std::vector<int32_t> labels;
  std::vector<uint8_t> multi_hot;
  pjrt::Buffer rows;
};

// `first`: of its rows, in the program's.
BatchRows part_of(const data::Batch& batch, int64_t first) {
  BatchRows part;
  for (int64_t row = 0; row < batch.rows(); ++row) {
    if (batch.mask()[row] == 0) continue;
    part.places.push_back(first + row);
    part.samples.push_back(batch.samples()[row]);
    part.labels.push_back(batch.labels()[row]);
    const uint8_t* const own = batch.multi_hot() + row * batch.multi_hot_classes();
    part.multi_hot.insert(part.multi_hot.end(), own, own + batch.multi_hot_classes());
  }
  return part;
}

// Gathers the rows of a set, a batch behind the device.
class Gathering {
 public:
  Gathering(const std::string& name, int64_t size, bool labelled) : name_(name), size_(size), labelled_(labelled) {}

  void add(BatchRows part) {
    settle();
    pending_ = std::move(part);
  }
  evaluators::Rows take() {
    settle();
    return std::move(rows_);
  }
  // Waits for the batch that the device may be at.
  void settle() {
    if (pending_.rows.empty()) return;
    const std::vector<float> values = pending_.rows.to_host<float>();
    if (rows_.features.width == 0) begin(pending_.rows.type().dims[1]);
    const int64_t width = rows_.features.width;
    for (const int64_t place : pending_.places) {
      const auto row = values.begin() + place * width;
      rows_.features.values.insert(rows_.features.values.end(), row, row + width);
    }
    rows_.samples.insert(rows_.samples.end(), pending_.samples.begin(), pending_.samples.end());
    rows_.multi_hot.insert(rows_.multi_hot.end(), pending_.multi_hot.begin(), pending_.multi_hot.end());
    if (labelled_) rows_.labels.insert(rows_.labels.end(), pending_.labels.begin(), pending_.labels.end());
    pending_ = {};
  }

 private:
  void begin(int64_t width) {
    rows_.features.width = width;
    rows_.features.values.reserve(static_cast<size_t>(size_ * width));
    const double bytes = static_cast<double>(size_ * width) * sizeof(float);
    if (bytes > kManyBytes) log_note(fmt::format("`{}` keeps {} of {} images in memory", name_, human_bytes(bytes), size_));
  }

  const std::string& name_;
  int64_t size_;
  bool labelled_;
  evaluators::Rows rows_;
  BatchRows pending_;
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

pjrt::Buffer EvaluationRunner::execute(size_t set, const FixedArguments& fixed, state::DeviceArrays& arguments) const {
  state::DeviceArrays results = programs_[set]->executable.execute(fixed.with(arguments));
  return std::move(state::own_list(results)[0]);
}

// A program over all processes gives each of them the rows of all.
int64_t EvaluationRunner::first_place(const recipe::EvalSet& set) const {
  return set.processes.joint ? processes_->index() * set.rows() : 0;
}

std::optional<SetRows> EvaluationRunner::rows_of(size_t set, const FixedArguments& fixed, const Stop& stop) const {
  const recipe::EvalSet& of = plan_->sets[set];
  data::LoaderOptions options = of.data.loader(of.batch, 0);
  options.row_count = of.rows();
  options.row_begin = processes_->index() * options.row_count;
  data::EvalLoader loader(of.data.sets.front(), options);
  const data::Source& source = of.data.source();
  Gathering gathering(plan_->name, of.size(), !source.class_names().empty() && !source.multi_label());
  for (int64_t number = 0;; ++number) {
    std::optional<data::Batch> rows;
    {
      const PhaseSpan span(kEvaluationInput, number);
      if (!loader.wait(stop)) return std::nullopt;
      rows = loader.next();
    }
    const PhaseSpan span(kEvaluationBatch, number);
    if (!rows) {
      gathering.settle();
      break;
    }
    if (stop && stop()) return std::nullopt;
    BatchRows part = part_of(*rows, first_place(of));
    DeviceBatch batch(*client_, layout_->mesh, std::move(*rows), of.data.pp(), plan_->evaluator->inputs(set));
    part.rows = execute(set, fixed, batch.arguments());
    gathering.add(std::move(part));
  }
  data::LoaderStats stats = loader.stats();
  SetRows out = gather(*processes_, {gathering.take(), stats.skips, std::move(stats.skipped)});
  data::expect_readable(source, out.files, options);
  TESSERA_CHECK(out.rows.size() == of.size() - out.skipped, "evaluated {} of {} images, {} of them skipped", out.rows.size(),
                of.size(), out.skipped);
  return out;
}

std::optional<SetRows> EvaluationRunner::rows_of_texts(size_t set, const FixedArguments& fixed, const Stop& stop) const {
  const recipe::EvalSet& of = plan_->sets[set];
  const objectives::TokenInput& input = plan_->evaluator->inputs(set).tokens[0];
  const std::span<const int32_t> ids = plan_->evaluator->texts();
  Gathering gathering(plan_->name, of.texts, false);
  for (int64_t batch = 0; batch < of.texts; batch += of.batch) {
    if (stop && stop()) return std::nullopt;
    const PhaseSpan span(kEvaluationBatch, batch / of.batch);
    const int64_t begin = std::min(of.texts, batch + processes_->index() * of.rows());
    const int64_t count = std::min(of.rows(), of.texts - begin);
    std::vector<int32_t> rows(static_cast<size_t>(of.rows() * input.length), input.pad);
    std::ranges::copy(ids.subspan(static_cast<size_t>(begin * input.length), static_cast<size_t>(count * input.length)),
                      rows.begin());
    BatchRows part;
    for (int64_t row = 0; row < count; ++row) {
      part.places.push_back(first_place(of) + row);
      part.samples.push_back(begin + row);
    }
    state::DeviceArrays arguments(static_cast<size_t>(layout_->devices()));
    std::vector<pjrt::Upload> uploads =
        state::send_rows(*client_, layout_->mesh, rows.data(), {DType::kI32, {of.rows(), input.length}});
    for (size_t d = 0; d < uploads.size(); ++d) {
      if (client_->is_own(d)) arguments[d].push_back(std::move(uploads[d].buffer));
    }
    part.rows = execute(set, fixed, arguments);
    for (const pjrt::Upload& upload : uploads) upload.done_with_host.await();
    gathering.add(std::move(part));
  }
  return gather(*processes_, {gathering.take(), 0});
}

std::optional<Evaluation> EvaluationRunner::run(state::DeviceArrays& state, const std::function<bool()>& stop,
                                                size_t first) const {
  std::vector<evaluators::Rows> sets;
  Evaluation out;
  for (size_t set = 0; set < plan_->sets.size(); ++set) {
    const bool texts = plan_->sets[set].texts > 0;
    const FixedArguments fixed(*programs_[set], state, layout_->params, first);
    std::optional<SetRows> rows = texts ? rows_of_texts(set, fixed, stop) : rows_of(set, fixed, stop);
    if (!rows) return std::nullopt;
    if (set == 0) out.scores.count = rows->rows.size(), out.scores.skipped = rows->skipped;
    for (data::SkippedFile& file : rows->files) {
      out.skipped.emplace_back(plan_->sets[set].data.source().name(), std::move(file));
    }
    sets.push_back(std::move(rows->rows));
  }
  out.samples = sets[0].samples;
  out.labels = sets[0].labels;
  out.multi_hot = sets[0].multi_hot;
  evaluators::Outcome outcome = plan_->evaluator->outcome(std::move(sets));
  const std::vector<evaluators::ScoreKind> kinds = plan_->evaluator->score_kinds();
  TESSERA_CHECK(outcome.scores.size() == kinds.size(), "{} values for {} scores", outcome.scores.size(), kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i) out.scores.values.push_back({kinds[i].name, kinds[i].share, outcome.scores[i]});
  std::stable_partition(out.scores.values.begin(), out.scores.values.end(), [](const Score& score) { return score.share; });
  out.columns = std::move(outcome.columns);
  out.predictions = std::move(outcome.predictions);
  out.features = std::move(outcome.features);
  out.details = std::move(outcome.details);
  return out;
}

}  // namespace tessera::train
