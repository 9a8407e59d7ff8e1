#include "train/loop/loop_input.h"

#include <chrono>
#include <utility>

#include "base/system/spans.h"
#include "train/process/loop_phases.h"

namespace tessera::train {
namespace {

// Of each batch this process reads its rows.
data::LoaderOptions loader_options(const Run& run) {
  data::LoaderOptions options = run.recipe.data.loader(run.recipe.batch, static_cast<uint64_t>(run.recipe.run.seed));
  options.start_batch = run.progress.step;
  options.row_count = options.batch / run.processes.count();
  options.row_begin = run.processes.index() * options.row_count;
  return options;
}

}  // namespace

LoopInput::LoopInput(Run& run, const RunPictures& pictures)
    : run_(run), pictures_(pictures), loader_(run.recipe.data.sets, loader_options(run)) {
  run.reporter.watch(loader_);
}

std::optional<DeviceBatch> LoopInput::next(DispatchedStep* at_work) {
  const auto start = std::chrono::steady_clock::now();
  bool came = false;
  {
    const PhaseSpan span(kWaitForInput);
    came = loader_.wait([this] { return run_.stop.requested() || run_.save_wanted(); });
  }
  const bool idle = !at_work || at_work->is_ready();
  if (idle) run_.reporter.waited(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  if (!came) return std::nullopt;
  data::Batch rows = loader_.next();
  pictures_.show_images(rows);
  const Reporter::Timed timed(run_.reporter, nullptr, kTransfer);
  return std::optional<DeviceBatch>(std::in_place, *run_.client, run_.layout.mesh, std::move(rows), run_.recipe.data.pp(),
                                    run_.recipe.objective->inputs());
}

}  // namespace tessera::train
