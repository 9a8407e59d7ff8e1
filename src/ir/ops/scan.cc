// scan: a loop of known length over stacked arrays, with a gradient that keeps what the remat policy names and recomputes the
// rest.

#include <algorithm>
#include <set>

#include "ir/grad.h"
#include "ir/ops/support.h"
#include "ir/passes/lower.h"

namespace tessera::ir {
namespace {

using Types = std::vector<TensorType>;

// How a scan's operands and results are laid out: operands = carries, slices, captures; results = carries, ys (saved values
// last).
struct Layout {
  size_t carries, slices, captures;
  int64_t length;
  bool reverse;
};

Layout layout_of(const Node& n) {
  const auto carries = static_cast<size_t>(n.attr<int64_t>("_carries")),
             slices = static_cast<size_t>(n.attr<int64_t>("_slices"));
  return {carries, slices, n.operands.size() - carries - slices, n.attr<int64_t>("_length"), n.attr<bool>("_reverse")};
}

TensorType stacked(const TensorType& type, int64_t length) {
  TensorType out = type;
  out.dims.insert(out.dims.begin(), length);
  return out;
}

Types scan_types(const Node& n) {
  const Layout l = layout_of(n);
  const Graph& body = *n.regions[0];
  require(n, body.results.size() >= l.carries, "the body gives fewer results than there are carries");
  Types out;
  for (size_t i = 0; i < body.results.size(); ++i) {
    const TensorType& t = body.results[i].type();
    if (i < l.carries) {
      require(n, t == n.operands[i].type(),
              fmt::format("the body turns carry {} from {} into {}", i, to_string(n.operands[i].type()), to_string(t)));
    }
    out.push_back(i < l.carries ? t : stacked(t, l.length));
  }
  return out;
}

std::string join_names(const std::vector<std::string>& names) {
  std::string s;
  for (const std::string& n : names) s += n + "\n";
  return s;
}

// Makes the node of a finished body whose parameters are `carries` and the slices and captures that it asked for.
Node* finish_scan(std::unique_ptr<Graph> body, const Values& init, const Values& carries, const ScanOptions& options) {
  Values operands = init, parameters = carries;
  for (const auto* list : {&body->slices, &body->captures}) {
    for (const auto& [outer, inner] : *list) {
      operands.push_back(outer);
      parameters.push_back(inner);
    }
  }
  Attrs attrs{{"_length", body->scan_length},
              {"_carries", static_cast<int64_t>(carries.size())},
              {"_slices", static_cast<int64_t>(body->slices.size())},
              {"_reverse", options.reverse},
              {"_unroll", options.unroll},
              {"_prevent_cse", options.prevent_cse},
              {"_remat", static_cast<int64_t>(options.remat.kind)},
              {"_remat_names", join_names(options.remat.names)}};
  body->set_parameters(std::move(parameters));
  std::vector<std::unique_ptr<Graph>> regions;
  regions.push_back(std::move(body));
  return make_node(kOpScan, operands, std::move(attrs), std::move(regions));
}

// ---- gradient

// The stacked values of `value` (of the scan's body) over all iterations: an additional result of the scan.
Value save(Node& scan, Value value) {
  Graph& body = *scan.regions[0];
  const auto at = std::find(body.results.begin() + scan.attr<int64_t>("_carries"), body.results.end(), value);
  const int index = static_cast<int>(at - body.results.begin());
  if (at == body.results.end()) {
    body.results.push_back(value);
    scan.types.push_back(stacked(value.type(), body.scan_length));
  }
  return {&scan, index};
}

// Worth recomputing rather than saving under any policy: also a block's parameters, converted and gathered for use: saving them
// would put a second copy of the model on every device.
bool is_cheap(const Node& n) {
  if (n.op == &kOpParameter || n.op == &kOpConstant || n.op == &kOpIota) return true;
  if (n.op == &kOpCustomGradient) {  // its outputs stand behind its inputs
    return std::ranges::all_of(n.operands.begin() + n.attr<int64_t>("_inputs"), n.operands.end(),
                               [](Value output) { return is_cheap(*output.node); });
  }
  const bool moves = n.op == &kOpBroadcastInDim || n.op == &kOpReshape || n.op == &kOpTranspose || n.op == &kOpConvert ||
                     n.op == &kOpShardingConstraint || n.op == &kOpOptimizationBarrier;
  return moves && is_cheap(*n.operands[0].node);
}

// The order in which the values of one graph were made. Their addresses have another in every process.
struct ByNumber {
  bool operator()(Value a, Value b) const { return std::pair(a.node->id, a.index) < std::pair(b.node->id, b.index); }
};

// Builds the body of the backward scan and what it needs of the forward one.
class BackwardScan {
 public:
  explicit BackwardScan(const VjpArgs& args)
      : a_(args),
        fwd_(args.node),
        f_(*args.node.regions[0]),
        l_(layout_of(args.node)),
        b_(std::make_unique<Graph>(&current_graph())) {
    b_->scan_length = l_.length;
  }

