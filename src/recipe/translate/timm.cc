#include "recipe/translate/timm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/text/text.h"
#include "models/family.h"
#include "recipe/translate/folders.h"
#include "recipe/translate/timm_chains.h"
#include "recipe/translate/timm_launcher.h"
#include "recipe/translate/timm_model_keys.h"
#include "recipe/translate/timm_schedule.h"
#include "recipe/translate/yaml.h"
#include "store/file.h"

namespace tessera::translate {
namespace {

class Translator {
 public:
  Translator(const TimmOptions& options, const Launcher& launcher) : options_(options) {
    world_ = options.world_size.value_or(launcher.devices > 0 ? launcher.devices : options.devices);
    launched_ = launcher.devices > 0 && !options.world_size;
  }

  Translation translate(const std::vector<std::string>& words) {
    read(words);
    args_.refuse_missing();
    find_model();
    batch_ = args_.integer("batch_size") * world_ * args_.integer("grad_accum_steps");
    if (batch_ < 1) throw usage_error("`--batch-size` and `--grad-accum-steps` must be at least 1");
    rate_ = find_rate();
    write_run();
    write_data();
    write_model();
    write_objective();
    write_optimizer();
    write_average();
    write_start();
    write_evaluation();
    return finish();
  }

 private:
  void read(const std::vector<std::string>& words) {
    std::vector<std::string> config;
    std::vector<std::string> others;
    for (size_t i = 0; i < words.size(); ++i) {
      const bool joined = words[i].starts_with("--config=");
      if (!joined && words[i] != "-c" && words[i] != "--config") {
        others.push_back(words[i]);
      } else if (joined) {
        config.push_back(words[i].substr(words[i].find('=') + 1));
      } else if (i + 1 < words.size()) {
        config.push_back(words[++i]);
      } else {
        throw usage_error(fmt::format("`{}` needs a file", words[i]));
      }
    }
    for (const std::string& word : args_.parse(others)) {
      if (is_setting(word)) {
        out_.overrides.push_back(word);
      } else if (directory_.empty()) {
        directory_ = word;
      } else {
        throw usage_error(fmt::format("`{}` is one word too many: the data directory is `{}`", word, directory_));
      }
    }
    for (const std::string& file : config) read_yaml(file, args_);
    if (options_.defaults == "bits") {
      for (const OtherDefault& other : bits_defaults()) {
        args_.set_default(other.name, split(other.value, ' '), "");
      }
    }
    if (directory_.empty()) directory_ = args_.text("data");
    if (args_.given("data_dir")) directory_ = args_.text("data_dir");
  }

  void find_model() {
    name_ = args_.text("model");
    for (const char* hub : {"hf_hub:", "hf-hub:", "timm/"}) {  // timm's names of the same weights on the Hub
      if (name_.starts_with(hub)) name_ = name_.substr(std::strlen(hub));
    }
    architecture_ = name_.substr(0, name_.find('.'));
    model_ = models::find_named(architecture_);
    const TimmInput* input = find_timm_input(name_);
    if (input == nullptr) input = find_timm_input(architecture_);
    if (model_.family == nullptr || input == nullptr) {
      const auto near = nearest_name(architecture_, timm_input_names());
      throw usage_error(
          fmt::format("`--model {}` is not among the models here", args_.text("model")), {},
          near ? fmt::format("did you mean `{}`? Or see tessera models", *near) : "tessera models lists those that are");
    }
    input_ = *input;
    size_ = input_.size;
    if (const auto own = args_.optional_number("img_size")) size_ = static_cast<int64_t>(*own);
    const std::vector<double> sides = args_.numbers("input_size");
    if (!sides.empty()) {
      if (sides.size() != 3 || sides[0] != 3 || sides[1] != sides[2]) {
        throw usage_error(fmt::format("`--input-size {}` must be 3 N N", args_.text("input_size")), {},
                          "--input-size 3 224 224");
      }
      size_ = static_cast<int64_t>(sides[1]);
    }
    if (size_ < 1) throw usage_error("`--img-size` must be at least 1");
  }

