#include "train/step/batch_gradient.h"

#include <numeric>

#include "ir/functions.h"
#include "ir/grad.h"
#include "ir/random.h"
#include "objectives/softmax.h"
#include "train/step/trace.h"

namespace tessera::train {

using ir::Value;
using ir::Values;

namespace {

// Images normalised as `from` says -> as `to` says.
Value renormalize(Value images, const data::PixelScale& from, const data::PixelScale& to) {
  if (from == to) return images;
  data::PixelScale change;
  change.grey = from.grey;
  for (size_t c = 0; c < 3; ++c) {
    change.scale[c] = to.scale[c] / from.scale[c];
    change.offset[c] = to.offset[c] - from.offset[c] * change.scale[c];
  }
  return rescale(images, change);
}

class Differentiation {
 public:
  explicit Differentiation(const Differentiated& of) : of_(of) {}

  BatchGradient gradient(const TrainRows& rows, Value key) const {
    if (of_.options.accumulate == 1) return over_processes(gradient_of(answers(rows, key, of_.params)));
    return over_processes(of_.options.objective->per_example() ? summed(rows, key) : compared(rows, key));
  }

 private:
  // What the model makes of some rows.
  struct Answers {
    Values outputs;           // the objective's, of each row
    objectives::Batch batch;  // what the objective reads beside them
    Values buffers;           // what the layout's buffers become
  };

  // The sums of what each process makes of its rows, in one exchange.
  BatchGradient over_processes(BatchGradient own) const {
    Values all = own.grads;
    all.insert(all.end(), own.measured.begin(), own.measured.end());
    all = of_.layout.sharded() ? ir::sum_over_processes(of_.processes, all, of_.layout.mesh, specs_at_rest(all.size()))
                               : ir::sum_over_processes(of_.processes, all);
    const auto split = all.begin() + static_cast<ptrdiff_t>(own.grads.size());
    return {{all.begin(), split}, {split, all.end()}, std::move(own.buffers)};
  }

  // Those of the gradients, and then of as many others.
  std::vector<mesh::PartitionSpec> specs_at_rest(size_t count) const {
    std::vector<mesh::PartitionSpec> specs;
    for (size_t i = 0; i < of_.layout.params; ++i) {
      if (of_.optimizer.trainable(i)) specs.push_back(of_.layout.entries[i].spec);
    }
    specs.resize(count);
    return specs;
  }

  // A gradient of parameter i lies as the parameter does: summed over the devices no later than it has to be.
  Value at_rest(Value x, size_t i) const {
    const mesh::PartitionSpec& spec = of_.layout.entries[i].spec;
    return of_.layout.sharded() ? ir::reshard(x, spec, spec) : x;
  }

  Answers answers(const TrainRows& rows, Value key, const Values& params) const {
    Answers out{{}, rows.batch, {}};
    objectives::Batch& batch = out.batch;
    batch.images = pixels(rows, key);
    if (of_.options.teacher) batch.teacher = teacher_logits(batch.images);
    const auto apply = [&](const nn::Scope& scope) { return of_.options.objective->outputs(of_.model, scope, batch); };
    out.outputs =
        trace(of_.layout, params, {.training = true, .key = key, .processes = of_.processes}, of_.options, apply, &out.buffers);
    return out;
  }

  Value pixels(const TrainRows& rows, Value key) const {
    const ir::NameScope named("augment");
    const Value images = normalize(rows.batch.images, of_.options.pixels);
    if (!rows.boxes) return images;
    return erase_boxes(*of_.options.augmentation.erasing, images, rows.boxes, ir::fold_in(key, "erasing"), of_.processes);
  }

  BatchGradient gradient_of(const Answers& answers) const {
    const objectives::Objective& objective = *of_.options.objective;
    // Examples that are compared are those of all processes, each of which adds the losses of its own.
    const bool compares = of_.processes.several() && !objective.per_example();
    Values compared = answers.outputs;
    if (compares) {
      for (Value& output : compared) output = ir::gather_over_processes(of_.processes, output);
    }
    const auto own = [&](Value of_each) { return compares ? ir::rows_of_process(of_.processes, of_each) : of_each; };
    const auto compare = [&](const nn::Scope& scope) { return objective.combine_batch(of_.model, scope, compared); };
    const Values outputs = trace(of_.layout, of_.params, {.training = true}, of_.options, compare);
    BatchGradient out{{}, {}, answers.buffers};
    const ir::NameScope named("loss");
    const double share = 1.0 / static_cast<double>(of_.options.batch * of_.processes.count);
    Value losses = own(objective.loss(outputs, answers.batch));
    if (answers.batch.loss_scale) losses = losses * answers.batch.loss_scale;
    const Value loss = ir::sum_all(losses) * share;
    out.measured.push_back(loss);
    for (size_t i = 0; i < objective.metrics().size(); ++i) {
      out.measured.push_back(ir::sum_all(own(ir::stop_gradient(objective.metric(i, outputs, answers.batch)))) * share);
    }
    Values wanted;
    for (size_t i = 0; i < of_.layout.params; ++i) {
      if (of_.optimizer.trainable(i)) wanted.push_back(ir::current_graph().adopt(of_.params[i]));
    }
    out.grads = ir::gradient(loss, wanted);
    for (size_t i = 0, g = 0; i < of_.layout.params; ++i) {
      if (of_.optimizer.trainable(i)) out.grads[g] = at_rest(out.grads[g], i), ++g;
    }
    return out;
  }

