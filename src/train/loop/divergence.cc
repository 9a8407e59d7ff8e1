#include "train/loop/divergence.h"

#include <fmt/format.h>

#include "base/text/shell.h"
#include "base/text/text.h"
#include "store/file.h"

namespace tessera::train {
namespace {

std::string clip_help(const std::string& clip) {
  if (clip == "none") return "clip gradients (optimizer.clip is none), as clip = \"norm(1.0)\"";
  return fmt::format("clip more tightly (optimizer.clip is {})", clip);
}

std::string warmup_help(const std::string& lr) {
  return lr.find("warmup=") == std::string::npos ? "give it a warm-up, as warmup=5 %" : "lengthen its warmup";
}

}  // namespace

std::string divergence_help(const recipe::Recipe& recipe, const std::string& workdir,
                            const std::optional<std::string>& checkpoint) {
  const optim::OptimizerOptions& options = recipe.optimizer->options();
  std::vector<std::string> changes{fmt::format("lower the learning rate (optimizer.lr is {})", options.lr),
                                   warmup_help(options.lr), clip_help(options.clip)};
  if (recipe.compute != DType::kF32) changes.push_back(fmt::format("compute in f32 (dtype is {})", recipe.run.dtype));
  std::string help = fmt::format("nothing of this step is saved; {}", join(changes, ", or "));
  help += fmt::format("\n      from the start: tessera train {} KEY=VALUE --workdir {}",
                      shell_quoted(store::join_path(workdir, "recipe.toml")), shell_quoted(workdir + "-2"));
  if (!checkpoint) return help;
  return help + fmt::format("\n      from weights before it: the same with {}", shell_quoted("model_init.from=" + *checkpoint));
}

}  // namespace tessera::train
