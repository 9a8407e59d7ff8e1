#include "train/loop/run_pictures.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "image/draw.h"
#include "train/step/histograms.h"
#include "train/step/model_graph.h"
#include "train/step/step.h"
#include "train/step/trace.h"
#include "train/workdir/first_batch.h"

namespace tessera::train {
namespace {

// `count` pictures of the model's size, as bytes.
monitor::Images images_of(const uint8_t* pixels, int64_t count, const models::InputShape& input) {
  monitor::Images out{"first_batch", {}};
  for (int64_t i = 0; i < count; ++i) {
    image::Image& image = out.images.emplace_back(static_cast<int>(input.width), static_cast<int>(input.height));
    std::memcpy(image.row(0), pixels + static_cast<size_t>(i) * image.byte_count(), image.byte_count());
  }
  return out;
}

}  // namespace

void RunPictures::start(Compiler& compiler, const ProgramOptions& options) {
  const recipe::Recipe& recipe = run_.recipe;
  const TensorType images = image_batch(*recipe.model, recipe.program_rows());
  if (shows_images() && options.augmentation.values() > 0) {
    Program program = augmented_program(*recipe.model, run_.layout, options, recipe.monitor.images);
    augmented_future_ = compiler.start(std::move(program), run_.cache, arguments_of(run_.layout, 0, images));
  }
  if (has_histograms()) {
    Program program = histogram_program(*recipe.model, run_.layout, *recipe.optimizer, options);
    histogram_future_ =
        compiler.start(std::move(program), run_.cache, arguments_of(run_.layout, run_.layout.entries.size(), images));
  }
}

void RunPictures::show_model() const {
  if (!run_.reporter.sinks().empty()) run_.reporter.sinks().put(model_graph(*run_.recipe.model));
}

void RunPictures::show_images(const data::Batch& rows) const {
  if (!shows_images() || augmented_future_.valid() || run_.reporter.sinks().empty()) return;
  const int64_t count = std::min(rows.rows(), run_.recipe.monitor.images);
  run_.reporter.sinks().put(images_of(rows.images(), count, run_.recipe.model->input()));
}

bool RunPictures::comes_before(int64_t step) const { return augmented_future_.valid() || counts_histograms(step); }

bool RunPictures::counts_histograms(int64_t step) const {
  return has_histograms() && (step == 1 || recipe::due(step, run_.recipe.histograms_every, run_.recipe.total));
}

void RunPictures::before_step(DeviceBatch& batch, StepState& state, state::DeviceArrays* votes) {
  if (!comes_before(run_.progress.step + 1)) return;
  const Reporter::Pause pause(run_.reporter);
  run_.profiles.interrupted();
  augment_first_images(batch, votes);
  count_histograms(batch, state, votes);
}

void RunPictures::augment_first_images(DeviceBatch& batch, state::DeviceArrays* votes) {
  if (!augmented_future_.valid() || !wait_for_program(run_, augmented_future_, "augmented")) return;
  const ReadyProgram program = take_program(run_, augmented_future_, "augmented");
  const Reporter::Timed timed(run_.reporter, &state::RunTimes::evaluation);
  const auto key = seed_key(static_cast<uint64_t>(run_.recipe.run.seed));
  state::DeviceArrays rng = state::replicate(*run_.client, run_.layout.mesh, key.data(), {DType::kU32, {2}});
  state::ArgumentLists arguments = state::argument_lists(rng, 1);
  state::append_arguments(arguments, batch.arguments());
  if (votes) state::append_arguments(arguments, *votes);
  state::DeviceArrays images = program.executable->execute(arguments);
  const std::vector<uint8_t> pixels = state::own_list(images)[0].to_host<uint8_t>();
  const models::InputShape& input = run_.recipe.model->input();
  const int64_t count = static_cast<int64_t>(pixels.size()) / (input.height * input.width * 3);
  if (run_.processes.leads()) write_first_batch(run_.workdir, image::tiled(pixels.data(), count, input.width, input.height));
  if (!run_.reporter.sinks().empty()) run_.reporter.sinks().put(images_of(pixels.data(), count, input));
}

void RunPictures::count_histograms(DeviceBatch& batch, StepState& state, state::DeviceArrays* votes) {
  const int64_t step = run_.progress.step + 1;
  // Processes that train together learn at the same step that the run ends, and all of them leave the program out.
  if (!counts_histograms(step) || run_.stop.requested()) return;
  if (!histograms_) {
    if (!wait_for_program(run_, histogram_future_, "histograms")) return;
    histograms_ = take_program(run_, histogram_future_, "histograms");
  }
  const Reporter::Timed timed(run_.reporter, &state::RunTimes::evaluation, "histograms");
  state::DeviceArrays rows = histograms_->executable->execute(state.arguments(batch, histograms_->numbers, votes));
  // The step begins when all devices are through: only then is its time its own.
  for (const std::vector<pjrt::Buffer>& of_device : rows) {
    if (!of_device.empty()) of_device[0].await();
  }
  counted_ = Counted{step, std::move(state::own_list(rows)[0])};
}

void RunPictures::after_step(int64_t step) {
  if (!counted_ || counted_->step != step) return;
  const std::vector<float> rows = counted_->rows.to_host<float>();
  run_.reporter.sinks().put(step, monitor::Histograms{read_histograms(run_.layout, *run_.recipe.optimizer, rows)});
  counted_.reset();
}

}  // namespace tessera::train
