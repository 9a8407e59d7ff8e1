#include "config/other_words.h"

#include <algorithm>

#include "base/text/text.h"

namespace tessera::config {
namespace {

// What other trainers call it -> what a recipe calls it, and how a value is written where that is of another kind.
struct OtherWord {
  std::string_view word, key, example = {};
};
constexpr OtherWord kOtherWords[] = {
    {"learning_rate", "lr"},
    {"base_lr", "lr"},
    {"wd", "weight_decay"},
    {"opt", "optimizer"},
    {"beta1", "b1"},
    {"beta2", "b2"},
    {"epsilon", "eps"},
    {"batch_size", "batch"},
    {"epochs", "total", "total = \"90 epochs\""},
    {"num_epochs", "total", "total = \"90 epochs\""},
    {"steps", "total", "total = \"10000 steps\""},
    {"total_steps", "total", "total = \"10000 steps\""},
    {"total_epochs", "total", "total = \"90 epochs\""},
    {"loss", "objective"},
    {"criterion", "objective"},
    {"dataset", "data"},
    {"input", "data"},
    {"evals", "eval"},
    {"evaluators", "eval"},
    {"transform", "pp"},
    {"transforms", "pp"},
    {"preprocess", "pp"},
    {"path", "source"},
    {"embed_dim", "width"},
    {"hidden_size", "width"},
    {"dim", "width"},
    {"layers", "depth"},
    {"num_layers", "depth"},
    {"num_heads", "heads"},
    {"patch_size", "patch"},
    {"smoothing", "label_smoothing"},
    {"interval", "every"},
    {"frequency", "every"},
    {"log_every", "log"},
    {"log_steps", "log"},
    {"rng_seed", "seed"},
    {"grad_clip", "clip", "clip = \"norm(1.0)\""},
    {"clip_norm", "clip"},
    {"grad_clip_norm", "clip"},
    {"num_classes", "classes"},
    {"kind", "type"},
    {"type", "name"},
    {"name", "type"},
    {"workers", "threads"},
    {"num_workers", "threads"},
    {"max_epochs", "total", "total = \"90 epochs\""},
    {"max_steps", "total", "total = \"10000 steps\""},
    {"amp", "dtype", "dtype = \"bf16\""},
    {"bf16", "dtype", "dtype = \"bf16\""},
    {"precision", "dtype", "dtype = \"bf16\""},
    {"grad_accum_steps", "accumulate"},
    {"accum_iter", "accumulate"},
    {"img_size", "image_size"},
    {"clip_grad", "clip", "clip = \"norm(1.0)\""},
    {"arch", "model"},
    {"eval_metric", "best"},
};

}  // namespace

std::string same_key(std::string_view key, const std::vector<std::string>& candidates) {
  const auto known = [&](std::string_view name) { return std::ranges::find(candidates, name) != candidates.end(); };
  if (known(key)) return std::string(key);
  for (const OtherWord& other : kOtherWords) {
    if (key == other.word && known(other.key)) return std::string(other.key);
  }
  return "";
}

std::string suggest_key(std::string_view key, const std::vector<std::string>& candidates) {
  const std::string same = same_key(key, candidates);
  return same.empty() ? nearest_name(key, candidates).value_or("") : same;
}

std::string example_of(std::string_view key, std::string_view meant) {
  for (const OtherWord& other : kOtherWords) {
    if (key == other.word && meant.ends_with(other.key)) return std::string(other.example);
  }
  return "";
}

}  // namespace tessera::config
