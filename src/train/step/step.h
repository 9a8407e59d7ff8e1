#pragma once
// The programs of a run, as StableHLO text. A batch is images as bytes, which are normalised on the device, then what the
// objective or evaluator reads beside them: labels i32 [B] or multi-hot u8 [B, classes], arrays of tokens i32 [B, length].

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "evaluators/evaluator.h"
#include "models/model.h"
#include "objectives/objective.h"
#include "optim/optimizer.h"
#include "state/state.h"
#include "train/step/program.h"

namespace tessera::train {

// What a training step measures, in the order of its last result: training_loss, l2_grads, l2_params, l2_updates, lr, the
// objective's own, each as training_<name>, and guard_metric_names() (train/guard/skip_update.h) where there is a guard.
std::vector<std::string> metric_names(const objectives::Objective& objective,
                                      const std::optional<recipe::GuardOptions>& guard = {});

// Programs run on the layout's mesh: entries lie as the layout says, rows of a batch are split over the mesh's batch axes, and
// all other arguments and results are replicated.

// (rng u32[2]) -> every entry of the layout: drawn parameters, zero slots, step 0, the key itself, averages
// as the parameters, lr_scale 1, guard 0; then f32 [2 * params],
// each parameter's mean and standard deviation.
Program init_program(const std::vector<nn::ParamSpec>& specs, const state::StateLayout& layout);

// What train_program() is called.
inline constexpr const char* kTrainStep = "train_step";

// (state…, the teacher's params…, images u8 [B, H, W, 3], the objective's inputs, augment f32 [B, values] where the
// augmentation has values; of several processes this one's number i32 and its votes f32 [kVotes], or, where the mesh spans them, the
// votes of each device's process f32 [devices, kVotes]; the optimizer's numbers, each f32)
// -> (state…, metrics f32 [metric_names], then the votes' sums). Each state argument is donated to the result of its place.
// training_loss is the mean over the batch (the weighted one where the objective weighs examples) before the update (label
// smoothing included), l2_grads the global norm before clipping, l2_params after the update, l2_updates of the difference. With a
// guard an update that it skips leaves parameters, buffers, slots and averages as they are; `step` counts it. l2_updates is then
// that of the update which was not made.
Program train_program(const models::Model& model, const state::StateLayout& layout, const optim::Optimizer& optimizer,
                      const ProgramOptions& options);

// (rng u32[2], images u8 [B, H, W, 3], the objective's inputs, augment f32 [B, values], the process's number and votes as above) -> u8 [images, H, W, 3]: the first
// images of the run's first batch as the model sees them, mixed and erased, but not normalised. Where the device does either.
Program augmented_program(const models::Model& model, const state::StateLayout& layout, const ProgramOptions& options,
                          int64_t images);

// The arguments of train_program, none of them donated -> f32 [3 * trained, kHistogramColumns]: of each trained parameter a row
// for its value after the update, one for the update and one for the gradient before clipping (train/step/histograms.h).
Program histogram_program(const models::Model& model, const state::StateLayout& layout, const optim::Optimizer& optimizer,
                          const ProgramOptions& options);

// (params…, the evaluator's inputs of the set) -> f32 [B, columns]: its rows.
Program eval_program(const models::Model& model, const evaluators::Evaluator& evaluator, size_t set,
                     const state::StateLayout& layout, const ProgramOptions& options);

// (params…, images) -> logits f32 [B, classes], of a Classifier.
Program predict_program(const models::Model& model, const state::StateLayout& layout, const ProgramOptions& options);

// The processes of a run agree on what they do after a step: each says what it is asked for, and the last kVotes measurements of
// the step are the sums over all of them.
enum Vote : size_t { kVoteStop, kVoteInterrupt, kVoteSave, kVotes };

// The key of a run's seed.
std::array<uint32_t, 2> seed_key(uint64_t seed);

}  // namespace tessera::train
