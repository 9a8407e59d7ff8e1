#include "ir/program/emit.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>

#include "base/error.h"
#include "ir/op_entries.h"
#include "ir/sharding.h"

namespace tessera::ir {
namespace {

std::string_view mlir_dtype(DType dtype) {
  switch (dtype) {
    case DType::kBool: return "i1";
    case DType::kU8: return "ui8";
    case DType::kU16: return "ui16";
    case DType::kU32: return "ui32";
    case DType::kU64: return "ui64";
    default: return dtype_name(dtype);
  }
}

std::string list(const Dims& dims) { return to_string(dims); }

// ---- literals

template <class T>
T read(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof(T));
  return v;
}

std::string float_text(double value, int digits, uint64_t bits, int hex_digits) {
  if (!std::isfinite(value)) return fmt::format("0x{:0{}X}", bits, hex_digits);
  return fmt::format("{:.{}e}", value, digits);
}

std::string element_text(DType dtype, const std::byte* p) {
  switch (dtype) {
    case DType::kBool: return read<uint8_t>(p) ? "true" : "false";
    case DType::kI8: return fmt::format("{}", read<int8_t>(p));
    case DType::kI16: return fmt::format("{}", read<int16_t>(p));
    case DType::kI32: return fmt::format("{}", read<int32_t>(p));
    case DType::kI64: return fmt::format("{}", read<int64_t>(p));
    case DType::kU8: return fmt::format("{}", read<uint8_t>(p));
    case DType::kU16: return fmt::format("{}", read<uint16_t>(p));
    case DType::kU32: return fmt::format("{}", read<uint32_t>(p));
    case DType::kU64: return fmt::format("{}", read<uint64_t>(p));
    case DType::kBF16:
    case DType::kF16: return fmt::format("0x{:04X}", read<uint16_t>(p));
    case DType::kF32: return float_text(read<float>(p), 8, read<uint32_t>(p), 8);
    case DType::kF64: return float_text(read<double>(p), 16, read<uint64_t>(p), 16);
  }
  TESSERA_CHECK(false);
}

std::string literal_text(const Literal& literal, const TensorType& type) {
  const auto size = static_cast<size_t>(element_bytes(type.dtype));
  const size_t count = literal.bytes.size() / size;
  std::string body;
  if (element_count(type.dims) == 0) {
    body = "";
  } else if (count == 1) {
    body = element_text(type.dtype, literal.bytes.data());
  } else if (type.dtype == DType::kBool) {
    TESSERA_CHECK(type.rank() == 1, "bool array constants are vectors");
    for (size_t i = 0; i < count; ++i) body += fmt::format("{}{}", i ? ", " : "", element_text(type.dtype, &literal.bytes[i]));
    body = "[" + body + "]";
  } else {
    static_assert(std::endian::native == std::endian::little, "raw dense literals are little-endian");
    body = "\"0x";
    for (const std::byte b : literal.bytes) fmt::format_to(std::back_inserter(body), "{:02X}", static_cast<unsigned>(b));
    body += '"';
  }
  return fmt::format("dense<{}> : {}", body, mlir_type(type));
}

// ---- attributes

std::string conv_part(std::string_view a, int64_t at_a, std::string_view b, int64_t at_b, const Dims& spatial) {
  std::vector<std::string> names(spatial.size() + 2);
  names[static_cast<size_t>(at_a)] = a;
  names[static_cast<size_t>(at_b)] = b;
  for (size_t i = 0; i < spatial.size(); ++i) names[static_cast<size_t>(spatial[i])] = std::to_string(i);
  return fmt::format("[{}]", fmt::join(names, ", "));
}

struct AttrText {
  const Node& node;

  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(int64_t v) const { return fmt::format("{} : i64", v); }
  std::string operator()(double v) const { return fmt::format("{:.16e} : f64", v); }
  std::string operator()(const std::string& v) const { return fmt::format("\"{}\"", v); }
  std::string operator()(const Dims& v) const {
    return v.empty() ? "array<i64>" : fmt::format("array<i64: {}>", fmt::join(v, ", "));
  }
  std::string operator()(const EnumAttr& v) const { return fmt::format("#stablehlo<{} {}>", v.kind, v.value); }
  std::string operator()(const TextAttr& v) const { return v.text; }
  std::string operator()(const DotDims& v) const {
    return fmt::format(
        "#stablehlo.dot<lhs_batching_dimensions = {}, rhs_batching_dimensions = {}, lhs_contracting_dimensions = {}, "
        "rhs_contracting_dimensions = {}>",
        list(v.lhs_batch), list(v.rhs_batch), list(v.lhs_contract), list(v.rhs_contract));
  }
  std::string operator()(const ConvDims& v) const {
    return fmt::format("#stablehlo.conv<{}x{}->{}>", conv_part("b", v.input_batch, "f", v.input_feature, v.input_spatial),
                       conv_part("i", v.kernel_input_feature, "o", v.kernel_output_feature, v.kernel_spatial),
                       conv_part("b", v.output_batch, "f", v.output_feature, v.output_spatial));
  }
  std::string operator()(const GatherDims& v) const {
    return fmt::format(
        "#stablehlo.gather<offset_dims = {}, collapsed_slice_dims = {}, operand_batching_dims = {}, "
        "start_indices_batching_dims = {}, "
        "start_index_map = {}, index_vector_dim = {}>",
        list(v.offset_dims), list(v.collapsed_slice_dims), list(v.operand_batching_dims), list(v.start_indices_batching_dims),
        list(v.start_index_map), v.index_vector_dim);
  }
  std::string operator()(const ScatterDims& v) const {
    return fmt::format(
        "#stablehlo.scatter<update_window_dims = {}, inserted_window_dims = {}, input_batching_dims = {}, "
        "scatter_indices_batching_dims = {}, "
        "scatter_dims_to_operand_dims = {}, index_vector_dim = {}>",
        list(v.update_window_dims), list(v.inserted_window_dims), list(v.input_batching_dims),
        list(v.scatter_indices_batching_dims), list(v.scatter_dims_to_operand_dims), v.index_vector_dim);
  }
  std::string operator()(const PairsAttr& v) const {
    std::string rows;
    for (const auto& [lo, hi] : v.pairs) rows += fmt::format("{}[{}, {}]", rows.empty() ? "" : ", ", lo, hi);
    return v.pairs.empty() ? "dense<> : tensor<0x2xi64>" : fmt::format("dense<[{}]> : tensor<{}x2xi64>", rows, v.pairs.size());
  }
  std::string operator()(const Literal& v) const { return literal_text(v, node.types[0]); }
  std::string operator()(const AttrDict& v) const {
    std::string fields;
    for (const auto& [name, value] : v.fields) {
      fields += fmt::format("{}{} = {}", fields.empty() ? "" : ", ", name, std::visit(*this, value));
    }
    return "{" + fields + "}";
  }
  std::string operator()(const std::shared_ptr<const CustomVjp>&) const { TESSERA_CHECK(false); }
  std::string operator()(const std::shared_ptr<const Composite>&) const { TESSERA_CHECK(false); }
};

// ---- the module

class Printer {
 public:
  std::string module(const Graph& graph, const EmitOptions& options) {
    sharded_ = options.mesh.has_value();
    append("module @{} attributes {{mhlo.num_partitions = {} : i32, mhlo.num_replicas = 1 : i32}} {{\n", options.name,
           options.mesh ? options.mesh->devices() : 1);
    if (options.mesh) append("  {}\n", mesh_text(*options.mesh));
    append("  func.func public @main(");
    const std::map<int64_t, int64_t> alias(options.aliases.begin(), options.aliases.end());
    for (size_t i = 0; i < graph.parameters().size(); ++i) {
      const Value p = graph.parameters()[i];
      names_[p] = fmt::format("%arg{}", i);
      std::vector<std::string> attrs = sharding_attr(options, options.argument_specs, i, p);
      if (const auto it = alias.find(static_cast<int64_t>(i)); it != alias.end()) {
        attrs.push_back(fmt::format("tf.aliasing_output = {} : i32", it->second));
      }
      append("{}{}: {}{}{}", i ? ", " : "", names_[p], mlir_type(p.type()), attr_dict(attrs), location(parameter_name(p)));
    }
    append(") -> (");
    for (size_t i = 0; i < graph.results.size(); ++i) {
      const Value r = graph.results[i];
      append("{}{}{}", i ? ", " : "", mlir_type(r.type()), attr_dict(sharding_attr(options, options.result_specs, i, r)));
    }
    append(") {{\n");
    body(graph, "    ");
    append("    func.return {} : {}\n", names(graph.results), types(graph.results));
    append("  }}\n}}\n");
    return std::move(out_);
  }

