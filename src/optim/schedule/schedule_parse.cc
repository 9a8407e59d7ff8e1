#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/call.h"
#include "base/text/text.h"
#include "config/duration.h"
#include "config/other_words.h"
#include "optim/schedule/schedule.h"
#include "optim/schedule/torch_noise.h"

namespace tessera::optim {
namespace {

constexpr double kMaxNoise = 100000;  // entries of the table that goes into the program

struct Entry {
  const char *name, *usage, *help;
};
constexpr Entry kSchedules[] = {
    {"constant", "constant(LR)", "the same as LR alone"},
    {"linear", "linear(LR, min=0, CYCLES)", "falls evenly"},
    {"cosine", "cosine(LR, min=0, k=1, CYCLES)", "falls as half a wave; k: progress to this power (timm's k-decay)"},
    {"polynomial", "polynomial(LR, power=2, min=0, k=1, CYCLES)", "falls as a power of what is left"},
    {"tanh", "tanh(LR, min=0, lower=-7, upper=3, CYCLES)", "falls as a hyperbolic tangent"},
    {"rsqrt", "rsqrt(LR, timescale=10000 steps, shift=0 steps)", "falls as 1 / sqrt(step)"},
    {"step", "step(LR, gamma=0.1, every=30 epochs | milestones=[30 epochs, 60 epochs], factors=[0.1, 0.05])",
     "falls by a factor at times; factors: of each milestone, relative to LR"},
    {"wsd", "wsd(LR, decay=20 %, shape=1-sqrt, min=0, timescale=DURATION)",
     "stays, then falls at the end (1-sqrt, linear, cosine); with timescale falls as 1 / sqrt(step) before"},
    {"flat_cosine", "flat_cosine(LR, flat=75 %, div_final=1e5)", "stays, then falls as half a wave to LR / div_final (fastai)"},
    {"one_cycle", "one_cycle(LR, rise=25 %, div=25, div_final=1e5, momentum=[0.95, 0.85])",
     "rises from LR / div, falls to LR / div_final (fastai); with momentum, that of sgd or b1 of adam, adamw and nadamw goes "
     "from the first to the second and back"},
    {"exponential", "exponential(LR, end=1e-5, length=DURATION)",
     "falls or rises by equal factors to `end`, in so long or over the run; a rising one goes through base rates, so that "
     "weight "
     "decay relative to the base rate stays as it is (tessera lr-find)"},
    {"plateau", "plateau(LR, metric=val/prec@1, mode=max, factor=0.1, patience=10, threshold=1e-4, cooldown=0, min=0)",
     "falls when an evaluator's metric stops getting better; patience and cooldown are evaluations"},
};
constexpr const char* kCommon =
    "CYCLES: cycles=1, cycle_mul=1 (length of the next), cycle_decay=1 (rate of the next), length=DURATION (of the first; the\n"
    "  cycles fill the run when not given; after the last the rate is min).\n"
    "Every schedule also takes: start=DURATION (the rate is 0 before, and the rest counts from there: parameters thaw),\n"
    "  warmup=DURATION, warmup_start=0, warmup_mode=scale (scale_from_0 is big_vision's; overlap and\n"
    "  prefix are timm's), cooldown=DURATION (down to 0 at the end), hold=DURATION (the rate changes once in so long, as "
    "timm's\n"
    "  once an epoch), noise=FROM or noise=[FROM, TO] (durations), noise_pct=0.67, noise_std=1, noise_seed=42 (timm's).\n"
    "Durations: 50 steps, 5 epochs, 1e6 examples, 5 %.";

std::vector<std::string> list_of(const CallReader& call, const char* name, const std::string& text) {
  const std::string_view list = trim(text);
  if (list.size() < 2 || list.front() != '[' || list.back() != ']') {
    call.fail(fmt::format("`{}` must be a list of durations", name), fmt::format("write {}=[30 epochs, 60 epochs]", name));
  }
  std::vector<std::string> parts;
  for (const std::string& part : split(list.substr(1, list.size() - 2), ',')) parts.emplace_back(trim(part));
  return parts;
}

// Steps before the schedule begins, by its argument `start`, which is taken out: the others are those of what remains.
int64_t take_start(Call& call, const RunLength& length, const std::string& where) {
  const auto found = std::ranges::find_if(call.args, [](const CallArg& arg) { return arg.key == "start"; });
  if (found == call.args.end()) return 0;
  const config::Duration duration = config::parse_duration(found->value, where);
  const int64_t start = config::to_steps(duration, length.batch, length.examples_per_epoch, length.total_steps, where);
  call.args.erase(found);
  if (start < length.total_steps) return start;
  throw usage_error(fmt::format("`{}`: `start` ({} steps) must lie before the end of the run ({} steps)", call.text, start,
                                length.total_steps),
                    where, "to freeze parameters for good, name them in `freeze`");
}

}  // namespace

// Reads one call into a schedule.
class ScheduleParser {
 public:
  ScheduleParser(const Call& call, const RunLength& length, const std::string& where)
      : call_(call, where), name_(call.name), length_(length), where_(where) {}

