#include "nn/scope.h"

#include <algorithm>

#include "base/error.h"
#include "ir/ops.h"
#include "ir/random.h"

namespace tessera::nn {

size_t block_at(const std::string& name) {
  constexpr std::string_view kScope = "blocks/";
  size_t at = name.starts_with(kScope) ? 0 : name.find("/blocks/");
  TESSERA_CHECK(at != std::string::npos, "stacked parameter {} is in no scope `blocks`", name);
  at += at == 0 ? 0 : 1;
  return at + kScope.size() - 1;
}

ir::Value ParamStore::get(const ParamSpec& spec, bool share) {
  if (const auto found = index_.find(spec.name); found != index_.end()) {
    const ParamSpec& known = specs_[found->second];
    TESSERA_CHECK(share, "parameter {} is made twice", spec.name);
    TESSERA_CHECK(known.type == spec.type && known.stacked == spec.stacked, "parameter {} is shared as {} and {}", spec.name,
                  to_string(known.type), to_string(spec.type));
    return values_[found->second];
  }
  ir::Value value;
  if (const auto given = provided_.find(spec.name); given != provided_.end()) {
    value = given->second;
    TESSERA_CHECK(value.type() == spec.type, "parameter {} is {}, and {} was provided for it", spec.name, to_string(spec.type),
                  to_string(value.type()));
  } else {
    value = root_.add_parameter(spec.type, spec.name);
  }
  index_[spec.name] = specs_.size();
  specs_.push_back(spec);
  values_.push_back(value);
  return value;
}

Scope Scope::operator/(std::string_view name) const {
  Scope inner = *this;
  if (!path_.empty()) inner.path_ += '/';
  inner.path_ += name;
  return inner;
}

std::string Scope::name() const { return path_.substr(path_.rfind('/') + 1); }

namespace {

bool gathers_by_parts(const Context& context) { return context.target && context.target->gathers_first_dimension_fast(); }

// A block's slice of a stacked parameter, at rest as `spec`, as an array that XLA does not merge with the stack again. It would
// gather the slice with the stack's dimension, of size 1, and where that comes to lie second to last, a TPU pads it to 4 rows:
// four times the memory. The gradient is not held apart: that would take more memory, not less.
ir::Value apart_from_stack(ir::Value slice, const mesh::PartitionSpec& spec) {
  const ir::Value own = ir::reshard(slice, spec, spec);
  const auto gradient = [](const ir::Values&, const ir::Values&, const ir::Values& ct) { return ct; };
  return ir::custom_gradient({own}, ir::optimization_barrier({own}), gradient)[0];
}

}  // namespace

// Converted before it is gathered, so that half the bytes travel in bf16, and a stacked one before the scan, so that its
// gradient is stacked in bf16 too.
ir::Value Scope::param_as(std::string_view name, const Dims& dims, const Init& init, DType dtype, bool trained) const {
  ParamSpec spec;
  spec.name = (*this / name).path_;
  spec.type.dims = dims;
  spec.init = init;
  spec.stacked = depth_ > 0;
  spec.trained = trained;
  if (spec.stacked) spec.type.dims.insert(spec.type.dims.begin(), depth_);
  ir::Value value = store_->get(spec, share_);
  const mesh::PartitionSpec* at_rest = context_.sharding ? &context_.sharding->params.at(spec.name) : nullptr;
  const bool gather_stack = at_rest && spec.stacked && !context_.sharding->per_block;
  {
    const ir::GraphScope before_the_scan(*value.node->graph);
    value = ir::convert(value, dtype);
    if (gather_stack) value = gathered(value, *at_rest);
  }
  if (spec.stacked) value = of_block(value);
  if (!at_rest || gather_stack) return value;
  if (!spec.stacked) return gathered(value, *at_rest);
  const mesh::PartitionSpec of_slice = mesh::without_first_dim(*at_rest);
  return gathered(gathers_by_parts(context_) ? value : apart_from_stack(value, of_slice), of_slice);
}

// The current block's slice of a stacked parameter. What is done with the whole is done where the parameter stands.
ir::Value Scope::of_block(ir::Value stacked) const {
  const int64_t first = std::max<int64_t>(block_, 0), count = block_ < 0 ? ir::current_graph().scan_length : 1;
  ir::Value part = stacked;
  {
    const ir::GraphScope before_the_scan(*stacked.node->graph);
    if (count < depth_) part = ir::slice_axis(stacked, 0, first, first + count);
    if (block_ >= 0) part = ir::squeeze(part, 0);
  }
  return block_ >= 0 ? part : ir::current_graph().slice_of(part);
}

ir::Value Scope::gathered(ir::Value value, const mesh::PartitionSpec& at_rest) const {
  return gathers_by_parts(context_) ? gather_param_by_parts(value, at_rest, context_.sharding->mesh)
                                    : gather_param(value, at_rest);
}

ir::Value Scope::param(std::string_view name, const Dims& dims, const Init& init) const {
  return param_as(name, dims, init, DType::kF32);
}

ir::Value Scope::compute_param(std::string_view name, const Dims& dims, const Init& init) const {
  return param_as(name, dims, init, context_.compute);
}

ir::Value Scope::buffer(std::string_view name, const Dims& dims, const Init& init) const {
  return ir::stop_gradient(param_as(name, dims, init, DType::kF32, /*trained=*/false));
}

void Scope::update(std::string_view name, ir::Value value) const {
  store_->updates().push_back({(*this / name).path_, ir::stop_gradient(value)});
}

ir::Value Scope::key() const {
  TESSERA_CHECK(random(), "{} asks for a random key, and the context has none", path_);
  return ir::fold_in(context_.key, path_);
}

Scope Scope::in_scan(ir::Value layer) const { return in_scan(layer, ir::current_graph().scan_length); }

Scope Scope::in_scan(ir::Value layer, int64_t depth) const {
  TESSERA_CHECK(ir::current_graph().scan_length > 0, "{} is not traced in the body of a scan", path_);
  Scope inner = *this;
  inner.depth_ = depth;
  if (inner.random()) inner.context_.key = ir::fold_in(context_.key, layer);
  return inner;
}

Scope Scope::in_block(int64_t index, int64_t depth) const {
  Scope inner = *this;
  inner.depth_ = depth;
  inner.block_ = index;
  if (inner.random()) inner.context_.key = ir::fold_in(context_.key, ir::constant(static_cast<double>(index), DType::kI32));
  return inner;
}

Scope Scope::shared() const {
  Scope same = *this;
  same.share_ = true;
  return same;
}

}  // namespace tessera::nn
