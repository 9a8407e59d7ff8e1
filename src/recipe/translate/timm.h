#pragma once
// timm's train.py as a recipe: its arguments (huggingface/pytorch-image-models aa4b585, and the branch bits_and_tpu a25bf97) and
// what they mean in timm/data/transforms_factory.py, timm/optim/_optim_factory.py and timm/scheduler/scheduler_factory.py.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "recipe/translate/arguments.h"

namespace tessera::translate {

std::span<const Argument> timm_arguments();

struct OtherDefault {
  const char *name, *value;
};
std::span<const OtherDefault> bits_defaults();

struct TimmOptions {
  std::string defaults = "main";      // main or bits: whose they are
  std::optional<int64_t> world_size;  // devices of timm's command; what the words say, else `devices`, when not given
  int64_t devices = 1;                // of this program's run
};

// One of timm's optimizers here.
struct TimmOptimizer {
  const char *timm, *name, *options;  // of a recipe, "nesterov = false, caution = true"
  bool momentum, betas, eps;          // which of --momentum, --opt-betas and --opt-eps it takes
};
std::span<const TimmOptimizer> timm_optimizers();
// A usage Error that names the nearest where there is none.
const TimmOptimizer& find_timm_optimizer(const std::string& name);

// Arguments and optimizers as Markdown: what `tessera timm --list` prints, and docs/from/timm.md holds.
std::string timm_lists();

// `words`: the arguments of train.py; a launcher before that (distributed_train.sh N, torchrun --nproc_per_node=N train.py) says
// how many devices. `-c FILE` reads YAML. Words KEY=VALUE are settings of the recipe. Usage Errors for what is unknown or has no
// counterpart. Looks for the folders of --data-dir, and opens nothing else.
Translation translate_timm(std::vector<std::string> words, const TimmOptions& options);

}  // namespace tessera::translate