  // `start`: steps before those of the length.
  Schedule parse(int64_t start) {
    s_.start_ = static_cast<double>(start);
    s_.total_ = static_cast<double>(length_.total_steps);
    s_.base_ = positive("lr");
    if (!std::isfinite(s_.base_)) call_.fail(fmt::format("`lr` must be finite, and is {}", s_.base_));
    const bool cyclic = read_kind();
    read_warmup();
    if (cyclic) read_cycles();
    if (s_.kind_ == Schedule::Kind::kStable) read_stable();
    s_.hold_ = std::max(1.0, duration("hold", "1 step"));
    read_noise();
    call_.finish();
    if (s_.min_ < 0 || s_.min_ > s_.base_) call_.fail(fmt::format("`min` must lie in [0, lr], and is {}", s_.min_));
    if (s_.plateau_) s_.plateau_->begins = static_cast<int64_t>(s_.start_ + s_.warmup_);
    return s_;
  }

 private:
  using Kind = Schedule::Kind;

  double steps(const std::string& text) const {
    const config::Duration duration = config::parse_duration(text, where_);
    return static_cast<double>(
        config::to_steps(duration, length_.batch, length_.examples_per_epoch, length_.total_steps, where_));
  }
  double duration(const char* name, const std::string& fallback) { return steps(call_.text(name, fallback)); }
  std::optional<double> optional_duration(const char* name) {
    const std::string text = call_.text(name, "");
    return text.empty() ? std::nullopt : std::optional(steps(text));
  }
  double positive(const char* name, std::optional<double> fallback = {}) {
    const double value = call_.number(name, fallback);
    if (!(value > 0)) call_.fail(fmt::format("`{}` must be above 0, and is {}", name, value));
    return value;
  }

  // True for schedules in cycles.
  bool read_kind() {
    if (name_ == "rsqrt") read_rsqrt();
    if (name_ == "step") read_step();
    if (name_ == "flat_cosine" || name_ == "one_cycle") read_one_cycle();
    if (name_ == "exponential") read_exponential();
    if (name_ == "plateau") read_plateau();
    if (name_ == "wsd") s_.kind_ = Kind::kStable;
    if (name_ == "linear" || name_ == "polynomial") s_.kind_ = Kind::kPolynomial;
    if (name_ == "cosine") s_.kind_ = Kind::kCosine;
    if (name_ == "tanh") s_.kind_ = Kind::kTanh;
    if (name_ == "polynomial") s_.power_ = positive("power", 2);
    const bool cyclic = s_.kind_ == Kind::kPolynomial || s_.kind_ == Kind::kCosine || s_.kind_ == Kind::kTanh;
    if (cyclic) s_.min_ = call_.number("min", 0);
    if (name_ == "polynomial" || name_ == "cosine") s_.k_ = positive("k", 1);
    if (name_ == "tanh") {
      s_.lower_ = call_.number("lower", -7);
      s_.upper_ = call_.number("upper", 3);
    }
    return cyclic;
  }

  void read_rsqrt() {
    s_.kind_ = Kind::kRsqrt;
    s_.timescale_ = duration("timescale", "10000 steps");
    s_.shift_ = duration("shift", "0 steps");
    if (s_.timescale_ <= 0) call_.fail("`timescale` must be above 0");
  }

