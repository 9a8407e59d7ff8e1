#include "recipe/translate/timm_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera::translate {

double TimmSchedule::passes() const {
  const std::string kind = lower(args_.text("dataset"));
  const bool heeded = kind.starts_with("tfds/") || kind == "wds" || kind.starts_with("wds/");
  return heeded ? std::max(1.0, args_.number("epoch_repeats")) : 1;
}

std::string TimmSchedule::epochs(double count) const {
  count *= passes();
  return number_text(count) + (count == 1 ? " epoch" : " epochs");
}

bool TimmSchedule::cycles() const {
  const std::string sched = args_.text("sched");
  return sched == "cosine" || sched == "tanh" || sched == "poly";
}

double TimmSchedule::total_epochs() const {
  const auto count = static_cast<double>(args_.integer("epochs"));
  double total = count;
  if (cycles()) {
    const double mul = args_.number("lr_cycle_mul"), limit = std::max(1.0, args_.number("lr_cycle_limit"));
    total = mul == 1 ? count * limit : std::floor(-count * (std::pow(mul, limit) - 1) / (1 - mul));
    total += static_cast<double>(args_.integer("cooldown_epochs"));
  }
  return total + (args_.flag("warmup_prefix") ? args_.number("warmup_epochs") : 0);
}

// A run of timm's may end within its warm-up, as with --epochs 1: at the rates of a warm-up of its own length to a lower rate.
// Not with tanh, whose warm-up rises to the rate that the schedule has at its end.
double TimmSchedule::warmup_epochs() const {
  const double asked = args_.number("warmup_epochs");
  return args_.text("sched") == "tanh" ? asked : std::min(asked, total_epochs());
}

std::string TimmSchedule::text(double base_rate) const {
  const std::string sched = args_.text("sched");
  if (sched.empty() || sched == "none") return number_text(base_rate);  // without a warm-up
  const double asked = args_.number("warmup_epochs"), start = args_.number("warmup_lr");
  if (asked > warmup_epochs()) base_rate = start + (base_rate - start) * warmup_epochs() / asked;
  const std::string rate = number_text(base_rate);
  std::string call;
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
    call = fmt::format("plateau({}, metric={}, mode={}, factor={}, patience={}", rate, timm_metric(args_),
                       args_.text("eval_metric") == "loss" ? "min" : "max", number_text(args_.number("decay_rate")),
                       args_.integer("patience_epochs"));
  }
  if (call.empty()) {
    throw usage_error(fmt::format("there is no `--sched {}` here", sched), {},
                      suggest_name(sched, {"cosine", "tanh", "poly", "step", "multistep", "plateau", "none"}));
  }
  return call + arguments(sched) + ")";
}

std::string TimmSchedule::note(double base_rate) const {
  const std::string sched = args_.text("sched");
  const double asked = args_.number("warmup_epochs");
  if (sched.empty() || sched == "none" || asked <= warmup_epochs()) return "";
  return fmt::format(
      "the run ends within its warm-up of {}, and does not reach its rate of {}, as in timm; --warmup-epochs shortens that",
      epochs(asked), number_text(base_rate));
}

std::string TimmSchedule::arguments(const std::string& sched) const {
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
  if (warmup_epochs() > 0) {
    out += fmt::format(", warmup={}, warmup_start={}", epochs(warmup_epochs()), number_text(args_.number("warmup_lr")));
    if (sched != "plateau") out += args_.flag("warmup_prefix") ? ", warmup_mode=prefix" : ", warmup_mode=overlap";
  }
  if (!args_.flag("sched_on_updates") && sched != "plateau") out += ", hold=" + epochs(1);
  return out + noise();
}

std::string TimmSchedule::noise() const {
  const std::vector<double> range = args_.numbers("lr_noise");
  if (range.empty()) return "";
  if (range.size() > 2) throw usage_error("`--lr-noise` takes one or two shares of the run");
  std::vector<std::string> times;
  for (const double share : range) times.push_back(epochs(share * args_.number("epochs")));
  const std::string text = times.size() == 1 ? times[0] : "[" + join(times, ", ") + "]";
  return fmt::format(", noise={}, noise_pct={}, noise_std={}, noise_seed={}", text, number_text(args_.number("lr_noise_pct")),
                     number_text(args_.number("lr_noise_std")), args_.integer("seed"));
}

std::string timm_metric(const Arguments& args) {
  const std::string name = args.text("eval_metric");
  static const std::vector<std::pair<std::string, std::string>> scores = {
      {"top1", "prec@1"}, {"top5", "prec@5"}, {"loss", "loss"}};
  for (const auto& [timm, ours] : scores) {
    if (name == timm) return (args.flag("model_ema") ? "val_ema/" : "val/") + ours;
  }
  throw usage_error(fmt::format("`--eval-metric` is `{}`", name), {}, "top1, top5 or loss");
}

}  // namespace tessera::translate