  Values build() {
    {
      const GraphScope scope(*b_);
      recompute();
      const Values grads = vjp(results_, cotangents(), wrt_);
      apply_policy();
      set_results(grads);
      connect_saved();
    }
    Node* node = finish_scan(std::move(b_), init_, carries_, {.reverse = !l_.reverse, .unroll = fwd_.attr<bool>("_unroll")});
    if (fwd_.attr<bool>("_prevent_cse") && remat_kind() != RematPolicy::Kind::kSaveAll) node->attrs["_apart"] = true;
    return operand_cotangents(*node);
  }

 private:
  RematPolicy::Kind remat_kind() const { return static_cast<RematPolicy::Kind>(fwd_.attr<int64_t>("_remat")); }
  bool float_carry(size_t i) const { return is_float(fwd_.operands[i].dtype()); }
  bool wants(size_t operand) const { return a_.wanted[operand] && is_float(fwd_.operands[operand].dtype()); }

  // The forward body once more, from the carries that entered the iteration.
  void recompute() {
    for (size_t i = 0; i < l_.carries; ++i) {
      if (!float_carry(i)) continue;
      init_.push_back(a_.ct[i] ? a_.ct[i] : outer_zeros(fwd_.types[i]));
      carries_.push_back(b_->add_parameter(fwd_.types[i]));
    }
    Values arguments;
    for (size_t i = 0; i < l_.carries; ++i) arguments.push_back(placeholder(f_.parameters()[i]));
    for (size_t i = 0; i < l_.slices; ++i) arguments.push_back(b_->slice_of(fwd_.operands[l_.carries + i]));
    for (size_t i = 0; i < l_.captures; ++i) arguments.push_back(b_->adopt(fwd_.operands[l_.carries + l_.slices + i]));
    results_ = inline_graph(f_, arguments, &copies_);
    forward_end_ = b_->nodes().size();
    for (size_t i = 0; i < arguments.size(); ++i) {
      const bool wanted = i < l_.carries ? float_carry(i) : wants(i);
      if (wanted) wrt_.push_back(arguments[i]), wrt_operand_.push_back(i);
    }
  }

  Values cotangents() {
    Values ct(results_.size());
    size_t at = 0;
    for (size_t i = 0; i < l_.carries; ++i) {
      if (float_carry(i)) ct[i] = carries_[at++];
    }
    for (size_t i = l_.carries; i < results_.size() && i < a_.ct.size(); ++i) {
      if (a_.ct[i]) ct[i] = b_->slice_of(a_.ct[i]);
    }
    return ct;
  }

