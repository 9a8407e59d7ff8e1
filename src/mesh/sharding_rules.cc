#include "mesh/sharding_rules.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/call.h"
#include "base/text/text.h"

namespace tessera::mesh {
namespace {

struct PresetRule {
  const char *pattern, *rule;
};
// Megatron's way: the first layer of each pair is split by columns, the second by rows, so that one sum ends the pair. A fused
// qkv kernel has three matrices side by side, which a cut by columns would mix up: it is split by rows, and gathered for use.
constexpr PresetRule kSplit[] = {
    {".*/(attn|cross)/(qkv|q|kv)/kernel", "fsdp(axis=fsdp+tensor)"},
    {".*/((attn|cross)/proj|mlp/fc2)/kernel", "tensor(0)"},
    {".*/mlp/fc1/(kernel|bias)", "tensor(-1)"},
    {".*", "fsdp()"},
};
constexpr PresetRule kTensorOnly[] = {
    {".*/(attn|cross)/(qkv|q|kv)/kernel", "fsdp(axis=tensor)"},
    {".*/((attn|cross)/proj|mlp/fc2)/kernel", "tensor(0, axis=_)"},
    {".*/mlp/fc1/(kernel|bias)", "tensor(-1, axis=_)"},
    {".*", "replicate"},
};

// "fsdp+tensor" -> its axes; "_" is none.
AxisNames parse_axes(std::string_view text, const Call& rule, const std::string& where) {
  AxisNames axes;
  if (trim(text) == "_") return axes;
  for (const std::string& part : split(text, '+')) {
    const std::string axis(trim(part));
    const auto& known = axis_names();
    if (std::find(known.begin(), known.end(), axis) == known.end()) {
      throw usage_error(fmt::format("`{}`: there is no mesh axis `{}`", rule.text, axis), where, suggest_name(axis, known));
    }
    axes.push_back(axis);
  }
  return axes;
}

AxisNames present(const Mesh& mesh, AxisNames axes) {
  std::erase_if(axes, [&](const std::string& axis) { return mesh.size(axis) == 1; });
  return axes;
}

// Shards of fewer rows are padded on a TPU, whose tiles have 8 rows.
constexpr int64_t kMinRows = 32;

// Splits a dimension that is still whole and that the axes divide. The first of them, where that leaves each device enough rows:
// arrays are row-major, so that devices gather the shards of a first dimension without a transposition (a step over 8 virtual
// devices takes 5 % less). Else the largest, the last one of equals, as big_vision.
void split_one(const Mesh& mesh, const Dims& dims, const AxisNames& axes, PartitionSpec& spec) {
  const int64_t count = parts(mesh, axes);
  size_t best = dims.size();
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!spec.dims[i].empty() || dims[i] % count != 0) continue;
    const bool first = best == dims.size();
    if (first || dims[i] >= dims[best]) best = i;
    if (first && dims[i] / count >= kMinRows) break;
  }
  if (best < dims.size()) spec.dims[best] = axes;
}

}  // namespace

ShardingRule ShardingRule::parse(std::string_view text, const std::string& where) {
  const Call call = parse_call(text, where);
  ShardingRule rule;
  rule.text_ = call.text;
  rule.where_ = where;
  if (call.name == "spec") {
    rule.kind_ = Kind::kSpec;
    for (const CallArg& arg : call.args) rule.spec_.dims.push_back(parse_axes(arg.value, call, where));
    return rule;
  }
  CallReader reader(call, where);
  if (call.name == "tensor") {
    rule.kind_ = Kind::kTensor;
    rule.dim_ = reader.integer("dim");
  } else if (call.name == "fsdp") {
    rule.kind_ = Kind::kFsdp;
  } else if (call.name != "replicate") {
    throw usage_error(fmt::format("there is no sharding rule `{}`", call.name), where,
                      suggest_name(call.name, {"replicate", "fsdp", "tensor", "spec"}));
  }
  if (rule.kind_ != Kind::kReplicate) {
    rule.axes_ = parse_axes(reader.text("axis", "fsdp"), call, where);
    rule.min_size_ = reader.integer("min_size", kMinShardedSize);
  }
  reader.finish();
  return rule;
}

