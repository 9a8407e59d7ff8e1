#include "translate/timm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/call.h"
#include "base/error.h"
#include "base/text.h"
#include "models/family.h"
#include "store/file.h"
#include "translate/folders.h"
#include "translate/yaml.h"

namespace tessera::translate {
namespace {

// What timm's weights of a model were trained and are evaluated with.
struct Input {
  const char* name;
  int64_t size;
  double crop;
  const char *interpolation, *mean, *std;
};
constexpr Input kInputs[] = {
#define TIMM_INPUT(name, size, crop, interpolation, mean, std) {name, size, crop, interpolation, mean, std},
#include "translate/timm_inputs.def"
#undef TIMM_INPUT
};

const Input* find_input(const std::string& name) {
  const auto found = std::ranges::find_if(kInputs, [&](const Input& input) { return input.name == name; });
  return found == std::end(kInputs) ? nullptr : found;
}

constexpr TimmOptimizer kOptimizers[] = {
    {"sgd", "sgd", "", true, false, false},
    {"nesterov", "sgd", "", true, false, false},
    {"momentum", "sgd", "nesterov = false", true, false, false},
    {"sgdw", "sgd", "decoupled = \"lr\"", true, false, false},
    {"csgdw", "sgd", "decoupled = \"lr\", caution = true", true, false, false},
    {"adam", "adam", "", false, true, true},
    {"adamw", "adamw", "", false, true, true},
    {"cadamw", "adamw", "caution = true", false, true, true},
    {"nadam", "nadam", "", false, true, true},
    {"nadamw", "nadamw", "", false, true, true},
    {"cnadamw", "nadamw", "caution = true", false, true, true},
    {"radam", "radam", "", false, true, true},
    {"radamw", "radam", "decoupled = \"lr\"", false, true, true},
    {"adabelief", "adabelief", "", false, true, true},
    {"radabelief", "adabelief", "rectify = true", false, true, true},
    {"adafactor", "adafactor", "", false, false, true},
    {"adafactorbv", "adafactor_bv", "decoupled = \"lr\", min_factored = 16", false, false, true},
    {"cadafactorbv", "adafactor_bv", "decoupled = \"lr\", min_factored = 16, caution = true", false, false, true},
    {"lamb", "lamb", "", false, true, true},
    {"lambc", "lambc", "", false, true, true},
    {"lambw", "lamb", "decoupled = \"lr\"", false, true, true},
    {"lambcw", "lambc", "decoupled = \"lr\"", false, true, true},
    {"clamb", "lamb", "caution = true", false, true, true},
    {"clambw", "lamb", "decoupled = \"lr\", caution = true", false, true, true},
    {"lars", "lars", "", true, false, true},
    {"larc", "larc", "", true, false, true},
    {"nlars", "lars", "nesterov = true", true, false, true},
    {"nlarc", "larc", "nesterov = true", true, false, true},
    {"lion", "lion", "", false, true, false},
    {"clion", "lion", "caution = true", false, true, false},
    {"rmsprop", "rmsprop", "alpha = 0.9", true, false, true},
    {"adamax", "adamax", "", false, true, true},
    {"adagrad", "adagrad", "eps = 1e-8", false, false, true},
    {"adadelta", "adadelta", "", false, false, true},
    {"rmsproptf", "rmsprop_tf", "", true, false, true},
    {"crmsproptf", "rmsprop_tf", "caution = true", true, false, true},
    {"novograd", "novograd", "", false, true, true},
    {"nvnovograd", "novograd", "", false, true, true},
    {"madgrad", "madgrad", "", true, false, true},
    {"madgradw", "madgrad", "decoupled = \"lr\"", true, false, true},
    {"rmsproptfw", "rmsprop_tf", "decoupled = \"lr\"", true, false, true},
    {"novogradw", "novograd", "decoupled = \"lr\"", false, true, true},
    {"adamc", "adamw", "decoupled = \"square\"", false, true, true},
    {"nadamc", "nadamw", "decoupled = \"square\"", false, true, true},
    {"sgdc", "sgd", "decoupled = \"square\"", true, false, false},
    {"lambcd", "lamb", "decoupled = \"square\"", false, true, true},
    {"lionc", "lion", "decoupled = \"square\"", false, true, false},
    {"rmsproptfc", "rmsprop_tf", "decoupled = \"square\"", true, false, true},
    {"adamp", "adamp", "", false, true, true},
    {"sgdp", "sgdp", "", true, false, true},
    // NVIDIA's implementations of the same.
    {"fusedsgd", "sgd", "", true, false, false},
    {"fusedmomentum", "sgd", "nesterov = false", true, false, false},
    {"fusedadam", "adam", "", false, true, true},
    {"fusedadamw", "adamw", "", false, true, true},
    {"fusedlamb", "lamb", "", false, true, true},
};

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

// The devices that a launcher's words name, and how many words are not train.py's.
struct Launcher {
  int64_t devices = 0;
  size_t words = 0;
};
Launcher find_launcher(const std::vector<std::string>& words) {
  Launcher out;
  const auto whole = [](const std::string& text) -> int64_t {
    const auto value = parse_number(text);
    return value && *value >= 1 && *value == std::floor(*value) && *value < 1e6 ? static_cast<int64_t>(*value) : 0;
  };
  int64_t processes = 1;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].ends_with("distributed_train.sh")) {
      if (i + 1 >= words.size() || !whole(words[i + 1])) throw usage_error("distributed_train.sh needs a number of devices");
      return {whole(words[i + 1]), i + 2};
    }
    if (words[i].ends_with("train.py")) return {processes, i + 1};
    std::string name = words[i];
    std::ranges::replace(name, '_', '-');
    const size_t equals = name.find('=');
    const std::string key = name.substr(0, equals);
    if (key != "--nproc-per-node" && key != "--nnodes" && key != "--num-devices") continue;
    const std::string value = equals != std::string::npos ? name.substr(equals + 1) : i + 1 < words.size() ? words[i + 1] : "";
    processes *= std::max<int64_t>(whole(value), 1);
  }
  return out;
}

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
    if (args_.given("data_dir")) directory_ = args_.text("data_dir");
  }

  void find_model() {
    name_ = args_.text("model");
    if (name_.starts_with("timm/")) name_ = name_.substr(5);
    architecture_ = name_.substr(0, name_.find('.'));
    model_ = models::find_named(architecture_);
    const Input* input = find_input(name_);
    if (input == nullptr) input = find_input(architecture_);
    if (model_.family == nullptr || input == nullptr) {
      std::vector<std::string> known;
      for (const Input& one : kInputs) known.emplace_back(one.name);
      throw usage_error(fmt::format("`--model {}` is not among the models here", args_.text("model")), {},
                        suggest_name(architecture_, known) + " Or see tessera models");
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
    if (args_.number("lr") > 0) return args_.number("lr");
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

  // How often timm's epoch goes through the images: --epoch-repeats, which folders don't heed.
  double passes() const {
    const std::string kind = lower(args_.text("dataset"));
    const bool heeded = kind.starts_with("tfds/") || kind == "wds" || kind.starts_with("wds/");
    return heeded ? std::max(1.0, args_.number("epoch_repeats")) : 1;
  }
  // A duration in timm's epochs.
  std::string epochs(double count) const {
    count *= passes();
    return number_text(count) + (count == 1 ? " epoch" : " epochs");
  }

  bool cycles() const {
    const std::string sched = args_.text("sched");
    return sched == "cosine" || sched == "tanh" || sched == "poly";
  }
  // create_scheduler_v2's epochs of the whole run.
  double total_epochs() const {
    const auto count = static_cast<double>(args_.integer("epochs"));
    double total = count;
    if (cycles()) {
      const double mul = args_.number("lr_cycle_mul"), limit = std::max(1.0, args_.number("lr_cycle_limit"));
      total = mul == 1 ? count * limit : std::floor(-count * (std::pow(mul, limit) - 1) / (1 - mul));
      total += static_cast<double>(args_.integer("cooldown_epochs"));
    }
    return total + (args_.flag("warmup_prefix") ? args_.number("warmup_epochs") : 0);
  }

  std::string schedule() const {
    const std::string sched = args_.text("sched");
    if (sched.empty() || sched == "none") return number_text(rate_);
    std::string call;
    const std::string rate = number_text(rate_);
    if (sched == "cosine") call = "cosine(" + rate;
    if (sched == "tanh") call = "tanh(" + rate;
    if (sched == "poly") call = fmt::format("polynomial({}, power={}", rate, number_text(args_.number("decay_rate")));
    if (sched == "step") {
      call = fmt::format("step({}, gamma={}, every={}", rate, number_text(args_.number("decay_rate")),
                         epochs(args_.number("decay_epochs")));
    }
    if (sched == "multistep") {
      std::vector<std::string> milestones;
      for (const double one : args_.numbers("decay_milestones")) milestones.push_back(epochs(one));
      call = fmt::format("step({}, gamma={}, milestones=[{}]", rate, number_text(args_.number("decay_rate")),
                         join(milestones, ", "));
    }
    if (sched == "plateau") {
      call = fmt::format("plateau({}, metric={}, mode={}, factor={}, patience={}", rate, metric(),
                         args_.text("eval_metric") == "loss" ? "min" : "max", number_text(args_.number("decay_rate")),
                         args_.integer("patience_epochs"));
    }
    if (call.empty()) {
      throw usage_error(fmt::format("there is no `--sched {}` here", sched), {},
                        suggest_name(sched, {"cosine", "tanh", "poly", "step", "multistep", "plateau", "none"}));
    }
    return call + schedule_arguments(sched) + ")";
  }
  std::string schedule_arguments(const std::string& sched) const {
    std::string out;
    if ((cycles() || sched == "plateau") && args_.number("min_lr") > 0) out += ", min=" + number_text(args_.number("min_lr"));
    if ((sched == "cosine" || sched == "poly") && args_.given("lr_k_decay")) {
      out += ", k=" + number_text(args_.number("lr_k_decay"));
    }
    const int64_t limit = args_.integer("lr_cycle_limit");
    if (cycles() && limit > 1) {
      out += fmt::format(", cycles={}, cycle_mul={}, cycle_decay={}", limit, number_text(args_.number("lr_cycle_mul")),
                         number_text(args_.number("lr_cycle_decay")));
    }
    if (cycles() && (limit > 1 || total_epochs() != args_.number("epochs"))) {
      out += ", length=" + epochs(args_.number("epochs"));
    }
    if (args_.number("warmup_epochs") > 0) {
      out += fmt::format(", warmup={}, warmup_start={}", epochs(args_.number("warmup_epochs")),
                         number_text(args_.number("warmup_lr")));
      if (sched != "plateau") out += args_.flag("warmup_prefix") ? ", warmup_mode=prefix" : ", warmup_mode=overlap";
    }
    if (!args_.flag("sched_on_updates") && sched != "plateau") out += ", hold=" + epochs(1);
    return out + noise();
  }
  std::string noise() const {
    const std::vector<double> range = args_.numbers("lr_noise");
    if (range.empty()) return "";
    if (range.size() > 2) throw usage_error("`--lr-noise` takes one or two shares of the run");
    std::vector<std::string> times;
    for (const double share : range) times.push_back(epochs(share * args_.number("epochs")));
    const std::string text = times.size() == 1 ? times[0] : "[" + join(times, ", ") + "]";
    return fmt::format(", noise={}, noise_pct={}, noise_std={}, noise_seed={}", text, number_text(args_.number("lr_noise_pct")),
                       number_text(args_.number("lr_noise_std")), args_.integer("seed"));
  }

  bool evaluates() const { return !args_.text("val_split").empty() || !args_.given("val_split"); }
  std::string metric() const {
    const std::string name = args_.text("eval_metric");
    static const std::vector<std::pair<std::string, std::string>> scores = {
        {"top1", "prec@1"}, {"top5", "prec@5"}, {"loss", "loss"}};
    for (const auto& [timm, ours] : scores) {
      if (name == timm) return (args_.flag("model_ema") ? "val_ema/" : "val/") + ours;
    }
    throw usage_error(fmt::format("`--eval-metric` is `{}`", name), {}, "top1, top5 or loss");
  }

  std::string dtype() const {
    const std::string half = args_.text("model_dtype");
    if (half == "float16") throw usage_error("`--model-dtype float16` is not trained in", {}, "--model-dtype bfloat16");
    const bool mixed = args_.flag("amp") || args_.flag("native_amp") || args_.flag("apex_amp");
    return mixed || half == "bfloat16" ? "bf16" : "f32";
  }

  void write_run() {
    text_.raw("seed", fmt::format("{}", args_.integer("seed")));
    text_.string("total", epochs(total_epochs()));
    text_.string("dtype", dtype());
    if (args_.integer("grad_accum_steps") > 1) text_.raw("accumulate", fmt::format("{}", args_.integer("grad_accum_steps")));
    text_.string("log", fmt::format("{} steps", args_.integer("log_interval")));
    const std::string resume = args_.text("resume");
    refuse_pickle(resume);
    if (!resume.empty()) text_.string("resume", resume);
    text_.section("checkpoint");
    const int64_t recovery = args_.integer("recovery_interval");
    const std::string every = epochs(static_cast<double>(args_.integer("val_interval")));
    text_.string("every", recovery > 0 ? fmt::format("{} steps", recovery) : every);
    if (evaluates()) text_.string("best", metric());
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
    if (low.empty() || low == "folder" || low == "torch/image_folder" || low == "torch/folder") {
      return fmt::format("folder({})", call_value(folder_of(directory_, split)));
    }
    const bool keys = args_.given("input_key") || args_.given("target_key");
    if (low.starts_with("tfds/")) {
      if (keys) throw usage_error("`--input-key` and `--target-key` are of wds here");
      return fmt::format("tfds({}, split={}{})", kind.substr(5), call_value(split),
                         directory_.empty() ? "" : ", data_dir=" + call_value(directory_));
    }
    if (low == "wds" || low.starts_with("wds/")) return wds(split);
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

  // One number is for all channels.
  std::string channels(const std::string& name, const char* own) const {
    std::vector<double> values = args_.numbers(name);
    if (values.empty()) return own;
    if (values.size() == 1 && in_channels() == 1) return number_text(values[0]);
    if (values.size() == 1) values.assign(3, values[0]);
    if (values.size() != 3) throw usage_error(fmt::format("`--{}` takes one number or three", name));
    return numbers_text(values);
  }
  std::string mean() const { return channels("mean", input_.mean); }
  std::string normalise() const {
    return fmt::format("{}normalise(mean={}, std={})", in_channels() == 1 ? "grayscale | " : "", mean(),
                       channels("std", input_.std));
  }
  int64_t in_channels() const {
    const int64_t count = args_.integer("in_chans");
    if (count != 1 && count != 3) throw usage_error(fmt::format("`--in-chans {}` is not there", count), {}, "1 or 3");
    if (count == 1 && (args_.numbers("mean").size() != 1 || args_.numbers("std").size() != 1)) {
      throw usage_error("with `--in-chans 1`, `--mean` and `--std` must be one number each", {},
                        "--in-chans 1 --mean 0.449 --std 0.226");
    }
    return count;
  }

  // transforms_imagenet_train.
  std::string train_chain() const {
    if (args_.flag("no_aug")) {
      return fmt::format("decode | resize_small({}, interpolation={}) | central_crop({}) | {}", size_, eval_interpolation(),
                         size_, normalise());
    }
    std::vector<std::string> ops = {"decode"};
    for (std::string& op : crop()) ops.push_back(std::move(op));
    const auto probable = [&](const char* argument, const char* op, double standard) {
      const double p = args_.number(argument);
      if (p > 0) ops.push_back(p == standard ? op : fmt::format("{}(p={})", op, number_text(p)));
    };
    probable("hflip", "flip_lr", 0.5);
    probable("vflip", "flip_ud", 0.5);
    if (args_.integer("aug_splits") > 0) ops.push_back(fmt::format("split({})", args_.integer("aug_splits")));
    if (args_.given("aa")) ops.push_back(policy());
    const bool jitters = !args_.given("aa") || args_.text("aa").find("3a") != std::string::npos;
    if (jitters && args_.number("color_jitter") > 0) ops.push_back(jitter());
    probable("grayscale_prob", "random_grayscale", -1);
    probable("gaussian_blur_prob", "gaussian_blur", -1);
    ops.push_back(normalise());
    if (args_.number("reprob") > 0) {
      ops.push_back(fmt::format("random_erasing({}, mode={}, count={})", number_text(args_.number("reprob")),
                                args_.text("remode"), args_.integer("recount")));
    }
    return join(ops, " | ");
  }
  std::string train_interpolation() const {
    const std::string name = args_.text("train_interpolation");
    return name.empty() ? eval_interpolation() : name;
  }
  std::vector<std::string> crop() const {
    const std::string mode = args_.text("train_crop_mode");
    const std::vector<double> scale = args_.numbers("scale"), ratio = args_.numbers("ratio");
    if (scale.size() != 2) throw usage_error("`--scale` takes two numbers", {}, "--scale 0.08 1");
    if (ratio.size() != 2) throw usage_error("`--ratio` takes two numbers", {}, "--ratio 0.75 1.3333");
    if (mode == "rkrc" || mode == "rkrr") {
      return {fmt::format("resize_keep_ratio({}, scale_prob=0.5, scale={}, aspect_prob=0.5, aspect={}, interpolation={})",
                          size_, numbers_text(scale), numbers_text(ratio), train_interpolation()),
              fmt::format("{}({}, padding=reflect)", mode == "rkrc" ? "central_crop_or_pad" : "random_crop_or_pad", size_)};
    }
    if (!mode.empty() && mode != "rrc") {
      throw usage_error(fmt::format("`--train-crop-mode` is `{}`", mode), {}, "rrc, rkrc or rkrr");
    }
    std::string out = fmt::format("random_resized_crop({}", size_);
    if (args_.given("scale")) out += ", scale=" + numbers_text(scale);
    if (args_.given("ratio")) out += ", ratio=" + numbers_text(ratio);
    return {fmt::format("{}, interpolation={})", out, train_interpolation())};
  }
  // Filled with the mean, as timm rounds it: halves to even.
  std::string policy() const {
    std::vector<double> fill;
    for (const std::string& part : split(std::string_view(mean()).substr(1, mean().size() - 2), ',')) {
      fill.push_back(std::min(255.0, std::nearbyint(255 * parse_number(trim(part)).value_or(0))));
    }
    std::string out = "auto_augment(" + args_.text("aa");
    if (train_interpolation() != "random") out += ", interpolation=" + train_interpolation();
    return out + ", fill=" + numbers_text(fill) + ")";
  }
  std::string jitter() const {
    const std::string factor = number_text(args_.number("color_jitter"));
    const auto p = args_.optional_number("color_jitter_prob");
    return p ? fmt::format("color_jitter({}, p={})", factor, number_text(*p)) : fmt::format("color_jitter({})", factor);
  }
  std::string eval_interpolation() const {
    const std::string own = args_.text("interpolation");
    return own.empty() ? input_.interpolation : own;
  }
  // transforms_imagenet_eval.
  std::string eval_chain() const {
    const double crop = args_.number("crop_pct") > 0 ? args_.number("crop_pct") : input_.crop;
    return fmt::format("decode | resize_small({}, interpolation={}) | central_crop({}) | {}",
                       static_cast<int64_t>(std::floor(static_cast<double>(size_) / crop)), eval_interpolation(), size_,
                       normalise());
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
    text_.string("pp", train_chain());
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
    if (args_.given("mixup_off_epoch")) text_.number("off_epoch", args_.number("mixup_off_epoch") * passes());
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
    if (args_.flag("grad_checkpointing")) text_.string("remat", "full");
    if (args_.given("head_init_bias")) text_.number("head_bias", args_.number("head_init_bias"));
    write_pool(family);
    if (family == "resnet" && !architecture_.ends_with("_gn") && world_ > 1 && !args_.flag("sync_bn")) {
      out_.notes.push_back("batch norm sees the images of all devices, as with --sync-bn");
    }
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

  const TimmOptimizer& optimizer(const std::string& name) const {
    std::vector<std::string> known;
    for (const TimmOptimizer& one : kOptimizers) {
      if (name == one.timm) return one;
      known.emplace_back(one.timm);
    }
    throw usage_error(fmt::format("there is no `--opt {}` here", name), {}, suggest_name(name, known));
  }
  void write_optimizer() {
    std::string name = lower(args_.text("opt"));
    const bool lookahead = name.starts_with("lookahead_");
    const TimmOptimizer& found = optimizer(lookahead ? name.substr(10) : name);
    text_.section("optimizer");
    text_.string("name", found.name);
    text_.string("lr", schedule());
    text_.number("weight_decay", args_.number("weight_decay"));
    for (const std::string& option : split(found.options, ',')) {
      const size_t equals = option.find('=');
      if (equals == std::string::npos) continue;
      const std::string key(trim(option.substr(0, equals)));
      if (key != "eps" || !args_.given("opt_eps")) text_.raw(key, std::string(trim(option.substr(equals + 1))));
    }
    if (found.momentum) text_.number("momentum", args_.number("momentum"));
    if (found.eps && args_.given("opt_eps")) text_.number("eps", args_.number("opt_eps"));
    const std::vector<double> betas = args_.numbers("opt_betas");
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
    if (initial.empty() && adapted.empty()) return;
    text_.section("model_init");
    text_.string("from", initial.empty() ? adapted : initial);
    std::string head = model_.family->classifier;
    std::ranges::replace(head, '.', '/');
    if (!adapted.empty()) text_.raw("dont_load", "[" + RecipeText::quoted(head + "/.*") + "]");
  }

  void write_evaluation() {
    if (!evaluates()) return;
    text_.section("eval.val");
    text_.string("type", "classification");
    text_.string("every", epochs(static_cast<double>(args_.integer("val_interval"))));
    const auto own = args_.optional_number("validation_batch_size");
    text_.raw("batch", fmt::format("{}", world_ * static_cast<int64_t>(own.value_or(args_.number("batch_size")))));
    text_.section("eval.val.data");
    text_.string("source", source(args_.text("val_split")));
    text_.string("pp", eval_chain());
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
  int64_t world_ = 1, batch_ = 0, size_ = 224;
  bool launched_ = false;
  double rate_ = 0;
  std::string directory_, name_, architecture_;
  models::NamedModel model_;
  Input input_{};
  RecipeText text_;
  Translation out_;
};

}  // namespace

std::span<const TimmOptimizer> timm_optimizers() { return kOptimizers; }

std::string timm_lists() {
  std::string out = argument_lists(timm_arguments());
  out +=
      "\n## Optimizers\n\nAny of them may stand behind `lookahead_`. `adahessian` is not there: it needs products with the "
      "Hessian, that is gradients of gradients, and what gradients are made of here has none.\n\n| `--opt` | here "
      "|\n|---|---|\n";
  for (const TimmOptimizer& one : kOptimizers) {
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