  // As timm's train.py: --lr, else --lr-base by the global batch.
  double find_rate() {
    const std::string batch = fmt::format("batch {} = {} a device x {} device{}{}", human_count(batch_),
                                          args_.integer("batch_size"), world_, world_ == 1 ? "" : "s", accumulation());
    const char* whose = options_.world_size ? "--world-size" : launched_ ? "the launcher's" : "--devices";
    out_.notes.push_back(fmt::format("{} ({})", batch, whose));
    const double given = args_.number("lr");
    if (given < 0) throw usage_error(fmt::format("`--lr` must be above 0, and is {}", number_text(given)));
    if (given > 0) return given;
    const double base = args_.number("lr_base");
    const auto size = static_cast<double>(args_.integer("lr_base_size"));
    if (size < 1) throw usage_error("`--lr-base-size` must be at least 1");
    std::string scale = args_.text("lr_base_scale");
    const std::string name = lower(args_.text("opt"));
    const bool root = name.find("ada") != std::string::npos || name.find("lamb") != std::string::npos;
    if (scale.empty()) scale = root ? "sqrt" : "linear";
    if (scale != "sqrt" && scale != "linear") {
      throw usage_error(fmt::format("`--lr-base-scale` is `{}`", scale), {}, "linear or sqrt");
    }
    double ratio = static_cast<double>(batch_) / size;
    if (scale == "sqrt") ratio = std::sqrt(ratio);
    out_.notes.push_back(fmt::format("lr {} = lr-base {} x {}{} / {}{}", number_text(base * ratio), number_text(base),
                                     scale == "sqrt" ? "sqrt(" : "", batch_, size, scale == "sqrt" ? ")" : ""));
    return base * ratio;
  }
  std::string accumulation() const {
    const int64_t steps = args_.integer("grad_accum_steps");
    return steps > 1 ? fmt::format(" x {} accumulated", steps) : "";
  }

  bool evaluates() const { return !args_.text("val_split").empty() || !args_.given("val_split"); }
  std::string dtype() const {
    const std::string half = args_.text("model_dtype");
    if (half == "float16") throw usage_error("`--model-dtype float16` is not trained in", {}, "--model-dtype bfloat16");
    const bool mixed = args_.flag("amp") || args_.flag("native_amp") || args_.flag("apex_amp");
    return mixed || half == "bfloat16" ? "bf16" : "f32";
  }

  void write_run() {
    text_.raw("seed", fmt::format("{}", args_.integer("seed")));
    text_.string("total", schedule_.epochs(schedule_.total_epochs()));
    text_.string("dtype", dtype());
    if (args_.integer("grad_accum_steps") > 1) text_.raw("accumulate", fmt::format("{}", args_.integer("grad_accum_steps")));
    text_.string("log", fmt::format("{} steps", args_.integer("log_interval")));
    const std::string resume = args_.text("resume");
    refuse_pickle(resume);
    if (!resume.empty()) text_.string("resume", resume);
    text_.section("checkpoint");
    const int64_t recovery = args_.integer("recovery_interval");
    const std::string every = schedule_.epochs(static_cast<double>(args_.integer("val_interval")));
    text_.string("every", recovery > 0 ? fmt::format("{} steps", recovery) : every);
    if (evaluates()) text_.string("best", timm_metric(args_));
    text_.raw("keep_best", fmt::format("{}", args_.integer("checkpoint_hist")));
    if (!args_.flag("log_wandb")) return;
    text_.section("monitor");
    text_.raw("sinks", "[\"tensorboard\", \"wandb\"]");
  }

  std::string source(const std::string& split) const {
    std::string kind = args_.text("dataset");
    if (directory_.empty() && !kind.starts_with("tfds/")) {
      throw usage_error("the data directory is missing", {}, "tessera timm --data-dir imagenet --model resnet50");
    }
    const std::string low = lower(kind);
    const bool keys = args_.given("input_key") || args_.given("target_key");
    if (low.starts_with("tfds/")) {
      if (keys) throw usage_error("`--input-key` and `--target-key` are of wds here");
      return fmt::format("tfds({}, split={}{})", kind.substr(5), call_value(split),
                         directory_.empty() ? "" : ", data_dir=" + call_value(directory_));
    }
    if (low == "wds" || low.starts_with("wds/")) return wds(split);
    const bool other = low.starts_with("torch/") || low.starts_with("hfds/") || low.starts_with("hfids/");
    if (!other || low == "torch/image_folder" || low == "torch/folder") {  // whatever its name
      return fmt::format("folder({})", call_value(folder_of(directory_, split)));
    }
    throw usage_error(fmt::format("`--dataset {}` is not read here", kind), {},
                      "folders, tfds/NAME and wds/NAME are; Hugging Face's data sets by parquet(…): tessera help sources");
  }
  std::string wds(const std::string& split) const {
    const std::string pattern = split.substr(0, split.find('|'));
    if (pattern.find(".tar") == std::string::npos) {
      throw usage_error(fmt::format("the split `{}` of a wds data set must name tar files", split), {},
                        "--train-split 'imagenet-train-{0000..1023}.tar'");
    }
    std::string out = "wds(" + call_value(store::join_path(directory_, pattern));
    if (args_.given("input_key")) out += ", image=" + call_value(args_.text("input_key"));
    if (args_.given("target_key")) out += ", label=" + call_value(args_.text("target_key"));
    const auto classes = args_.optional_number("num_classes");
    return out + fmt::format(", classes={})", static_cast<int64_t>(classes.value_or(1000)));
  }

