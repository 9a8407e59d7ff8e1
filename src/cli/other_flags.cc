#include "cli/other_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/text/text.h"
#include "config/other_words.h"
#include "recipe/keys.h"

namespace tessera::cli {
namespace {

// Words of timm's, fastai's, Lightning's and Hugging Face's programs that are no keys of a recipe.
struct ForeignFlag {
  std::string_view names, help;
};
constexpr ForeignFlag kForeign[] = {
    {"--resume --auto-resume --no-resume --start-epoch --continue",
     "tessera train goes on by itself: with --workdir DIR from that run's newest checkpoint, without it with this recipe's "
     "newest run that is not finished; --new starts afresh, --from-step N goes back, and resume=RUN@STEP goes on with another "
     "run"},
    {"--output --output-dir --out-dir --save-dir --log-dir --logdir --ckpt-dir --experiment --exp-name",
     "the run's directory is --workdir DIR"},
    {"--gpu --gpus --cuda --device --num-gpus --accelerator", "--platform cuda, and --devices N for several"},
    {"--tpu --tpu-cores", "--platform tpu"},
    {"--cpu --force-cpu", "--platform cpu"},
    {"--force -f --exist-ok", "what is there already is replaced with --overwrite, by the commands that have it"},
    {"--config --cfg -c", "the recipe is a word of its own: tessera train recipe.toml"},
    {"--pretrained --initial-checkpoint --finetune --init-from",
     "a key of the recipe: model_init.from=DIR; tessera help model_init"},
    {"--model-ema --ema", "a section of the recipe: average.decay=0.9998; tessera help average"},
    {"--log-wandb --wandb --report-to", "a key of the recipe: 'monitor.sinks=[\"tensorboard\", \"wandb\"]'"},
    {"--warmup-epochs --sched --scheduler --min-lr --warmup",
     "part of the learning rate: 'optimizer.lr=cosine(1e-3, warmup=5 epochs)'; tessera help schedules"},
    {"--data-dir --data-path --train-dir --dataset",
     "a key of the recipe: 'data.source=folder(DIR/train)'; tessera help sources"},
    {"--img-size --input-size --image-size --crop-size",
     "the size is what data.pp makes, and eval.NAME.data.pp: \"decode | random_resized_crop(224) | …\""},
    {"--num-classes --nb-classes", "classes are what the data have: a folder for each, or classes=FILE of a source"},
    {"--aa --auto-augment --color-jitter --hflip --vflip --reprob --augmentation",
     "part of data.pp: \"… | flip_lr | randaug(rand-m9-mstd0.5-inc1) | … | random_erasing(0.25)\"; tessera help pp"},
    {"--checkpoint --ckpt --checkpoint-path --model-path --weights-path", "weights come with --from PATH"},
};

// "--batch-size" -> "batch_size"
std::string as_word(std::string_view flag) {
  flag.remove_prefix(std::min(flag.find_first_not_of('-'), flag.size()));
  std::string word(flag);
  std::ranges::replace(word, '-', '_');
  return word;
}

// The key of a recipe that is called so, or has that as its last part: the one with the fewest parts.
std::string key_called(const std::string& word) {
  std::string best;
  size_t best_parts = 0;
  for (const recipe::SectionKeys& section : recipe::recipe_keys()) {
    for (const config::KeyDoc& doc : section.keys) {
      const std::vector<std::string> parts = split(doc.key, '.');
      if (!best.empty() && parts.size() >= best_parts) continue;
      if (!config::same_key(word, {parts.back()}).empty()) best = doc.key, best_parts = parts.size();
    }
  }
  return best;
}

}  // namespace

std::string help_for_foreign_flag(std::string_view flag) {
  for (const ForeignFlag& foreign : kForeign) {
    const std::vector<std::string> names = split(std::string(foreign.names), ' ');
    if (std::ranges::find(names, flag) != names.end()) return std::string(foreign.help);
  }
  const std::string word = as_word(flag), key = key_called(word);
  if (key.empty()) return "";
  const std::string example = config::example_of(word, key), topic = key.substr(0, key.find(".NAME"));
  // `total = "90 epochs"` as one word of a shell.
  const std::string value = example.empty() ? "VALUE" : split(example, '"').at(1);
  return fmt::format("a setting of the recipe, which is written {}; tessera help {}",
                     value.find(' ') == std::string::npos ? key + "=" + value : fmt::format("'{}={}'", key, value), topic);
}

}  // namespace tessera::cli