  // Replaces recomputed values by saved ones, as the policy says.
  void apply_policy() {
    const RematPolicy::Kind kind = remat_kind();
    if (kind == RematPolicy::Kind::kSaveNothing) return;
    std::map<Value, Value> original;  // copy -> value of the forward body
    for (const auto& [from, copy] : copies_) original[copy] = from;
    std::set<Value, ByNumber> saved;  // their order is that of the stacks in the program's text
    if (kind == RematPolicy::Kind::kSaveNamed) {
      const std::string names = "\n" + fwd_.attr<std::string>("_remat_names");
      for (const auto& [copy, from] : original) {
        if (from.node->op != &kOpCheckpointName) continue;
        if (names.find("\n" + from.node->attr<std::string>("_checkpoint_name") + "\n") != std::string::npos) saved.insert(copy);
      }
    } else {
      for (size_t i = forward_end_; i < b_->nodes().size(); ++i) {
        for (const Value v : b_->nodes()[i]->operands) {
          if (original.contains(v) && !is_cheap(*v.node)) saved.insert(v);
        }
      }
    }
    for (const Value copy : saved) b_->replace_uses(copy, placeholder(original[copy]));
  }

  void set_results(const Values& grads) {
    Values accumulated, stacked_ct;
    for (size_t i = 0; i < wrt_.size(); ++i) {
      const size_t operand = wrt_operand_[i];
      if (operand < l_.carries) {
        b_->results.push_back(grads[i] ? grads[i] : zeros_like(wrt_[i]));
      } else if (!grads[i]) {
        continue;  // does not depend on it
      } else if (operand < l_.carries + l_.slices) {
        stacked_ct.push_back(grads[i]);
        stacked_operand_.push_back(operand);
      } else {
        init_.push_back(outer_zeros(wrt_[i].type()));
        carries_.push_back(b_->add_parameter(wrt_[i].type()));
        accumulated.push_back(carries_.back() + grads[i]);
        accumulated_operand_.push_back(operand);
      }
    }
    b_->results.insert(b_->results.end(), accumulated.begin(), accumulated.end());
    b_->results.insert(b_->results.end(), stacked_ct.begin(), stacked_ct.end());
  }

  // Saves what the finished body really uses, and drops slices and captures that it does not.
  void connect_saved() {
    std::set<Node*> used;
    for (Node* n : reachable_nodes(*b_)) used.insert(n);
    const auto unused = [&](const std::pair<Value, Value>& p) { return !used.contains(p.second.node); };
    std::erase_if(b_->slices, unused);
    std::erase_if(b_->captures, unused);
    for (const auto& [value, parameter] : placeholders_) {
      if (used.contains(parameter.node)) b_->slices.emplace_back(save(fwd_, value), parameter);
    }
  }

  Values operand_cotangents(Node& node) const {
    Values out(fwd_.operands.size());
    int at = 0;
    for (size_t i = 0; i < l_.carries; ++i) {
      if (float_carry(i)) out[i] = node.result(at++);
    }
    for (const size_t operand : accumulated_operand_) out[operand] = node.result(at++);
    for (const size_t operand : stacked_operand_) out[operand] = node.result(at++);
    return out;
  }

  Value placeholder(Value forward_value) {
    placeholders_.emplace_back(forward_value, b_->add_parameter(forward_value.type()));
    return placeholders_.back().second;
  }

  Value outer_zeros(const TensorType& type) const {
    const GraphScope scope(*b_->parent());
    return zeros(type);
  }