  bool mixes() const {
    return args_.number("mixup") > 0 || args_.number("cutmix") > 0 || !args_.numbers("cutmix_minmax").empty();
  }
  void write_data() {
    const int64_t splits = args_.integer("aug_splits");
    if (splits == 1) throw usage_error("`--aug-splits 1` makes no sense, timm says", {}, "--aug-splits 3 --jsd-loss");
    if ((splits > 1) != args_.flag("jsd_loss")) {
      throw usage_error("`--aug-splits` and `--jsd-loss` belong together here", {}, "--aug-splits 3 --jsd-loss");
    }
    if (splits > 1 && args_.number("reprob") > 0 && !args_.flag("resplit")) {
      out_.notes.push_back("approximated: --reprob: erases of the augmented views alone, as with --resplit");
    }
    if (splits > 1 && mixes()) throw usage_error("with `--aug-splits` images are not mixed, in timm neither");
    text_.section("data");
    text_.string("source", source(args_.text("train_split")));
    text_.raw("batch", fmt::format("{}", batch_));
    text_.string("pp", TimmChains(args_, input_, size_).train());
    // timm's parser takes 2.5, and its sampler a whole number.
    if (const auto repeats = static_cast<int64_t>(args_.number("aug_repeats")); repeats > 1)
      text_.raw("aug_repeats", fmt::format("{}", repeats));
    if (!mixes()) return;
    text_.section("data.mixup");
    for (const char* name : {"mixup", "cutmix"}) {
      if (args_.number(name) > 0) text_.number(name, args_.number(name));
    }
    if (!args_.numbers("cutmix_minmax").empty()) text_.raw("cutmix_minmax", numbers_text(args_.numbers("cutmix_minmax")));
    if (args_.given("mixup_prob")) text_.number("prob", args_.number("mixup_prob"));
    if (args_.given("mixup_switch_prob")) text_.number("switch_prob", args_.number("mixup_switch_prob"));
    if (args_.given("mixup_mode")) text_.string("mode", args_.text("mixup_mode"));
    if (args_.given("mixup_off_epoch")) text_.number("off_epoch", args_.number("mixup_off_epoch") * schedule_.passes());
  }

  void write_model() {
    const std::string family = model_.family->name;
    text_.section("model");
    text_.string("name", family);
    text_.string("variant", architecture_);
    if (const auto classes = args_.optional_number("num_classes")) text_.number("classes", *classes);
    if (args_.number("drop") > 0) text_.number("head_dropout", args_.number("drop"));
    if (args_.number("drop_path") > 0) text_.number("drop_path", args_.number("drop_path"));
    if (args_.given("drop_block")) text_.number("drop_block", args_.number("drop_block"));
    if (args_.given("bn_momentum")) text_.number("norm_momentum", args_.number("bn_momentum"));
    if (args_.given("bn_eps")) text_.number("norm_epsilon", args_.number("bn_eps"));
    if (args_.flag("split_bn")) write_norm_splits(family);
    if (args_.flag("grad_checkpointing")) text_.string("remat", "full");
    if (scales_head()) text_.string("head_init", "zeros");
    if (args_.given("head_init_bias")) text_.number("head_bias", args_.number("head_init_bias"));
    write_pool(family);
    if (args_.given("model_kwargs")) text_.lines(timm_model_keys(*model_.family, *model_.architecture, args_, size_));
    if (family == "resnet" && !architecture_.ends_with("_gn") && world_ > 1 && !args_.flag("sync_bn")) {
      out_.notes.push_back("batch norm sees the images of all devices, as with --sync-bn");
    }
  }
  // timm multiplies the head, also one of given weights, once the model is made.
  bool scales_head() const {
    const auto scale = args_.optional_number("head_init_scale");
    if (!scale || *scale == 1) return false;
    if (*scale != 0 || std::string(model_.family->name) != "vit") {
      throw usage_error(fmt::format("`--head-init-scale {}` has no counterpart here", number_text(*scale)), {},
                        "0 has one, of a ViT: --head-init-scale 0");
    }
    return true;
  }
  void write_norm_splits(const std::string& family) {
    const int64_t splits = args_.integer("aug_splits");
    if (splits < 2 && !args_.flag("resplit")) {
      throw usage_error("`--split-bn` goes with `--aug-splits`, timm says", {}, "--aug-splits 3 --jsd-loss --split-bn");
    }
    if (family == "resnet" && !architecture_.ends_with("_gn"))
      text_.raw("norm_splits", fmt::format("{}", std::max<int64_t>(splits, 2)));
  }
  void write_pool(const std::string& family) {
    const std::string pool = args_.text("gp");
    if (pool.empty()) return;
    if (family == "vit") {
      static const std::vector<std::pair<std::string, std::string>> pools = {{"avg", "gap"}, {"token", "tok"}, {"map", "map"}};
      for (const auto& [timm, ours] : pools) {
        if (pool == timm) return text_.string("pool", ours);
      }
      throw usage_error(fmt::format("`--gp {}` is no pooling of a ViT here", pool), {}, "avg, token or map");
    }
    if (pool != "avg" && pool != "fast") throw usage_error(fmt::format("`--gp {}` is not there", pool), {}, "avg");
  }