  void read_step() {
    s_.kind_ = Kind::kStep;
    s_.gamma_ = positive("gamma", 0.1);
    s_.every_ = duration("every", "0 steps");
    const std::string milestones = call_.text("milestones", "");
    s_.factors_ = call_.numbers("factors", std::vector<double>{});
    if (!milestones.empty()) {
      for (const std::string& part : list_of(call_, "milestones", milestones)) {
        s_.milestones_.push_back(steps(part));
      }
      if (!std::is_sorted(s_.milestones_.begin(), s_.milestones_.end())) call_.fail("`milestones` must not fall");
      if (!s_.factors_.empty() && s_.factors_.size() != s_.milestones_.size()) {
        call_.fail("`factors` must hold one number for each of `milestones`");
      }
    }
    if ((s_.every_ > 0) == !s_.milestones_.empty()) {
      call_.fail("give either `every` or `milestones`", "for example every=30 epochs, or milestones=[30 epochs, 60 epochs]");
    }
  }

  void read_one_cycle() {
    const bool flat = name_ == "flat_cosine";
    s_.kind_ = Kind::kOneCycle;
    s_.rise_ = flat ? duration("flat", "75 %") : duration("rise", "25 %");
    s_.first_ = flat ? s_.base_ : s_.base_ / positive("div", 25);
    s_.last_ = s_.base_ / positive("div_final", 1e5);
    if (s_.rise_ >= s_.total_) {
      call_.fail(
          fmt::format("`{}` must be shorter than the run: it has {} of {} steps", flat ? "flat" : "rise", s_.rise_, s_.total_),
          "shorten it, or lengthen `total`");
    }
    const std::vector<double> momentum = flat ? std::vector<double>() : call_.numbers("momentum", std::vector<double>{});
    if (momentum.empty()) return;
    if (momentum.size() != 2 || std::ranges::any_of(momentum, [](double m) { return !(m > 0 && m < 1); })) {
      call_.fail("`momentum` must hold two numbers above 0 and below 1", "at both ends and at the top: momentum=[0.95, 0.85]");
    }
    s_.end_momentum_ = momentum[0], s_.top_momentum_ = momentum[1];
  }

  void read_exponential() {
    s_.kind_ = Kind::kExponential;
    s_.end_ = positive("end", 1e-5);
    if (!std::isfinite(s_.end_)) call_.fail(fmt::format("`end` must be finite, and is {}", s_.end_));
    s_.length_ = optional_duration("length").value_or(s_.total_);
    if (s_.length_ < 1) call_.fail("`length` must be at least one step");
  }

  void read_plateau() {
    PlateauOptions& p = s_.plateau_.emplace();
    p.metric = call_.text("metric", "");
    if (p.metric.empty()) call_.fail("`metric` is missing", "for example metric=val/loss");
    const std::string mode = call_.text("mode", p.metric.ends_with("loss") ? "min" : "max");
    if (mode != "max" && mode != "min") call_.fail(fmt::format("`mode` must be max or min, and is {}", mode));
    p.higher_is_better = mode == "max";
    p.factor = positive("factor", 0.1);
    if (p.factor >= 1) call_.fail(fmt::format("`factor` must be below 1, and is {}", p.factor));
    p.patience = call_.integer("patience", 10);
    p.threshold = call_.number("threshold", 1e-4);
    p.cooldown = call_.integer("cooldown", 0);
    p.min_scale = call_.number("min", 0) / s_.base_;
    if (p.patience < 0) call_.fail("`patience` must not be negative");
  }

  void read_warmup() {
    static const std::vector<std::string> modes = {"scale", "scale_from_0", "overlap", "prefix"};
    s_.warmup_ = duration("warmup", "0 steps");
    s_.warmup_start_ = call_.number("warmup_start", 0);
    const std::string mode = call_.text("warmup_mode", "scale");
    const auto found = std::find(modes.begin(), modes.end(), mode);
    if (found == modes.end()) call_.fail(fmt::format("there is no warmup_mode `{}`", mode), suggest_name(mode, modes));
    s_.warmup_mode_ = static_cast<Schedule::Warmup>(found - modes.begin());
    if (!s_.plateau_) s_.cooldown_ = duration("cooldown", "0 steps");
    if (s_.warmup_start_ < 0) call_.fail("`warmup_start` must not be negative");
    if (s_.warmup_ + s_.cooldown_ > s_.total_) {
      call_.fail(fmt::format("warm-up ({:.0f} steps) and cool-down ({:.0f}) are longer than the run ({:.0f} steps)", s_.warmup_,
                             s_.cooldown_, s_.total_),
                 "shorten them, or lengthen `total`; a share such as warmup=5 % fits any length");
    }
  }