  const VjpArgs& a_;
  Node& fwd_;
  Graph& f_;
  const Layout l_;
  std::unique_ptr<Graph> b_;
  Values init_, carries_;  // of the backward scan: carry cotangents, then accumulators of the constants' cotangents
  Values results_, wrt_;   // recomputed results; what is differentiated
  std::vector<size_t> wrt_operand_, accumulated_operand_, stacked_operand_;
  std::map<Value, Value> copies_;
  std::vector<std::pair<Value, Value>> placeholders_;  // (value of the forward body, parameter that stands for its saved copy)
  size_t forward_end_ = 0;
};

Values vjp_scan(const VjpArgs& a) { return BackwardScan(a).build(); }

// ---- lowering to while

Values starts_at(Value index, int64_t rank) {
  Values starts{index};
  while (static_cast<int64_t>(starts.size()) < rank) starts.push_back(constant(0, DType::kI32));
  return starts;
}

Value read_slice(Value array, Value index) {
  Dims sizes = array.dims();
  sizes[0] = 1;
  return reshape(dynamic_slice(array, starts_at(index, array.rank()), sizes),
                 Dims(array.dims().begin() + 1, array.dims().end()));
}

Value write_slice(Value array, Value element, Value index) {
  const NameScope scope = NameScope::of(*element.node);
  Dims dims = element.dims();
  dims.insert(dims.begin(), 1);
  return dynamic_update_slice(array, reshape(element, dims), starts_at(index, array.rank()));
}

// Iteration `index` of a stacked array. What an unrolled scan has stacked is taken as it was before.
Value slice_at(Value array, int64_t index) {
  const bool is_stack = array.node->op == &kOpConcatenate && array.node->attr<int64_t>("dimension") == 0 &&
                        std::ranges::all_of(array.node->operands, [](Value part) { return part.dim(0) == 1; });
  if (is_stack) {
    array = array.node->operands[static_cast<size_t>(index)];
  } else {
    array = slice_axis(array, 0, index, index + 1);
  }
  return reshape(array, Dims(array.dims().begin() + 1, array.dims().end()));
}

Value as_slice(Value x) {
  Dims dims = x.dims();
  dims.insert(dims.begin(), 1);
  return reshape(x, dims);
}

// The body once for each iteration, and no loop.
Values unroll_scan(const Node& n, const Values& operands) {
  const Layout l = layout_of(n);
  const size_t stacks = n.types.size() - l.carries;
  Values carries(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(l.carries));
  std::vector<Values> parts(stacks, Values(static_cast<size_t>(l.length)));
  for (int64_t step = 0; step < l.length; ++step) {
    const int64_t index = l.reverse ? l.length - 1 - step : step;
    Values arguments = carries;
    for (size_t i = 0; i < l.slices; ++i) arguments.push_back(slice_at(operands[l.carries + i], index));
    if (n.has_attr("_apart")) arguments = optimization_barrier(arguments);
    arguments.insert(arguments.end(), operands.begin() + static_cast<std::ptrdiff_t>(l.carries + l.slices), operands.end());
    const Values results = lower_inline(*n.regions[0], arguments);
    carries.assign(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(l.carries));
    for (size_t i = 0; i < stacks; ++i) parts[i][static_cast<size_t>(index)] = as_slice(results[l.carries + i]);
  }
  for (const Values& part : parts) carries.push_back(concatenate(part, 0));
  return carries;
}

// How a loop keeps its stacked arrays, of bf16 as bits where the scan has to (ir/program/target.h), and their numbers again.
class Stacks {
 public:
  explicit Stacks(const Node& scan) : bits_(scan.has_attr("_stacks_bits")) {}

  TensorType kept(TensorType type) const {
    if (bits_ && type.dtype == DType::kBF16) type.dtype = DType::kU16;
    return type;
  }
  Value kept(Value x) const {
    const DType dtype = kept(x.type()).dtype;
    if (dtype == x.dtype()) return x;
    const bool were_bits = x.node->op == &kOpBitcastConvert && x.node->operands[0].dtype() == dtype;
    return were_bits ? x.node->operands[0] : bitcast_convert(x, dtype);
  }
  static Value numbers(Value kept, DType dtype) { return kept.dtype() == dtype ? kept : bitcast_convert(kept, dtype); }