 private:
  template <class... Args>
  void append(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  static std::vector<std::string> sharding_attr(const EmitOptions& options, const std::vector<mesh::PartitionSpec>& specs,
                                                size_t index, Value value) {
    if (!options.mesh) return {};
    const mesh::PartitionSpec spec = specs.empty() ? mesh::PartitionSpec{} : specs.at(index);
    return {"sdy.sharding = " + sharding_text(spec, value.rank())};
  }

  // "blocks/attn/qkv/dot_general"; what belongs to no part of the model has no name.
  static std::string operation_name(const Node& n) {
    const std::string op = n.op->name;
    return n.scope->empty() ? std::string() : *n.scope + "/" + op.substr(op.rfind('.') + 1);
  }

  static std::string location(const std::string& name) {
    if (name.empty()) return {};
    TESSERA_CHECK(name.find_first_of("\"\\\n") == std::string::npos, "`{}` can't be written as a location", name);
    return fmt::format(" loc(\"{}\")", name);
  }

  static std::string attr_dict(const std::vector<std::string>& attrs) {
    return attrs.empty() ? "" : fmt::format(" {{{}}}", fmt::join(attrs, ", "));
  }

  std::string names(const Values& values) const {
    std::string s;
    for (const Value v : values) s += fmt::format("{}{}", s.empty() ? "" : ", ", names_.at(v));
    return s;
  }

  static std::string types(const Values& values) {
    std::string s;
    for (const Value v : values) s += fmt::format("{}{}", s.empty() ? "" : ", ", mlir_type(v.type()));
    return s;
  }

  void body(const Graph& graph, const std::string& indent) {
    for (Node* n : reachable_nodes(graph)) {
      if (n->op != &kOpParameter) node(*n, indent);
    }
  }

  void node(Node& n, const std::string& indent) {
    if (n.op == &kOpShardingConstraint && !sharded_) {  // on one device it says nothing
      names_[n.result()] = names_.at(n.operands[0]);
      return;
    }
    const int id = next_++;
    const int results = static_cast<int>(n.types.size());
    for (int i = 0; i < results; ++i)
      names_[n.result(i)] = results == 1 ? fmt::format("%{}", id) : fmt::format("%{}#{}", id, i);
    append("{}%{}{} = \"{}\"({})", indent, id, results == 1 ? "" : fmt::format(":{}", results), n.op->name, names(n.operands));
    regions(n, indent);
    std::string attrs;
    for (const auto& [name, value] : n.attrs) {
      if (name[0] != '_') attrs += fmt::format("{}{} = {}", attrs.empty() ? "" : ", ", name, std::visit(AttrText{n}, value));
    }
    if (!attrs.empty()) append(" {{{}}}", attrs);
    std::string result_types;
    for (const TensorType& t : n.types) result_types += fmt::format("{}{}", result_types.empty() ? "" : ", ", mlir_type(t));
    append(" : ({}) -> ({}){}\n", types(n.operands), result_types, location(operation_name(n)));
  }

  void regions(Node& n, const std::string& indent) {
    if (n.regions.empty()) return;
    const std::string inner = indent + "  ";
    append(" (");
    for (size_t r = 0; r < n.regions.size(); ++r) {
      const Graph& region = *n.regions[r];
      append("{}{{\n", r ? ", " : "");
      append("{}^bb0(", indent);
      for (size_t i = 0; i < region.parameters().size(); ++i) {
        names_[region.parameters()[i]] = fmt::format("%{}", next_++);
        append("{}{}: {}", i ? ", " : "", names_[region.parameters()[i]], mlir_type(region.parameters()[i].type()));
      }
      append("):\n");
      body(region, inner);
      append("{}\"{}\"({}) : ({}) -> ()\n{}}}", inner, n.op == &kOpManualComputation ? "sdy.return" : "stablehlo.return",
             names(region.results), types(region.results), indent);
    }
    append(")");
  }

  std::string out_;
  std::map<Value, std::string> names_;
  bool sharded_ = false;
  int next_ = 0;
};

}  // namespace

std::string mlir_type(const TensorType& type) {
  std::string s = "tensor<";
  for (const int64_t d : type.dims) s += fmt::format("{}x", d);
  return s + std::string(mlir_dtype(type.dtype)) + ">";
}

std::string emit(const Graph& graph, const EmitOptions& options) { return Printer().module(graph, options); }

}  // namespace tessera::ir