  void write_objective() {
    text_.section("objective");
    const double smoothing = args_.number("smoothing");
    const bool bce = args_.flag("bce_loss") && !args_.flag("jsd_loss") && (mixes() || smoothing > 0);
    if (args_.flag("bce_loss") && !bce && !args_.flag("jsd_loss")) {
      out_.notes.push_back("cross-entropy, as in timm: without mixing and smoothing it does not look at --bce-loss");
    }
    text_.string("name", args_.flag("jsd_loss") ? "jsd" : bce ? "bce" : "softmax");
    text_.number("label_smoothing", smoothing);
    if (!bce) return;
    if (args_.flag("bce_sum")) text_.boolean("sum_classes", true);
    if (args_.given("bce_target_thresh")) text_.number("target_threshold", args_.number("bce_target_thresh"));
    if (args_.given("bce_pos_weight")) text_.number("pos_weight", args_.number("bce_pos_weight"));
  }

  void write_optimizer() {
    std::string name = lower(args_.text("opt"));
    const bool lookahead = name.starts_with("lookahead_");
    const TimmOptimizer& found = find_timm_optimizer(lookahead ? name.substr(10) : name);
    text_.section("optimizer");
    text_.string("name", found.name);
    text_.string("lr", schedule_.text(rate_));
    if (std::string note = schedule_.note(rate_); !note.empty()) out_.notes.push_back(std::move(note));
    text_.number("weight_decay", args_.number("weight_decay"));
    const std::vector<double> betas = args_.numbers("opt_betas");
    for (const std::string& option : split(found.options, ',')) {
      const size_t equals = option.find('=');
      if (equals == std::string::npos) continue;
      const std::string key(trim(option.substr(0, equals)));
      const bool given = (key == "eps" && args_.given("opt_eps")) || (key == "b1" && !betas.empty());
      if (!given) text_.raw(key, std::string(trim(option.substr(equals + 1))));
    }
    if (found.momentum) text_.number("momentum", args_.number("momentum"));
    if (std::string_view(found.name) == "adafactor_bv" && args_.given("momentum"))  // which timm calls its b1
      text_.number("b1", args_.number("momentum"));
    if (std::string_view(found.name) == "adafactor" && !betas.empty()) text_.number("b1", betas[0]);  // it has no b2
    if (found.eps && args_.given("opt_eps")) text_.number("eps", args_.number("opt_eps"));
    if (found.betas && !betas.empty()) {
      if (betas.size() != 2) throw usage_error(fmt::format("`--opt-betas` takes two numbers for {}", name));
      text_.number("b1", betas[0]);
      text_.number("b2", betas[1]);
    }
    if (args_.given("clip_grad")) text_.string("clip", clip());
    if (args_.given("layer_decay")) text_.number("layer_decay", args_.number("layer_decay"));
    if (args_.given("layer_decay_min_scale")) text_.number("layer_decay_min", args_.number("layer_decay_min_scale"));
    if (lookahead) text_.raw("lookahead", "6");
  }
  std::string clip() const {
    const std::string mode = args_.text("clip_mode"), limit = number_text(args_.number("clip_grad"));
    if (mode == "norm" || mode == "value") return mode + "(" + limit + ")";
    if (mode == "agc") return "adaptive(" + limit + ")";
    throw usage_error(fmt::format("`--clip-mode` is `{}`", mode), {}, "norm, value or agc");
  }