PartitionSpec ShardingRule::spec_for(const Mesh& mesh, const std::string& name, const Dims& dims, bool stacked) const {
  const Dims block(dims.begin() + (stacked ? 1 : 0), dims.end());
  const auto rank = static_cast<int64_t>(block.size());
  const auto fail = [&](const std::string& message) {
    throw usage_error(fmt::format("`{}` does not fit `{}` {}: {}", text_, name, to_string(block), message), where_);
  };
  PartitionSpec spec;
  spec.dims.resize(block.size());
  if (kind_ == Kind::kSpec) {
    if (spec_.dims.size() > block.size()) fail(fmt::format("it has {} dimensions", rank));
    for (size_t i = 0; i < spec_.dims.size(); ++i) {
      spec.dims[i] = present(mesh, spec_.dims[i]);
      const int64_t count = parts(mesh, spec.dims[i]);
      if (block[i] % count != 0) fail(fmt::format("dimension {} is {}, which {} does not divide", i, block[i], count));
    }
  }
  if (kind_ == Kind::kTensor && mesh.size("tensor") > 1) {
    const int64_t dim = dim_ < 0 ? dim_ + rank : dim_;
    if (dim < 0 || dim >= rank) fail(fmt::format("it has {} dimensions", rank));
    const auto at = static_cast<size_t>(dim);
    if (block[at] % mesh.size("tensor") != 0) {
      fail(fmt::format("dimension {} is {}, and the mesh's tensor axis {}", dim, block[at], mesh.size("tensor")));
    }
    spec.dims[at] = {"tensor"};
  }
  const AxisNames axes = present(mesh, axes_);
  if (!axes.empty() && element_count(dims) >= min_size_) split_one(mesh, block, axes, spec);
  if (stacked) spec.dims.insert(spec.dims.begin(), AxisNames{});
  return spec;
}

ShardingRules::ShardingRules(const ShardingOptions& options, const std::string& where) {
  for (const std::string& line : options.rules) {
    const auto rule = split_rule(line);
    if (!rule) {
      throw usage_error(fmt::format("\"{}\" is not a sharding rule", line), where,
                        "write \"PATTERN = RULE\", for example \"params/head/.* = replicate\"");
    }
    rules_.rules.push_back({Pattern(rule->first, where), ShardingRule::parse(rule->second, where)});
  }
  own_ = rules_.rules.size();
  const auto add = [&](std::string_view prefix, const auto& preset) {
    for (const PresetRule& rule : preset) {
      rules_.rules.push_back({Pattern(std::string(prefix) + rule.pattern), ShardingRule::parse(rule.rule, where)});
    }
  };
  const std::vector<std::string> presets{"fully_sharded", "optimizer_only", "replicated"};
  if (options.preset == "optimizer_only") {
    add("params/", kTensorOnly);
    add("opt/", kSplit);
  } else if (options.preset == "fully_sharded") {
    add("", kSplit);
  } else if (options.preset == "replicated") {
    add("", kTensorOnly);
  } else {
    throw usage_error(fmt::format("there is no sharding preset `{}`", options.preset), where,
                      suggest_name(options.preset, presets));
  }
}

PartitionSpec ShardingRules::spec_for(const Mesh& mesh, const std::string& name, const Dims& dims, bool stacked) const {
  const ShardingRule* rule = rules_.find(name);
  return rule ? rule->spec_for(mesh, name, dims, stacked) : PartitionSpec{};
}

std::vector<std::string> ShardingRules::unmatched(const std::vector<std::string>& names) const {
  std::vector<std::string> messages;
  for (size_t i = 0; i < own_; ++i) {
    if (auto message = tessera::unmatched(rules_.rules[i].pattern, names, "array of the state")) messages.push_back(*message);
  }
  return messages;
}

}  // namespace tessera::mesh