  void read_cycles() {
    const int64_t count = call_.integer("cycles", 1);
    const double mul = positive("cycle_mul", 1), decay = positive("cycle_decay", 1);
    if (count < 1 || count > 1000) call_.fail(fmt::format("`cycles` must lie in 1 … 1000, and is {}", count));
    double lengths = 0;
    for (int64_t i = 0; i < count; ++i) lengths += std::pow(mul, static_cast<double>(i));
    const double span = std::max(s_.total_ - s_.begin(), 1.0);
    const double first = optional_duration("length").value_or(span / lengths);
    if (first <= 0) call_.fail("`length` must be above 0");
    double start = 0;
    for (int64_t i = 0; i < count; ++i) {
      const auto power = static_cast<double>(i);
      s_.cycles_.push_back({start, first * std::pow(mul, power), s_.base_ * std::pow(decay, power)});
      start += s_.cycles_.back().length;
    }
  }

  void read_stable() {
    s_.min_ = call_.number("min", 0);
    const double rest = s_.total_ - s_.warmup_;
    s_.decay_steps_ = optional_duration("decay").value_or(std::nearbyint(0.2 * rest));
    if (s_.decay_steps_ <= 0 || s_.decay_steps_ > rest) {
      call_.fail(fmt::format("`decay` ({:.0f} steps) must be above 0 and fit after the warm-up, in {:.0f} steps",
                             s_.decay_steps_, rest));
    }
    static const std::vector<std::string> shapes = {"linear", "cosine", "1-sqrt"};
    const std::string shape = call_.text("shape", "1-sqrt");
    const auto found = std::find(shapes.begin(), shapes.end(), shape);
    if (found == shapes.end()) call_.fail(fmt::format("there is no shape `{}`", shape), suggest_name(shape, shapes));
    s_.shape_ = static_cast<Schedule::Shape>(found - shapes.begin());
    s_.timescale_ = optional_duration("timescale").value_or(0);
  }

  void read_noise() {
    const std::string text = call_.text("noise", "");
    const RateNoise noise{positive("noise_pct", 0.67), positive("noise_std", 1),
                          static_cast<uint64_t>(call_.integer("noise_seed", 42))};
    if (text.empty()) return;
    const auto range = text.starts_with("[") ? list_of(call_, "noise", text) : std::vector<std::string>{text};
    if (range.empty() || range.size() > 2) call_.fail("`noise` must be a duration, or [FROM, TO]");
    const double from = steps(range[0]), to = range.size() == 2 ? steps(range[1]) : s_.total_ + 1;
    const double parts = std::floor(s_.total_ / s_.hold_) + 1;
    if (parts > kMaxNoise) {
      call_.fail(fmt::format("noise would change {:.0f} times", parts), "let the rate change once an epoch: hold=1 epoch");
    }
    for (int64_t i = 0; i < static_cast<int64_t>(parts); ++i) {
      const double at = static_cast<double>(i) * s_.hold_;
      s_.noise_.push_back(at >= from && at < to ? static_cast<float>(rate_noise(noise, i)) : 0.0f);
    }
  }

  CallReader call_;
  const std::string& name_;
  const RunLength& length_;
  const std::string& where_;
  Schedule s_;
};

Schedule Schedule::parse(const std::string& text, const RunLength& length, const std::string& where) {
  const bool bare = parse_number(text).has_value();
  Call call = parse_call(bare ? "constant(" + text + ")" : text, where);
  std::vector<std::string> names;
  for (const Entry& schedule : kSchedules) names.push_back(schedule.name);
  if (std::find(names.begin(), names.end(), call.name) == names.end()) {
    throw usage_error(fmt::format("there is no schedule `{}`", call.name), where, config::suggest_value(call.name, names));
  }
  const int64_t start = take_start(call, length, where);
  RunLength rest = length;
  rest.total_steps -= start;
  return ScheduleParser(call, rest, where).parse(start);
}

std::string schedule_help() {
  std::string text;
  for (const Entry& schedule : kSchedules) text += fmt::format("  {}\n      {}\n", schedule.usage, schedule.help);
  return text + kCommon;
}

std::string with_rate(std::string_view schedule, std::string_view rate) {
  const size_t open = schedule.find('('), first = open == std::string_view::npos ? 0 : open + 1;
  const size_t end = std::min(schedule.find_first_of(",)", first), schedule.size());
  const std::string_view value = trim(schedule.substr(first, end - first));
  return fmt::format("{}{}{}{}", schedule.substr(0, first), value.starts_with("lr") ? "lr=" : "", rate, schedule.substr(end));
}

}  // namespace tessera::optim