  void write_average() {
    if (!args_.flag("model_ema")) return;
    text_.section("average");
    text_.number("decay", args_.number("model_ema_decay"));
    if (args_.flag("model_ema_warmup")) text_.boolean("warmup", true);
  }

  static void refuse_pickle(const std::string& path) {
    for (const char* end : {".pth", ".pth.tar", ".pt", ".bin"}) {
      if (!path.ends_with(end)) continue;
      throw usage_error(fmt::format("`--resume {}` has moments and a step of torch's, which are not taken over", path), {},
                        fmt::format("for the weights alone: --initial-checkpoint {}", path));
    }
  }
  void write_start() {
    const std::string initial = args_.text("initial_checkpoint"), adapted = args_.text("pretrained_path");
    if (!initial.empty() && !adapted.empty()) {
      throw usage_error("`--initial-checkpoint` and `--pretrained-path` are given", {}, "leave one of them out");
    }
    if (initial.empty() && adapted.empty() && !args_.flag("pretrained")) return;
    text_.section("model_init");
    text_.string("from", !initial.empty() ? initial : !adapted.empty() ? adapted : pretrained());
    std::string head = model_.family->classifier;
    std::ranges::replace(head, '.', '/');
    if (!adapted.empty() || scales_head()) text_.raw("dont_load", "[" + RecipeText::quoted(head + "/.*") + "]");
  }

  // The weights of --pretrained.
  std::string pretrained() const {
    std::string name = name_;
    if (name == architecture_) {
      if (*input_.tag == 0) throw usage_error(fmt::format("timm has no weights of `{}`", name), {}, "leave out --pretrained");
      name += std::string(".") + input_.tag;
    }
    return fmt::format("hub(timm/{})", name);
  }

  void write_evaluation() {
    if (!evaluates()) return;
    text_.section("eval.val");
    text_.string("type", "classification");
    text_.string("every", schedule_.epochs(static_cast<double>(args_.integer("val_interval"))));
    const auto own = args_.optional_number("validation_batch_size");
    const int64_t times = world_ * args_.integer("validation_batch_size_multiplier");
    text_.raw("batch", fmt::format("{}", times * static_cast<int64_t>(own.value_or(args_.number("batch_size")))));
    text_.section("eval.val.data");
    text_.string("source", source(args_.text("val_split")));
    text_.string("pp", TimmChains(args_, input_, size_).eval());
  }

  Translation finish() {
    tell_of(args_, out_.notes);
    out_.name = architecture_;
    if (args_.given("output") || args_.given("experiment")) {
      const std::string folder = args_.given("output") ? args_.text("output") : "output/train";
      const std::string name =
          args_.given("experiment") ? args_.text("experiment") : fmt::format("{}-{}", architecture_, size_);
      out_.workdir = store::join_path(folder, name);
    }
    RecipeText head;
    for (const std::string& note : out_.notes) head.comment(note);
    out_.recipe = head.text() + text_.text();
    return out_;
  }

  const TimmOptions& options_;
  Arguments args_{timm_arguments()};
  TimmSchedule schedule_{args_};
  int64_t world_ = 1, batch_ = 0, size_ = 224;
  bool launched_ = false;
  double rate_ = 0;
  std::string directory_, name_, architecture_;
  models::NamedModel model_;
  TimmInput input_{};
  RecipeText text_;
  Translation out_;
};

}  // namespace

std::string timm_lists() {
  std::string out = argument_lists(timm_arguments());
  out +=
      "\n## Optimizers\n\nAny of them may stand behind `lookahead_`. `adahessian` is not there: it needs products with the "
      "Hessian, that is gradients of gradients, and what gradients are made of here has none.\n\n| `--opt` | here "
      "|\n|---|---|\n";
  for (const TimmOptimizer& one : timm_optimizers()) {
    const std::string options = *one.options ? fmt::format(", `{}`", one.options) : "";
    out += fmt::format("| `{}` | `{}`{} |\n", one.timm, one.name, options);
  }
  return out;
}

Translation translate_timm(std::vector<std::string> words, const TimmOptions& options) {
  if (options.defaults != "main" && options.defaults != "bits") {
    throw usage_error(fmt::format("`--defaults` is `{}`", options.defaults), {}, "main or bits");
  }
  const Launcher launcher = find_launcher(words);
  words.erase(words.begin(), words.begin() + static_cast<ptrdiff_t>(launcher.words));
  return Translator(options, launcher).translate(words);
}

}  // namespace tessera::translate
