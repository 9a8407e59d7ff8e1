#include "train/guard/skip_update.h"

#include "base/error.h"
#include "ir/functions.h"
#include "state/state.h"

namespace tessera::train {

using ir::Value;
using ir::Values;

namespace {

Value value_at(Value state, int64_t i) { return ir::reshape(ir::slice_axis(state, 0, i, i + 1), {}); }

}  // namespace

std::vector<std::string> guard_metric_names() { return {"skips_in_row", "skips", "l2_grads_average"}; }

GuardedStep guard_step(const recipe::GuardOptions& guard, Value state, Value norm, const Values& others) {
  const ir::NameScope scope("guard");
  const Value average = value_at(state, 0), count = value_at(state, 1), in_row = value_at(state, 2), all = value_at(state, 3);
  GuardedStep out;
  out.made = ir::is_finite(norm);
  for (const Value value : others) out.made = ir::logical_and(out.made, ir::is_finite(value));
  const auto window = static_cast<double>(guard.window);
  if (guard.spike) {
    const Value early = ir::compare(ir::Compare::kLt, count, ir::constant(window));
    const Value usual = ir::compare(ir::Compare::kLe, norm, average * *guard.spike);
    out.made = ir::logical_and(out.made, ir::logical_or(early, usual));
  }
  const Value made = ir::minimum(count + 1.0, ir::constant(window));
  out.measured = {out.choose(ir::constant(0), in_row + 1.0), out.choose(all, all + 1.0), average};
  out.state = ir::pack({out.choose(average + (norm - average) / made, average), out.choose(made, count),
                        out.measured[kSkipsInRow], out.measured[kSkips]});
  return out;
}

}  // namespace tessera::train
