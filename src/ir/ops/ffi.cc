// Custom calls of functions registered with the plugin (XLA's FFI), and composites, which become such calls where a target has a
// kernel for them.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "ir/composite.h"
#include "ir/grad.h"
#include "ir/ops/support.h"
#include "ir/types_of.h"

namespace tessera::ir {
namespace {

using Types = std::vector<TensorType>;

// Result types that cannot be inferred from operands are kept in the attributes: dtypes, ranks and sizes in three lists.
Attrs with_types(Attrs attrs, const Types& results) {
  Dims dtypes, ranks, sizes;
  for (const TensorType& t : results) {
    dtypes.push_back(static_cast<int64_t>(t.dtype));
    ranks.push_back(t.rank());
    sizes.insert(sizes.end(), t.dims.begin(), t.dims.end());
  }
  attrs["_dtypes"] = dtypes;
  attrs["_ranks"] = ranks;
  attrs["_sizes"] = sizes;
  return attrs;
}

Types declared_types(const Node& n) {
  const Dims &dtypes = n.attr<Dims>("_dtypes"), &ranks = n.attr<Dims>("_ranks"), &sizes = n.attr<Dims>("_sizes");
  Types out;
  size_t at = 0;
  for (size_t i = 0; i < dtypes.size(); ++i) {
    TensorType t{static_cast<DType>(dtypes[i]), {}};
    for (int64_t k = 0; k < ranks[i]; ++k) t.dims.push_back(sizes[at++]);
    out.push_back(std::move(t));
  }
  return out;
}

Values results_of(Node* node) {
  Values out;
  for (size_t i = 0; i < node->types.size(); ++i) out.push_back(node->result(static_cast<int>(i)));
  return out;
}

Values make_composite(const Composite& composite, const Values& operands, const Types& results, bool is_gradient) {
  return results_of(make_node(
      kOpComposite, operands,
      with_types({{"_composite", std::make_shared<const Composite>(composite)}, {"_is_gradient", is_gradient}}, results)));
}

// As MLIR writes strings.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string layouts_text(const std::vector<Dims>& layouts) {
  std::string out;
  for (const Dims& layout : layouts) {
    out += fmt::format("{}dense<{}> : tensor<{}xindex>", out.empty() ? "" : ", ", to_string(layout), layout.size());
  }
  return "[" + out + "]";
}

// The gradient of a function of values at `operands`, written out here.
Values gradient_at(const std::function<Values(const Values&)>& function, const Values& operands, const Values& cotangents) {
  Values local;
  for (const Value v : operands) local.push_back(stop_gradient(v));
  Values out = vjp(function(local), cotangents, local);
  for (size_t i = 0; i < out.size(); ++i) {
    if (!out[i]) out[i] = zeros_like(operands[i]);
  }
  return out;
}

Values vjp_composite(const VjpArgs& a) {
  const Composite& composite = *a.node.attr<std::shared_ptr<const Composite>>("_composite");
  Values operands = a.node.operands, ct;
  for (size_t i = 0; i < a.ct.size(); ++i) ct.push_back(a.ct[i] ? a.ct[i] : zeros_like(a.y(i)));
  if (a.node.attr<bool>("_is_gradient")) {
    return gradient_at([&](const Values& x) { return composite.decompose(x); }, operands, ct);
  }
  const Types types = types_of(operands);
  const size_t count = operands.size();
  operands.insert(operands.end(), ct.begin(), ct.end());
  return make_composite(composite.gradient(count), operands, types, true);
}

}  // namespace

constinit const OpDef kOpCustomCall("stablehlo.custom_call", declared_types, refuse_gradient);
constinit const OpDef kOpComposite("tessera.composite", declared_types, vjp_composite);

Values ffi_call(const std::string& target, const Values& operands, const std::vector<TensorType>& results, AttrDict attributes,
                bool has_side_effect) {
  if (!current_scope().empty()) attributes.fields.emplace_back("scope", current_scope());
  Attrs attrs{{"call_target_name", target}, {"api_version", TextAttr{"4 : i32"}}, {"backend_config", std::move(attributes)}};
  if (has_side_effect) attrs["has_side_effect"] = true;
  return results_of(make_node(kOpCustomCall, operands, with_types(std::move(attrs), results)));
}

Values compiler_call(const std::string& target, const Values& operands, const std::vector<TensorType>& results,
                     const std::string& configuration, const std::vector<Dims>& layouts) {
  TESSERA_CHECK(layouts.size() == results.size(), "{} layouts of {} results", layouts.size(), results.size());
  std::vector<Dims> row_major;
  for (const Value v : operands) {
    Dims& layout = row_major.emplace_back(range(v.rank()));
    std::ranges::reverse(layout);
  }
  return results_of(make_node(kOpCustomCall, operands,
                              with_types({{"call_target_name", target},
                                          {"api_version", TextAttr{"2 : i32"}},
                                          {"backend_config", TextAttr{quoted(configuration)}},
                                          {"operand_layouts", TextAttr{layouts_text(row_major)}},
                                          {"result_layouts", TextAttr{layouts_text(layouts)}}},
                                         results)));
}

AttrDict call_attributes(const Node& call) {
  AttrDict attributes = call.attr<AttrDict>("backend_config");
  std::erase_if(attributes.fields, [](const auto& field) { return field.first == "scope"; });
  return attributes;
}

Composite Composite::gradient(size_t operands) const {
  Composite out = *this;
  out.name_ += "_gradient";
  const auto count = static_cast<std::ptrdiff_t>(operands);
  out.decomposition_ = [forward = decomposition_, count](const Values& v) {
    return gradient_at(forward, Values(v.begin(), v.begin() + count), Values(v.begin() + count, v.end()));
  };
  return out;
}

Values composite_node(const Composite& composite, const Values& operands) {
  Graph scratch;  // in which the decomposition says what types its results have
  Values parameters;
  for (const Value v : operands) {
    TESSERA_CHECK(is_float(v.dtype()), "composite {} of {}", composite.name(), to_string(v.type()));
    parameters.push_back(scratch.add_parameter(v.type()));
  }
  Types results;
  {
    const GraphScope scope(scratch);
    results = types_of(composite.decompose(parameters));
  }
  return make_composite(composite, operands, results, false);
}

Values composite(const Target* target, const Composite& composite, const Values& operands) {
  const bool taken = target && target->takes(composite, types_of(operands));
  return taken ? composite_node(composite, operands) : composite.decompose(operands);
}

}  // namespace tessera::ir