 private:
  bool bits_;
};

// What a loop writes whole, slice by slice: its first values are never read.
Value stack_to_fill(const TensorType& type) {
  const Value stack = zeros(type);
  stack.node->attrs["_filled"] = true;
  return stack;
}

// Loop state: [iteration, carries, stacked results, sliced arrays, constants].
Values lower_scan(const Node& n, const Values& operands) {
  if (n.attr<bool>("_unroll")) return unroll_scan(n, operands);
  const Layout l = layout_of(n);
  const Stacks how(n);
  const size_t stacks = n.types.size() - l.carries;
  Values init{constant(0, DType::kI32)};
  init.insert(init.end(), operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(l.carries));
  for (size_t i = 0; i < stacks; ++i) init.push_back(stack_to_fill(how.kept(n.types[l.carries + i])));
  for (size_t i = 0; i < l.slices; ++i) init.push_back(how.kept(operands[l.carries + i]));
  init.insert(init.end(), operands.begin() + static_cast<std::ptrdiff_t>(l.carries + l.slices), operands.end());
  const size_t first_stack = 1 + l.carries, first_slice = first_stack + stacks;

  const auto condition = [&](const Values& s) {
    return compare(Compare::kLt, s[0], constant(static_cast<double>(l.length), DType::kI32));
  };
  const auto body = [&](const Values& s) {
    const Value index = l.reverse ? static_cast<double>(l.length - 1) - s[0] : s[0];
    Values arguments(s.begin() + 1, s.begin() + static_cast<std::ptrdiff_t>(first_stack));
    for (size_t i = 0; i < l.slices; ++i) {
      arguments.push_back(Stacks::numbers(read_slice(s[first_slice + i], index), operands[l.carries + i].dtype()));
    }
    arguments.insert(arguments.end(), s.begin() + static_cast<std::ptrdiff_t>(first_slice + l.slices), s.end());
    const Values results = lower_inline(*n.regions[0], arguments);
    Values next{s[0] + 1.0};
    next.insert(next.end(), results.begin(), results.begin() + static_cast<std::ptrdiff_t>(l.carries));
    for (size_t i = 0; i < stacks; ++i) {
      next.push_back(write_slice(s[first_stack + i], how.kept(results[l.carries + i]), index));
    }
    next.insert(next.end(), s.begin() + static_cast<std::ptrdiff_t>(first_slice), s.end());
    return next;
  };
  const Values end = while_loop(init, condition, body);
  Values out(end.begin() + 1, end.begin() + static_cast<std::ptrdiff_t>(first_slice));
  for (size_t i = l.carries; i < out.size(); ++i) out[i] = Stacks::numbers(out[i], n.types[i].dtype);
  return out;
}

}  // namespace

constinit const OpDef kOpScan("tessera.scan", scan_types, vjp_scan, lower_scan);

ScanResult scan(int64_t length, const Values& init, const Values& xs,
                const std::function<ScanResult(const Values& carry, const Values& x)>& body_fn, const ScanOptions& options) {
  TESSERA_CHECK(length >= 1, "a scan of length {}", length);
  auto body = std::make_unique<Graph>(&current_graph());
  body->scan_length = length;
  Values carries, x;
  for (const Value v : init) carries.push_back(body->add_parameter(v.type()));
  for (const Value v : xs) x.push_back(body->slice_of(v));
  ScanResult step;
  {
    const GraphScope scope(*body);
    step = body_fn(carries, x);
    TESSERA_CHECK(step.carry.size() == init.size(), "the body of a scan gave {} carries for {}", step.carry.size(),
                  init.size());
    for (const Values* part : {&step.carry, &step.ys}) {
      for (const Value v : *part) body->results.push_back(body->adopt(v));
    }
  }
  Node* node = finish_scan(std::move(body), init, carries, options);
  ScanResult out;
  for (size_t i = 0; i < node->types.size(); ++i)
    (i < init.size() ? out.carry : out.ys).push_back(node->result(static_cast<int>(i)));
  return out;
}

}  // namespace tessera::ir
