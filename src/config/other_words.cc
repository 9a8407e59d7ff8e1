#include "config/other_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <string_view>

#include "base/text/text.h"

namespace tessera::config {
namespace {

// What other trainers call it -> what a recipe calls it, and how a value is written where that is of another kind.
struct OtherWord {
  std::string_view word, own, example = {};
};
constexpr OtherWord kOtherKeys[] = {
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
    {"log_interval", "log", "log = \"50 steps\""},
    {"logging_steps", "log", "log = \"50 steps\""},
    {"log_every_n_steps", "log", "log = \"50 steps\""},
    {"print_freq", "log", "log = \"50 steps\""},
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
    {"gradient_clip_val", "clip", "clip = \"norm(1.0)\""},
    {"max_grad_norm", "clip", "clip = \"norm(1.0)\""},
    {"max_norm", "clip", "clip = \"norm(1.0)\""},
    {"accumulate_grad_batches", "accumulate"},
    {"gradient_accumulation_steps", "accumulate"},
    {"arch", "model"},
    {"eval_metric", "best"},
    {"b", "batch"},
    {"j", "threads"},
    {"fp16", "dtype", "dtype = \"bf16\""},
    {"mixed_precision", "dtype", "dtype = \"bf16\""},
    {"half", "dtype", "dtype = \"bf16\""},
    {"bs", "batch"},
    {"train_batch_size", "batch"},
    {"per_device_train_batch_size", "batch"},
    {"epoch", "total", "total = \"90 epochs\""},
    {"n_epoch", "total", "total = \"90 epochs\""},
    {"n_epochs", "total", "total = \"90 epochs\""},
    {"num_train_epochs", "total", "total = \"90 epochs\""},
    {"model_load", "model_init"},
    {"init_head_bias", "head_bias"},
};
// Of values: fp16 is a key of some, and a type of numbers.
constexpr OtherWord kOtherValues[] = {
    {"cross_entropy", "softmax"},
    {"crossentropy", "softmax"},
    {"crossentropyloss", "softmax"},
    {"ce", "softmax"},
    {"softmax_xent", "softmax"},
    {"sigmoid_xent", "bce"},
    {"binary_cross_entropy", "bce"},
    {"bcewithlogits", "bce"},
    {"momentum", "sgd"},
    {"nesterov", "sgd"},
    {"scale_by_adafactor", "adafactor_bv"},
    {"scale_by_adam", "adam"},
    {"momentum_hp", "sgd"},
    {"fewshot_lsr", "few_shot"},
    {"fewshot", "few_shot"},
    {"discriminative_classifier", "zero_shot"},
    {"scoring_classifier", "caption_scoring"},
    {"hflip", "flip_lr"},
    {"randomhorizontalflip", "flip_lr"},
    {"random_flip_lr", "flip_lr"},
    {"center_crop", "central_crop"},
    {"centercrop", "central_crop"},
    {"totensor", "value_range"},
    {"to_tensor", "value_range"},
    {"randaugment", "randaug"},
    {"rand_augment", "randaug"},
    {"autoaugment", "auto_augment"},
    {"randomerasing", "random_erasing"},
    {"cutout", "random_erasing"},
    {"bfloat16", "bf16"},
    {"float16", "bf16"},
    {"fp16", "bf16"},
    {"f16", "bf16"},
    {"float32", "f32"},
    {"fp32", "f32"},
    {"onecycle", "one_cycle"},
    {"fit_one_cycle", "one_cycle"},
    {"cosineannealinglr", "cosine"},
    {"steplr", "step"},
};

// Words of timm's, fastai's, Lightning's and Hugging Face's programs that are no keys of a recipe.
struct OtherHelp {
  std::string_view words, help;
};
constexpr OtherHelp kOtherHelp[] = {
    {"resume auto_resume no_resume start_epoch continue ckpt_path resume_from_checkpoint",
     "tessera train goes on by itself: with --workdir DIR from that run's newest checkpoint, without it with this recipe's "
     "newest run that is not finished; --new starts afresh, --from-step N goes back, and resume=RUN@STEP goes on with another "
     "run"},
    {"output output_dir out_dir save_dir log_dir logdir ckpt_dir experiment exp_name", "the run's directory is --workdir DIR"},
    {"gpu gpus cuda device num_gpus accelerator", "--platform cuda, and --devices N for several"},
    {"tpu tpu_cores", "--platform tpu"},
    {"cpu force_cpu", "--platform cpu"},
    {"force f exist_ok", "what is there already is replaced with --overwrite, by the commands that have it"},
    {"config cfg c", "the recipe is a word of its own: tessera train recipe.toml"},
    {"pretrained initial_checkpoint finetune init_from",
     "a key of the recipe: 'model_init.from=hub(timm/resnet50.a1_in1k)', or a directory; tessera help model_init"},
    {"model_ema ema", "a section of the recipe: average.decay=0.9998; tessera help average"},
    {"log_wandb wandb report_to logger loggers", "a key of the recipe: 'monitor.sinks=[\"tensorboard\", \"wandb\"]'"},
    {"mlflow", "a key of the recipe: 'monitor.sinks=[\"tensorboard\", \"mlflow\"]'; MLFLOW_TRACKING_URI names the server"},
    {"tensorboard tb use_tensorboard tensorboard_dir tb_dir",
     "a run writes TensorBoard's files by itself, into tb/ of its directory: tensorboard --logdir runs; monitor.sinks=[] "
     "writes none"},
    {"board dashboard", "the live page: tessera train recipe.toml --board, or tessera board runs"},
    {"profiler", "tessera profile RUN while it trains, or a key of the recipe: 'monitor.profile=steps 2-6'"},
    {"set override overrides", "settings of the recipe are words without dashes: optimizer.lr=3e-4"},
    {"dry_run", "tessera plan RECIPE --topology … compiles and does not train; tessera data check RECIPE reads all images"},
    {"patience early_stopping", "a key of the recipe: 'early_stop=val/loss, patience=5 epochs'; tessera help early_stop"},
    {"save_best best_model", "a key of the recipe: checkpoint.best=val/prec@1; tessera help checkpoint"},
    {"save_every save_steps save_freq save_interval checkpoint_interval ckpt_steps",
     "a key of the recipe: 'checkpoint.every=1 epoch'; tessera help checkpoint"},
    {"accuracy acc top1 top5 prec@1 prec@5 error_rate",
     "a score of every evaluator of the type classification, prec@1 (top1 on the console): checkpoint.best=val/prec@1; tessera "
     "help classification"},
    {"f1 f1_score f1_macro kappa cohen_kappa auc roc_auc balanced_accuracy",
     "a further score of an evaluator: 'eval.val.metrics=[\"f1_macro\"]'; tessera help eval.val.metrics"},
    {"map mean_average_precision f1_micro", "a score of evaluators of the type multilabel; tessera help multilabel"},
    {"confusion confusion_matrix top_losses most_confused",
     "tessera report RUN has the confusion matrix and the images with the largest losses"},
    {"val valid validation test",
     "images for evaluation are an evaluator's: eval.val.data.source=folder(DIR/val); tessera help eval"},
    {"onnx torchscript tflite openvino",
     "tessera export writes a directory that timm.create_model loads, or --format stablehlo"},
    {"hub hf huggingface hf_hub", "a key of the recipe: 'model_init.from=hub(OWNER/NAME)'; tessera help model_init"},
    {"exit exit_code exit_codes",
     "0 done, 1 a mistake of the program, 2 recipe or command line, 3 data, 4 device, 5 diverged, 75 and 130 stopped after "
     "saving"},
    {"env environment environment_variables",
     "each flag has a variable, which --help names beside it: TESSERA_WORKDIR for --workdir; the flag comes first"},
    {"hparams hyperparameters grid grid_search optuna", "tessera sweep RECIPE lr=1e-3,3e-3 seed=0..4"},
    {"seeds num_seeds n_seeds", "several seeds are several runs: tessera sweep RECIPE seed=0..4"},
    {"distributed ddp strategy nproc_per_node nnodes world_size",
     "--devices N of one process; several processes or hosts by tessera launch, as tessera launch local:2 -- train RECIPE"},
    {"grad_checkpointing gradient_checkpointing grad_ckpt", "a key of the recipe: model.remat=full; tessera help model.remat"},
    {"warmup_epochs warmup_steps sched scheduler schedule lr_schedule lr_scheduler min_lr warmup",
     "part of the learning rate: 'optimizer.lr=cosine(1e-3, warmup=5 epochs)'; tessera help schedules"},
    {"imagenet coco", "tessera data prepare imagenet DIR --from ARCHIVES makes folders of classes; then folder(DIR/train)"},
    {"cifar10 cifar100 mnist", "tfds(NAME, data_dir=DIR) reads what TensorFlow Datasets prepared; tessera help sources"},
    {"data data_dir data_path train_dir dataset imagefolder image_folder dataloader",
     "a key of the recipe: 'data.source=folder(DIR/train)'; tessera help sources"},
    {"img_size input_size image_size crop_size",
     "the size is what data.pp makes, and eval.NAME.data.pp: \"decode | random_resized_crop(224) | …\""},
    {"num_classes nb_classes", "classes are what the data have: a folder for each, or classes=FILE of a source"},
    {"cooldown cooldown_epochs cooldown_steps",
     "part of the learning rate: 'optimizer.lr=wsd(1e-3, decay=20 %)', of another run with resume=RUN@STEP; tessera help wsd"},
    {"aa auto_augment color_jitter hflip vflip reprob augmentation augmentations augment aug randomhorizontalflip re_prob",
     "part of data.pp: \"… | flip_lr | randaug(rand-m9-mstd0.5-inc1) | … | random_erasing(0.25)\"; tessera help pp"},
    {"checkpoint ckpt checkpoint_path model_path weights_path", "weights come with --from PATH"},
    {"model arch a",
     "of a recipe: model.name=resnet model.variant=resnet18 (`tessera models` lists them); trained weights come with --from "
     "PATH"},
    {"optimizer opt", "a key of the recipe: optimizer.name=adamw; tessera help optimizers"},
    {"val_split valid_split validation_split test_split split valid_pct",
     "part of the sources: 'data.source=part(folder(photos), train, 20 %)' and 'eval.val.data.source=part(folder(photos), "
     "valid, 20 %)'"},
    {"epoch_repeats repeated_aug",
     "an epoch is every image once: more epochs are 'total=90 epochs', and data.aug_repeats=3 shows each image three times in "
     "a "
     "row, changed by other draws; tessera help data.aug_repeats"},
    {"drop_block",
     "a key of ResNets (model.name=resnet), model.drop_block=0.1; ViTs have model.drop_path, and tessera help vit lists their "
     "keys"},
    {"balance balanced sampler oversample",
     "a key of the recipe: data.shuffle=balanced shows all classes equally often; tessera help data.shuffle"},
    {"callbacks callback",
     "what callbacks do are keys of the recipe: early_stop, checkpoint.best, average, monitor.sinks; tessera help"},
    {"compile torch_compile torchcompile", "XLA compiles every program; there is nothing to set"},
    {"momentum", "of sgd: optimizer.momentum=0.9; adam and adamw have b1 and b2; tessera help optimizers"},
    {"silent q", "--quiet"},
};

// A word that is there twice would have the first one's answer, and the second one nobody sees.
template <size_t kSize>
constexpr bool all_differ(const OtherWord (&words)[kSize]) {
  for (size_t i = 0; i < kSize; ++i) {
    for (size_t j = i + 1; j < kSize; ++j) {
      if (words[i].word == words[j].word) return false;
    }
  }
  return true;
}
static_assert(all_differ(kOtherKeys));
static_assert(all_differ(kOtherValues));

// Whether `word` is among `words`, which have a space between them.
constexpr bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

constexpr size_t kHelpWords = [] {
  size_t count = 0;
  for (const OtherHelp& help : kOtherHelp) count += 1 + static_cast<size_t>(std::ranges::count(help.words, ' '));
  return count;
}();

// Sorted first: compilers bound the steps of what they evaluate.
constexpr bool all_words_differ() {
  std::array<std::string_view, kHelpWords> all;
  size_t found = 0;
  for (const OtherHelp& help : kOtherHelp) {
    for (std::string_view rest = help.words; !rest.empty();) {
      const size_t end = std::min(rest.find(' '), rest.size());
      all[found++] = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  std::ranges::sort(all);
  return std::ranges::adjacent_find(all) == all.end();
}
static_assert(all_words_differ());

// What a recipe calls another trainer's `word`, where that is `known`; else "".
template <class Known>
std::string_view own_word(std::span<const OtherWord> words, std::string_view word, const Known& known) {
  for (const OtherWord& other : words) {
    if (word == other.word && known(other.own)) return other.own;
  }
  return {};
}

}  // namespace

std::string same_key(std::string_view key, const std::vector<std::string>& candidates) {
  const auto known = [&](std::string_view name) { return std::ranges::find(candidates, name) != candidates.end(); };
  if (known(key)) return std::string(key);
  const std::string_view own = own_word(kOtherKeys, key, known);
  return std::string(own.empty() ? own_word(kOtherValues, key, known) : own);
}

std::string suggest_key(std::string_view key, const std::vector<std::string>& candidates) {
  const std::string same = same_key(key, candidates);
  return same.empty() ? nearest_name(key, candidates).value_or("") : same;
}

std::string suggest_value(std::string_view value, const std::vector<std::string>& candidates) {
  const std::string same = same_key(lower(std::string(value)), candidates);
  return same.empty() ? suggest_name(value, candidates) : fmt::format("did you mean `{}`?", same);
}

std::string example_of(std::string_view key, std::string_view meant) {
  for (const OtherWord& other : kOtherKeys) {
    if (key == other.word && meant.ends_with(other.own)) return std::string(other.example);
  }
  return "";
}

std::string other_help(std::string_view word) {
  for (const OtherHelp& other : kOtherHelp) {
    if (has_word(other.words, word)) return std::string(other.help);
  }
  return "";
}

}  // namespace tessera::config
