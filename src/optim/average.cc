#include "optim/average.h"

#include <fmt/format.h>

#include "config/duration.h"
#include "ir/ops.h"
#include "optim/update_rule.h"

namespace tessera::optim {

using ir::Value;

Average::Average(config::Section section, const RunLength& length) {
  section.bind(options_);
  check_share(section, "decay", options_.decay);
  check_positive(section, "warmup_gamma", options_.warmup_gamma);
  check_positive(section, "warmup_power", options_.warmup_power);
  if (!(options_.min_decay >= 0 && options_.min_decay <= options_.decay)) {
    section.fail("min_decay", fmt::format("must lie in [0, decay], and is {}", options_.min_decay));
  }
  const std::string where = section.place("start");
  start_ = static_cast<double>(config::to_steps(config::parse_duration(options_.start, where), length.batch,
                                                length.examples_per_epoch, length.total_steps, where));
}

Value Average::decay(Value step) const {
  const Value s = ir::maximum(ir::convert(step, DType::kF32) - start_, ir::constant(0));
  Value decay = ir::constant(options_.decay);
  if (options_.warmup) {
    const Value rising = 1.0 - ir::power(1.0 + s / options_.warmup_gamma, ir::constant(-options_.warmup_power));
    decay = ir::clamp(ir::constant(options_.min_decay), rising, decay);
  }
  return ir::select(ir::compare(ir::Compare::kGt, s, ir::constant(0)), decay, ir::constant(0));
}

Value Average::update(Value average, Value weights, Value decay) { return average * decay + weights * (1.0 - decay); }

}  // namespace tessera::optim
