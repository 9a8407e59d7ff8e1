// The arguments of timm's train.py (main, and those that only older versions and the branch bits_and_tpu have). Of older versions
// are here those that stand in published files of arguments, which hold every one.
#include "recipe/translate/timm.h"

namespace tessera::translate {
namespace {

using enum Kind;
using enum Takes;

constexpr const char* kNaflex = "images of several sizes in one batch (NaFlex) are not trained";
constexpr const char* kSizes = "the size of training images does not change during a run";
constexpr const char* kTeacher =
    "write `objective = { name = \"distillation\", teacher = \"DIR\" }` into the recipe of --print-recipe";
constexpr const char* kTorch = "torch's own";

const Argument kTimmArguments[] = {
    // Data
    {"data", kText, kExact, "", "as --data-dir, which goes before it: a word without a name, in YAML `data`"},
    {"--data-dir", kText, kExact, "",
     "`data.source`: its folder `train`, `eval.val.data.source`: its folder `validation`, val, … or itself; also as a word "
     "without a name"},
    {"--dataset -d", kText, kExact, "",
     "`tfds/NAME` and `wds/…` as `tfds(…)` and `wds(…)`; other names and `torch/image_folder` as `folder(…)`, as in timm; "
     "`hfds/…`, `hfids/…` and other `torch/…` are errors"},
    {"--train-split", kText, kExact, "train",
     "the folder or split of training; for wds a pattern of tar files in the data directory"},
    {"--val-split", kText, kExact, "validation", "the same of validation; empty: none"},
    {"--train-num-samples", kInteger, kIgnored, "", "the index of a source counts its samples"},
    {"--val-num-samples", kInteger, kIgnored, "", "the index of a source counts its samples"},
    {"--dataset-download", kNothing, kIgnored, "", "prepare the data set first; sources read what is there"},
    {"--class-map", kText, kMissing, "", "classes are folders in alphabetical order, or `classes=FILE` of a source"},
    {"--input-img-mode", kText, kMissing, "RGB", "RGB, or with --in-chans 1 luminance"},
    {"--input-key", kText, kExact, "", "`image=` of a wds source"},
    {"--target-key", kText, kExact, "", "`label=` of a wds source"},
    {"--dataset-trust-remote-code", kNothing, kIgnored, "", "no code of data sets is run"},
    // Model
    {"--model", kText, kExact, "resnet50",
     "`model.name` and `model.variant`; `tessera models` lists them. A `.tag` chooses mean, deviation, size and crop"},
    {"--pretrained", kNothing, kExact, "",
     "`model_init.from`: `hub(timm/NAME.TAG)`, fetched where the cache lacks it; without a tag in --model timm's own. A head "
     "of other classes begins anew"},
    {"--pretrained-path", kText, kExact, "", "`model_init.from`, the head begins anew"},
    {"--initial-checkpoint", kText, kApproximated, "",
     "`model_init.from`: a directory of timm's or Hugging Face's, a .safetensors or .pth file, or a run of this program"},
    {"--resume", kText, kApproximated, "",
     "`resume`: a run of this program, or RUN@STEP; of a .pth.tar the weights alone can be had (--initial-checkpoint). The "
     "same command continues its own run without it"},
    {"--no-resume-opt", kNothing, kMissing, "", "to take the weights alone, give --initial-checkpoint RUN"},
    {"--num-classes", kInteger, kExact, "",
     "`model.classes`; when not given as many as the data have (timm: the model's 1000)"},
    {"--gp", kText, kExact, "", "`model.pool`: avg, token or map of a ViT, avg of the others"},
    {"--img-size", kInteger, kExact, "", "the size that both chains make; the model takes it"},
    {"--in-chans", kInteger, kApproximated, "3",
     "1: `grayscale`, after the crop and what changes colours; timm converts before. 3 otherwise"},
    {"--input-size", kNumbers, kExact, "", "as --img-size; three channels, and square"},
    {"--crop-pct", kNumber, kExact, "", "the size of the resize before the central crop of evaluation"},
    {"--mean", kNumbers, kExact, "", "`normalise(mean=…)`; when not given the model's in timm"},
    {"--std", kNumbers, kExact, "", "`normalise(std=…)`; when not given the model's in timm"},
    {"--interpolation", kText, kExact, "", "of the resize of evaluation"},
    {"--batch-size -b", kInteger, kExact, "128",
     "of one device, as in timm: `data.batch` is this times --world-size times --grad-accum-steps"},
    {"--validation-batch-size -vb", kInteger, kExact, "", "`eval.val.batch`, times --world-size"},
    {"--validation-batch-size-multiplier", kInteger, kExact, "1", "of older versions: a factor of `eval.val.batch`"},
    {"--channels-last", kNothing, kIgnored, "", "XLA chooses layouts"},
    {"--fuser", kText, kIgnored, "", kTorch},
    {"--grad-accum-steps", kInteger, kExact, "1", "`accumulate`, and a factor of `data.batch`"},
    {"--grad-checkpointing", kNothing, kExact, "", "`model.remat = \"full\"`"},
    {"--fast-norm", kNothing, kIgnored, "", kTorch},
    {"--model-kwargs", kTexts, kExact, "",
     "arguments of timm's model class as keys of `model`: `patch_size=12` is `model.patch = 12`; `img_size` as --img-size; one "
     "without a key is an error"},
    {"--head-init-scale", kNumber, kExact, "",
     "0, of ViTs: `model.head_init = \"zeros\"`, and the head begins anew; any other than 0 and 1 is an error"},
    {"--head-init-bias", kNumber, kExact, "", "`model.head_bias`; of ViTs, Mixers and ResMLPs"},
    {"--torchcompile-mode", kText, kIgnored, "", kTorch},
    {"--torchscript", kNothing, kIgnored, "", kTorch},
    {"--aot-autograd", kNothing, kIgnored, "", kTorch},
    {"--torchcompile", kOptionalText, kIgnored, "", kTorch},
    // Devices
    {"--device", kText, kIgnored, "cuda", "`--platform` chooses the device"},
    {"--force-cpu", kNothing, kIgnored, "", "`--platform cpu` does that"},
    {"--amp", kNothing, kApproximated, "", "`dtype = \"bf16\"`; float16 and its loss scaling are not used"},
    {"--amp-dtype", kText, kApproximated, "float16", "bf16 for both bfloat16 and float16"},
    {"--native-amp", kNothing, kApproximated, "", "as --amp"},
    {"--apex-amp", kNothing, kApproximated, "", "as --amp"},
    {"--amp-impl", kText, kIgnored, "native", kTorch},
    {"--model-dtype", kText, kApproximated, "", "bfloat16 as --amp: weights and moments stay f32; float16 is an error"},
    {"--no-ddp-bb", kNothing, kIgnored, "", kTorch},
    {"--synchronize-step", kNothing, kIgnored, "", kTorch},
    {"--local-rank", kInteger, kIgnored, "0", "`tessera launch` starts several processes"},
    {"--num-gpu", kInteger, kMissing, "1", "the launcher of the command, or --world-size, says how many"},
    {"--device-modules", kTexts, kIgnored, "", kTorch},
    // Optimizer
    {"--opt", kText, kExact, "sgd", "`optimizer.name`: see below; a name without counterpart is an error"},
    {"--opt-eps", kNumber, kExact, "", "`optimizer.eps`, of those that have it"},
    {"--opt-betas", kNumbers, kExact, "", "`optimizer.b1`, `b2`, of those that have them"},
    {"--momentum", kNumber, kExact, "0.9", "`optimizer.momentum`, of those that have it"},
    {"--weight-decay", kNumber, kExact, "2e-5", "`optimizer.weight_decay`"},
    {"--clip-grad", kNumber, kExact, "", "`optimizer.clip`, in the manner of --clip-mode"},
    {"--clip-mode", kText, kExact, "norm", "norm, value or agc, as `norm(…)`, `value(…)`, `adaptive(…)`"},
    {"--layer-decay", kNumber, kExact, "", "`optimizer.layer_decay`"},
    {"--layer-decay-min-scale", kNumber, kExact, "0", "`optimizer.layer_decay_min`"},
    {"--layer-decay-no-opt-scale", kNumber, kMissing, "", "name the layers in `optimizer.freeze`"},
    {"--opt-kwargs", kTexts, kMissing, "",
     "options of the optimizer are keys here: add optimizer.KEY=VALUE to the command; tessera help optimizers"},
    // Schedule
    {"--sched", kText, kExact, "cosine",
     "cosine, tanh, step, multistep, plateau or poly, as `cosine`, `tanh`, `step`, `plateau`, `polynomial` of `optimizer.lr`"},
    {"--sched-on-updates", kNothing, kExact, "", "without it the rate changes once an epoch: `hold=1 epoch`"},
    {"--lr", kNumber, kExact, "", "the rate of `optimizer.lr`; when not given by --lr-base"},
    {"--lr-base", kNumber, kExact, "0.1", "lr = lr-base x (global batch / lr-base-size), or its square root"},
    {"--lr-base-size", kInteger, kExact, "256", "of --lr-base"},
    {"--lr-base-scale", kText, kExact, "",
     "linear or sqrt; when not given sqrt for optimizers with ada or lamb in their name, else linear"},
    {"--lr-noise", kNumbers, kExact, "", "`noise=` of the schedule, with timm's draws"},
    {"--lr-noise-pct", kNumber, kExact, "0.67", "`noise_pct=`"},
    {"--lr-noise-std", kNumber, kExact, "1", "`noise_std=`"},
    {"--lr-cycle-mul", kNumber, kExact, "1", "`cycle_mul=`"},
    {"--lr-cycle-decay", kNumber, kExact, "0.5", "`cycle_decay=`"},
    {"--lr-cycle-limit", kInteger, kExact, "1", "`cycles=`"},
    {"--lr-k-decay", kNumber, kExact, "1", "`k=`, of cosine and poly"},
    {"--warmup-lr", kNumber, kExact, "1e-5", "`warmup_start=`"},
    {"--min-lr", kNumber, kExact, "0", "`min=`"},
    {"--epochs", kInteger, kExact, "300",
     "`total`, with cool-down, cycles and a prefix as timm adds them. An epoch is as many steps as the images fill, a part of "
     "one included; timm leaves the last part out"},
    {"--epoch-repeats", kNumber, kExact, "0", "of tfds and wds, as in timm: so many epochs for each of timm's"},
    {"--start-epoch", kInteger, kMissing, "", "a run goes on from its newest checkpoint by itself"},
    {"--decay-milestones", kNumbers, kExact, "90 180 270", "`milestones=`"},
    {"--decay-epochs", kNumber, kExact, "90", "`every=`"},
    {"--warmup-epochs", kNumber, kExact, "5", "`warmup=`"},
    {"--warmup-prefix", kNothing, kExact, "", "`warmup_mode=prefix`, and a longer `total`; else overlap"},
    {"--cooldown-epochs", kInteger, kExact, "0", "more epochs at the lowest rate, after cosine, tanh and poly"},
    {"--patience-epochs", kInteger, kExact, "10", "`patience=` of plateau, in evaluations"},
    {"--decay-rate --dr", kNumber, kExact, "0.1", "`gamma=` of step, `factor=` of plateau, `power=` of poly"},
    // Augmentation
    {"--no-aug", kNothing, kExact, "", "resize and central crop alone"},
    {"--train-crop-mode", kText, kExact, "",
     "rrc, rkrc or rkrr: `random_resized_crop`, or `resize_keep_ratio` and `central_crop_or_pad` or `random_crop_or_pad`"},
    {"--scale", kNumbers, kExact, "0.08 1.0", "`scale=` of the crop"},
    {"--ratio", kNumbers, kExact, "0.75 1.3333333333333333", "`ratio=` of the crop"},
    {"--hflip", kNumber, kExact, "0.5", "`flip_lr`"},
    {"--vflip", kNumber, kExact, "0", "`flip_ud`"},
    {"--color-jitter", kNumber, kExact, "0.4", "`color_jitter`, without --aa (and with the policy 3a)", "0"},
    {"--color-jitter-prob", kNumber, kExact, "", "its `p=`"},
    {"--grayscale-prob", kNumber, kExact, "", "`random_grayscale`"},
    {"--gaussian-blur-prob", kNumber, kExact, "", "`gaussian_blur`"},
    {"--aa", kText, kExact, "", "`auto_augment(WORD)`, filled with the mean"},
    {"--aug-repeats", kNumber, kApproximated, "0",
     "`data.aug_repeats`: each image so many times in a row, changed by other draws. timm draws anew which images an epoch "
     "has; "
     "here so many epochs have every image once"},
    {"--aug-splits", kInteger, kExact, "0", "`split(N)`, with --jsd-loss"},
    {"--jsd-loss", kNothing, kExact, "", "`objective.name = \"jsd\"`"},
    {"--bce-loss", kNothing, kExact, "", "`objective.name = \"bce\"`, where labels are mixed or smoothed, as in timm"},
    {"--bce-sum", kNothing, kExact, "", "`objective.sum_classes`"},
    {"--bce-target-thresh", kNumber, kExact, "", "`objective.target_threshold`"},
    {"--bce-pos-weight", kNumber, kExact, "", "`objective.pos_weight`"},
    {"--reprob", kNumber, kExact, "0", "`random_erasing`; with --aug-splits of the augmented views alone"},
    {"--remode", kText, kExact, "pixel", "its `mode=`"},
    {"--recount", kInteger, kExact, "1", "its `count=`"},
    {"--resplit", kNothing, kExact, "", "with --aug-splits always so"},
    {"--mixup", kNumber, kExact, "0", "`data.mixup.mixup`"},
    {"--cutmix", kNumber, kExact, "0", "`data.mixup.cutmix`"},
    {"--cutmix-minmax", kNumbers, kExact, "", "`data.mixup.cutmix_minmax`"},
    {"--mixup-prob", kNumber, kExact, "1", "`data.mixup.prob`"},
    {"--mixup-switch-prob", kNumber, kExact, "0.5", "`data.mixup.switch_prob`"},
    {"--mixup-mode", kText, kExact, "batch", "`data.mixup.mode`"},
    {"--mixup-off-epoch", kInteger, kExact, "0", "`data.mixup.off_epoch`"},
    {"--smoothing", kNumber, kExact, "0.1", "`objective.label_smoothing`", "0"},
    {"--train-interpolation", kText, kExact, "random", "of the crop, and of the policy of --aa"},
    {"--drop", kNumber, kExact, "0", "`model.head_dropout`"},
    {"--drop-connect", kNumber, kIgnored, "", "timm's own train.py reads it and does nothing with it"},
    {"--drop-path", kNumber, kExact, "", "`model.drop_path`"},
    {"--drop-block", kNumber, kExact, "", "`model.drop_block`, of ResNets"},
    // Batch norm
    {"--bn-tf", kNothing, kIgnored, "", "of EfficientNets, in older versions"},
    {"--bn-momentum", kNumber, kExact, "", "`model.norm_momentum`, of ResNets"},
    {"--bn-eps", kNumber, kExact, "", "`model.norm_epsilon`, of ResNets"},
    {"--sync-bn", kNothing, kExact, "",
     "always so: statistics are those of the whole batch on all devices, of a micro-batch with --grad-accum-steps"},
    {"--dist-bn", kText, kIgnored, "reduce", "moving statistics are the same on all devices"},
    {"--split-bn", kNothing, kExact, "", "`model.norm_splits`, of ResNets, with --aug-splits"},
    // Moving average
    {"--model-ema", kNothing, kExact, "", "`average`; evaluated beside the weights as val_ema, which --eval-metric then means"},
    {"--model-ema-force-cpu", kNothing, kIgnored, "", "the average lies on the devices"},
    {"--model-ema-decay", kNumber, kExact, "0.9998", "`average.decay`"},
    {"--model-ema-warmup", kNothing, kExact, "", "`average.warmup`"},
    // The rest
    {"--seed", kInteger, kExact, "42", "`seed`; the draws are others than torch's"},
    {"--worker-seeding", kText, kIgnored, "all", "draws do not depend on threads"},
    {"--log-interval", kInteger, kExact, "50", "`log`"},
    {"--val-interval", kInteger, kExact, "1", "`eval.val.every` and `checkpoint.every`, in epochs"},
    {"--recovery-interval", kInteger, kExact, "0", "`checkpoint.every`, in steps; the last two stay"},
    {"--checkpoint-hist", kInteger, kExact, "10", "`checkpoint.keep_best`"},
    {"--workers -j", kInteger, kIgnored, "4", "one thread a core decodes; data.threads=N to change that"},
    {"--save-images", kNothing, kIgnored, "", "TensorBoard gets the first images of each run; monitor.images"},
    {"--pin-mem", kNothing, kIgnored, "", kTorch},
    {"--no-prefetcher", kNothing, kIgnored, "", kTorch},
    {"--output", kText, kExact, "", "the folder of the run's directory; `--workdir` overrides it"},
    {"--experiment", kText, kExact, "", "the name of the run's directory in --output; without it and --output, runs/MODEL-N"},
    {"--eval-metric", kText, kExact, "top1", "`checkpoint.best`: top1, top5 or loss"},
    {"--tta", kInteger, kMissing, "0",
     "timm's loader makes no views for it; `eval.val.tta` averages an image and its mirror image, or five or ten crops"},
    {"--use-multi-epochs-loader", kNothing, kIgnored, "", kTorch},
    {"--log-wandb", kNothing, kExact, "", "`monitor.sinks`: an offline run that `wandb sync` uploads"},
    {"--wandb-project", kText, kIgnored, "", "give it to wandb sync"},
    {"--wandb-tags", kTexts, kIgnored, "", "give them in W&B"},
    {"--wandb-resume-id", kText, kIgnored, "", "a run that goes on keeps its id"},
    // Several sizes
    {"--train-img-sizes", kNumbers, kMissing, "", kSizes},
    {"--train-batch-sizes", kNumbers, kMissing, "", kSizes},
    {"--train-size-probs", kNumbers, kMissing, "", kSizes},
    {"--train-size-schedule", kText, kMissing, "constant", kSizes},
    {"--train-size-schedule-spread", kNumber, kIgnored, "0.65", "of --train-img-sizes"},
    {"--train-size-random-mix", kNumber, kIgnored, "0.1", "of --train-img-sizes"},
    {"--train-batches-per-epoch --train-steps-per-epoch", kInteger, kMissing, "", "an epoch is all images once"},
    {"--variable-batch-loss-scale", kText, kMissing, "none", kSizes},
    {"--naflex-loader", kNothing, kMissing, "", kNaflex},
    {"--naflex-train-seq-lens", kNumbers, kIgnored, "128 256 576 784 1024", "of --naflex-loader"},
    {"--naflex-max-seq-len", kInteger, kIgnored, "576", "of --naflex-loader"},
    {"--naflex-patch-sizes", kNumbers, kMissing, "", kNaflex},
    {"--naflex-patch-size-probs", kNumbers, kMissing, "", kNaflex},
    {"--naflex-loss-scale", kText, kIgnored, "linear", "of --naflex-loader"},
    {"--naflex-patchify-channels-first", kNothing, kMissing, "", kNaflex},
    // A teacher
    {"--kd-model-name", kText, kMissing, "", kTeacher},
    {"--kd-distill-type", kText, kMissing, "logit", kTeacher},
    {"--kd-loss-type", kText, kIgnored, "kl", "of --kd-model-name"},
    {"--distill-loss-weight", kNumber, kMissing, "", kTeacher},
    {"--task-loss-weight", kNumber, kMissing, "", kTeacher},
    {"--kd-temperature", kNumber, kIgnored, "4", "of --kd-model-name"},
    {"--kd-student-feature-dim", kInteger, kMissing, "", kTeacher},
    {"--kd-teacher-feature-dim", kInteger, kMissing, "", kTeacher},
    {"--kd-token-distill-type", kText, kIgnored, "soft", "of --kd-model-name"},
};

}  // namespace

std::span<const Argument> timm_arguments() { return kTimmArguments; }

// Where the branch's train.py has another default.
std::span<const OtherDefault> bits_defaults() {
  static constexpr OtherDefault table[] = {
      {"batch_size", "256"},   {"weight_decay", "1e-4"},  {"warmup_lr", "1e-4"},         {"min_lr", "1e-5"},
      {"decay_epochs", "100"}, {"cooldown_epochs", "10"}, {"decay_milestones", "30 60"}, {"color_jitter", "0"},
  };
  return table;
}

}  // namespace tessera::translate