  // The teacher's answers to images as the student sees them, in evaluation.
  Value teacher_logits(Value images) const {
    const recipe::Teacher& teacher = *of_.options.teacher;
    const ir::NameScope named("teacher");
    const Value seen = renormalize(images, of_.options.pixels, teacher.pixels);
    const auto apply = [&](const nn::Scope& scope) { return Values{objectives::classify(*teacher.model, scope, seen)}; };
    return ir::stop_gradient(trace(teacher.layout, of_.teacher, {}, of_.options, apply)[0]);
  }

  // [batch, …] -> [micro-batches, rows, …]. A micro-batch takes every n-th row, so that each device's rows stay its own.
  Value micro_batches(Value x) const {
    Dims dims = x.dims();
    dims[0] /= of_.options.accumulate;
    dims.insert(dims.begin() + 1, of_.options.accumulate);
    x = swap_first_two(ir::reshape(x, dims));
    if (!of_.layout.sharded()) return x;
    const mesh::PartitionSpec spec{{{}, mesh::batch_axes(of_.layout.mesh)}};
    return ir::reshard(x, spec, spec);
  }

  // And back.
  Value whole_batch(Value x) const {
    x = swap_first_two(x);
    Dims dims = x.dims();
    dims[1] *= dims[0];
    dims.erase(dims.begin());
    x = ir::reshape(x, dims);
    if (!of_.layout.sharded()) return x;
    const mesh::PartitionSpec spec{{mesh::batch_axes(of_.layout.mesh)}};
    return ir::reshard(x, spec, spec);
  }

  static Value swap_first_two(Value x) {
    Dims order(static_cast<size_t>(x.rank()));
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[0], order[1]);
    return ir::transpose(x, order);
  }

  // What a scan over micro-batches takes: the number of each and its rows.
  Values numbered(TrainRows rows) const {
    Values xs = {ir::iota({DType::kI32, {of_.options.accumulate}}, 0)};
    rows.each([&](Value x) { xs.push_back(micro_batches(x)); });
    return xs;
  }
  // And what it makes of one.
  Answers numbered_answers(TrainRows rows, const Values& x, Value key, const Values& buffers) const {
    size_t next = 1;
    rows.each([&](Value& rows_of) { rows_of = x[next++]; });
    return answers(rows, ir::fold_in(key, x[0]), with_buffers(of_.layout, of_.params, buffers));
  }
  Values buffers() const {
    Values out;
    for (size_t i = 0; i < of_.layout.params; ++i) {
      if (!of_.layout.entries[i].trained) out.push_back(of_.params[i]);
    }
    return out;
  }

  // The same, micro-batch by micro-batch: less memory for activations. As in torch, each micro-batch is normalised by its own
  // statistics, and buffers move with each.
  BatchGradient summed(const TrainRows& rows, Value key) const {
    Values sums;
    for (size_t i = 0; i < of_.layout.params; ++i) {
      if (of_.optimizer.trainable(i)) sums.push_back(at_rest(ir::zeros(of_.layout.entries[i].type), i));
    }
    const size_t trained = sums.size(), measured = 1 + of_.options.objective->metrics().size();
    for (size_t i = 0; i < measured; ++i) sums.push_back(ir::constant(0));
    const size_t added = sums.size();
    const Values first = buffers();
    sums.insert(sums.end(), first.begin(), first.end());
    const auto body = [&](const Values& carry, const Values& x) {
      const Values moved(carry.begin() + static_cast<ptrdiff_t>(added), carry.end());
      BatchGradient one = gradient_of(numbered_answers(rows, x, key, moved));
      Values next = std::move(one.grads);
      next.insert(next.end(), one.measured.begin(), one.measured.end());
      for (size_t i = 0; i < next.size(); ++i) next[i] = carry[i] + next[i];
      next.insert(next.end(), one.buffers.begin(), one.buffers.end());
      return ir::ScanResult{next, {}};
    };
    const Values total = ir::scan(of_.options.accumulate, sums, numbered(rows), body).carry;
    const auto split = total.begin() + static_cast<ptrdiff_t>(trained), end = total.begin() + static_cast<ptrdiff_t>(added);
    return {{total.begin(), split}, {split, end}, {end, total.end()}};
  }

  // The same of an objective that compares all examples of the batch: their outputs come first, micro-batch by micro-batch, and
  // the gradient of that scan works each off once more, since it keeps nothing of it (as L. Gao et al. 2021, GradCache).
  BatchGradient compared(const TrainRows& rows, Value key) const {
    const auto body = [&](const Values& carry, const Values& x) {
      const Answers one = numbered_answers(rows, x, key, carry);
      return ir::ScanResult{one.buffers, one.outputs};
    };
    const ir::ScanResult all = ir::scan(of_.options.accumulate, buffers(), numbered(rows), body);
    Answers whole{{}, rows.batch, all.carry};
    for (const Value stacked : all.ys) whole.outputs.push_back(whole_batch(stacked));
    return gradient_of(whole);
  }

  const Differentiated& of_;
};

}  // namespace

BatchGradient batch_gradient(const Differentiated& of, const TrainRows& rows, ir::Value key) {
  return Differentiation(of).gradient(rows, key);
}

}  // namespace tessera::train
