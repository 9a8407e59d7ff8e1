#include "nn/scope.h"

#include "base/error.h"
#include "ir/ops.h"
#include "ir/random.h"

namespace tessera::nn {

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

// Converted before it is gathered: half the bytes travel in bf16.
ir::Value Scope::param_as(std::string_view name, const Dims& dims, const Init& init, DType dtype) const {
  ParamSpec spec;
  spec.name = (*this / name).path_;
  spec.type.dims = dims;
  spec.init = init;
  spec.stacked = depth_ > 0;
  if (spec.stacked) spec.type.dims.insert(spec.type.dims.begin(), depth_);
  const ir::Value value = store_->get(spec, share_);
  const auto slice = [&](ir::Value v) { return spec.stacked ? ir::current_graph().slice_of(v) : v; };
  if (!context_.sharding) return ir::convert(slice(value), dtype);
  const mesh::PartitionSpec& at_rest = context_.sharding->params.at(spec.name);
  const bool whole_stack = spec.stacked && !context_.sharding->per_block;
  if (!whole_stack)
    return gather_param(ir::convert(slice(value), dtype), spec.stacked ? mesh::without_first_dim(at_rest) : at_rest);
  ir::Value gathered;
  {
    const ir::GraphScope before_the_scan(*value.node->graph);
    gathered = gather_param(ir::convert(value, dtype), at_rest);
  }
  return slice(gathered);
}

ir::Value Scope::param(std::string_view name, const Dims& dims, const Init& init) const {
  return param_as(name, dims, init, DType::kF32);
}

ir::Value Scope::compute_param(std::string_view name, const Dims& dims, const Init& init) const {
  return param_as(name, dims, init, context_.compute);
}

ir::Value Scope::key() const {
  TESSERA_CHECK(random(), "{} asks for a random key, and the context has none", path_);
  return ir::fold_in(context_.key, path_);
}

Scope Scope::in_scan(ir::Value layer) const {
  Scope inner = *this;
  inner.depth_ = ir::current_graph().scan_length;
  TESSERA_CHECK(inner.depth_ > 0, "{} is not traced in the body of a scan", path_);
  if (inner.random()) inner.context_.key = ir::fold_in(context_.key, layer);
  return inner;
}

Scope Scope::shared() const {
  Scope same = *this;
  same.share_ = true;
  return same;
}

}  // namespace tessera::nn
