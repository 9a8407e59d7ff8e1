#include "train/step/program_options.h"

namespace tessera::train {
namespace {

ProgramOptions options_of_all(const recipe::Recipe& recipe, const Hardware& hardware) {
  ProgramOptions options;
  options.compute = recipe.compute;
  options.optimization_level = recipe.run.optimization_level;
  options.hardware = hardware;
  return options;
}

}  // namespace

ProgramOptions train_options(const recipe::Recipe& recipe, const Hardware& hardware) {
  ProgramOptions options = options_of_all(recipe, hardware);
  options.batch = recipe.program_rows();
  options.processes = recipe.processes.meshes();
  options.joint = recipe.processes.joint;
  options.pixels = recipe.data.pp().pixel_scale();
  options.objective = recipe.objective;
  options.augmentation = augmentation_of(recipe.data.pp(), recipe.data.mixup);
  options.accumulate = recipe.run.accumulate;
  options.average = recipe.average;
  options.guard = recipe.guard;
  // Where devices share the state, memory is short. And processes could find each that something else fits.
  const bool shared = recipe.mesh.size("fsdp") > 1 || recipe.mesh.size("tensor") > 1;
  options.keeps_activations = hardware.gpus && !shared && options.processes == 1 && !options.joint;
  options.teacher = recipe.teacher;
  return options;
}

ProgramOptions eval_options(const recipe::Recipe& recipe, const recipe::EvalSet& set, const Hardware& hardware) {
  ProgramOptions options = options_of_all(recipe, hardware);
  options.batch = set.program_rows();
  options.image_size = set.image_size();
  options.pixels = set.pixels();
  return options;
}

}  // namespace tessera::train
