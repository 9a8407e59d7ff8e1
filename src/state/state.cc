#include "state/state.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera::state {
namespace {

constexpr size_t kListed = 10;  // misfits named in one error

StateEntry make_entry(const std::string& prefix, const std::string& param, const TensorType& type, bool stacked) {
  StateEntry entry;
  entry.name = prefix + param;
  entry.type = type;
  if (stacked) entry.block_at = prefix.size() + nn::block_at(param);
  return entry;
}

// What does not fit between a layout and the arrays of a file.
class Misfits {
 public:
  void missing(const std::string& name, const std::vector<std::string>& candidates) {
    std::string line = fmt::format("missing      {}", name);
    if (const auto near = nearest_name(name, candidates); near && *near != name)
      line += fmt::format("  (there is `{}`)", *near);
    add(std::move(line));
  }
  void shape(const std::string& name, const TensorType& wanted, const TensorType& found) {
    add(fmt::format("wrong shape  {}: {} is needed, {} is there", name, to_string(wanted), to_string(found)));
  }
  void unknown(const std::string& name) { add(fmt::format("unknown      {}", name)); }
  bool any() const { return count_ > 0; }
  [[noreturn]] void fail(const std::string& what, const std::string& where, const std::string& help) const {
    std::string text = fmt::format("{} ({} misfit{})", what, count_, count_ == 1 ? "" : "s");
    for (const std::string& line : lines_) text += "\n  " + line;
    if (count_ > lines_.size()) text += fmt::format("\n  and {} more", count_ - lines_.size());
    throw data_error(text, where, help);
  }

 private:
  void add(std::string line) {
    if (count_++ < kListed) lines_.push_back(std::move(line));
  }
  size_t count_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace

std::string param_name(const StateEntry& entry) { return entry.name.substr(std::string_view("params/").size()); }

std::string StateEntry::part_name(int64_t part) const {
  return stacked() ? fmt::format("{}/{}{}", name.substr(0, block_at), part, name.substr(block_at)) : name;
}

TensorType StateEntry::part_type() const {
  return stacked() ? TensorType{type.dtype, Dims(type.dims.begin() + 1, type.dims.end())} : type;
}

int64_t StateLayout::param_count() const {
  int64_t count = 0;
  for (size_t i = 0; i < params; ++i) count += entries[i].trained ? element_count(entries[i].type.dims) : 0;
  return count;
}

int64_t StateLayout::bytes() const {
  int64_t total = 0;
  for (const StateEntry& entry : entries) total += byte_count(entry.type);
  return total;
}

StateLayout param_layout(const std::vector<nn::ParamSpec>& specs) {
  StateLayout layout;
  for (const nn::ParamSpec& spec : specs) {
    layout.entries.push_back(make_entry("params/", spec.name, spec.type, spec.stacked));
    layout.entries.back().trained = spec.trained;
  }
  layout.params = specs.size();
  return layout;
}

StateLayout state_layout(const std::vector<nn::ParamSpec>& specs, const optim::Optimizer& optimizer, bool averaged,
                         bool guarded) {
  StateLayout layout = param_layout(specs);
  std::map<std::string, const nn::ParamSpec*> by_name;
  for (const nn::ParamSpec& spec : specs) by_name[spec.name] = &spec;
  for (const optim::Param& slot : optimizer.slots()) {
    const size_t kind = slot.name.find('/') + 1;
    const std::string param = slot.name.substr(kind);
    layout.entries.push_back(make_entry("opt/" + slot.name.substr(0, kind), param, slot.type, slot.stacked));
    const Dims& dims = by_name.at(param)->type.dims;
    if (slot.type.dims != dims) layout.entries.back().like = dims;
  }
  layout.slots = optimizer.slots().size();
  layout.entries.push_back(make_entry("", "step", {DType::kI32, {}}, false));
  layout.entries.push_back(make_entry("", "rng", {DType::kU32, {2}}, false));
  if (averaged) {
    for (const nn::ParamSpec& spec : specs) {
      layout.entries.push_back(make_entry(std::string(kAverages), spec.name, spec.type, spec.stacked));
    }
    layout.averages = specs.size();
  }
  layout.lr_scale = optimizer.schedule().plateau().has_value();
  if (layout.lr_scale) layout.entries.push_back(make_entry("", "lr_scale", {DType::kF32, {}}, false));
  layout.guard = guarded;
  if (guarded) layout.entries.push_back(make_entry("", std::string(kGuard), {DType::kF32, {kGuardValues}}, false));
  return layout;
}

int64_t StateLayout::shard_bytes() const {
  int64_t total = 0;
  for (size_t i = 0; i < entries.size(); ++i) total += byte_count(shard_type(i));
  return total;
}

TensorType StateLayout::shard_type(size_t entry) const {
  const StateEntry& e = entries[entry];
  return {e.type.dtype, mesh::shard_dims(mesh, e.type.dims, e.spec)};
}

std::vector<mesh::PartitionSpec> StateLayout::specs(size_t count) const {
  std::vector<mesh::PartitionSpec> specs;
  for (size_t i = 0; i < count; ++i) specs.push_back(entries[i].spec);
  return specs;
}

void lay_out(StateLayout& layout, const mesh::Mesh& mesh, const mesh::ShardingOptions& options) {
  const mesh::ShardingRules rules(options, "sharding");
  layout.mesh = mesh;
  layout.reshard = options.reshard;
  layout.reduce_f32 = options.reduce == "f32";
  for (StateEntry& entry : layout.entries) {
    const Dims& dims = entry.like.empty() ? entry.type.dims : entry.like;
    entry.spec = rules.spec_for(mesh, entry.name, dims, entry.stacked());
    for (size_t i = 0; i < entry.spec.dims.size(); ++i) {
      if (entry.type.dims[i] != dims[i]) entry.spec.dims[i] = {};
    }
  }
  // Evaluated by the programs that evaluate parameters.
  for (size_t i = 0; i < layout.averages; ++i) layout.entries[layout.average_index() + i].spec = layout.entries[i].spec;
}

nn::Sharding sharding_of(const StateLayout& layout) {
  nn::Sharding sharding{layout.mesh, {}, layout.reshard, layout.reduce_f32};
  for (size_t i = 0; i < layout.params; ++i) sharding.params[param_name(layout.entries[i])] = layout.entries[i].spec;
  return sharding;
}

std::vector<checkpoint::HostTensor> split_blocks(const StateEntry& entry, const Placed& box, const store::Bytes& bytes) {
  const auto skip = entry.stacked() ? 1 : 0;
  const Placed of_part{Dims(box.dims.begin() + skip, box.dims.end()), Dims(box.offset.begin() + skip, box.offset.end())};
  const std::optional<Placed> slice = of_part.dims == entry.part_type().dims ? std::nullopt : std::optional(of_part);
  const auto size = static_cast<size_t>(byte_count({entry.type.dtype, of_part.dims}));
  const int64_t first = entry.stacked() ? box.offset[0] : 0, count = entry.stacked() ? box.dims[0] : 1;
  std::vector<checkpoint::HostTensor> tensors;
  for (int64_t i = 0; i < count; ++i) {
    const auto part = bytes.data.subspan(static_cast<size_t>(i) * size, size);
    tensors.push_back({entry.part_name(first + i), entry.part_type(), {bytes.owner, part}, slice});
  }
  return tensors;
}

std::vector<checkpoint::HostTensor> split_blocks(const StateLayout& layout, const HostArrays& arrays) {
  std::vector<checkpoint::HostTensor> tensors;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const StateEntry& entry = layout.entries[i];
    const Placed whole = whole_box(entry.type.dims);
    for (checkpoint::HostTensor& tensor : split_blocks(entry, whole, arrays[i])) tensors.push_back(std::move(tensor));
  }
  return tensors;
}

void check_arrays(const StateLayout& layout, const checkpoint::StoredArrays& stored, const std::string& where) {
  std::vector<std::string> names;
  for (const auto& [name, array] : stored) names.push_back(name);
  std::set<std::string> unused(names.begin(), names.end());
  Misfits misfits;
  for (const StateEntry& entry : layout.entries) {
    const TensorType type = entry.part_type();
    for (int64_t part = 0; part < entry.parts(); ++part) {
      const std::string name = entry.part_name(part);
      const auto found = stored.find(name);
      if (found == stored.end()) {
        if (name != kGuard) misfits.missing(name, names);
      } else if (found->second.type != type) {
        misfits.shape(name, type, found->second.type);
      }
      unused.erase(name);
    }
  }
  unused.erase(std::string(kGuard));
  for (const std::string& name : unused) misfits.unknown(name);
  if (misfits.any()) {
    misfits.fail(
        "the checkpoint does not fit this model and optimizer", where,
        "go on with the model and the optimizer that wrote it; `model_init.from` begins a new run with its weights alone");
  }
}

void read_entry(const StateEntry& entry, const checkpoint::StoredArrays& stored, const Placed& box, std::byte* out) {
  if (entry.name == kGuard && !stored.contains(entry.name)) {
    std::fill_n(out, byte_count({entry.type.dtype, box.dims}), std::byte{0});
    return;
  }
  if (!entry.stacked()) return stored.find(entry.name)->second.read(box, out);
  const Placed block{Dims(box.dims.begin() + 1, box.dims.end()), Dims(box.offset.begin() + 1, box.offset.end())};
  const int64_t bytes = byte_count({entry.type.dtype, block.dims});
  for (int64_t i = 0; i < box.dims[0]; ++i) {
    stored.find(entry.part_name(box.offset[0] + i))->second.read(block, out + i * bytes);
  }
}

Moments moments_of(const store::Bytes& bytes) {
  const size_t count = bytes.size() / sizeof(float);
  const auto at = [&](size_t i) {
    float value;
    std::memcpy(&value, bytes.data.data() + i * sizeof(float), sizeof(float));
    return static_cast<double>(value);
  };
  Moments m;
  for (size_t i = 0; i < count; ++i) m.mean += at(i);
  m.mean /= static_cast<double>(count);
  for (size_t i = 0; i < count; ++i) m.deviation += (at(i) - m.mean) * (at(i) - m.mean);
  m.deviation = std::sqrt(m.deviation / static_cast<double>(count));
  return m;
}

std::string parameter_summary(const StateLayout& layout) {
  const auto bytes = [](int64_t n) { return human_bytes(static_cast<double>(n)); };
  const std::string share =
      layout.sharded() ? fmt::format(", {} on each of {} devices", bytes(layout.shard_bytes()), layout.devices()) : "";
  return fmt::format("{} parameters in {} arrays, {} of state{}", human_count(layout.param_count()), layout.params,
                     bytes(layout.bytes()), share);
}

std::string parameter_table(const StateLayout& layout, const std::vector<Moments>& moments) {
  size_t name_width = 4, shape_width = 5, size_width = 4, place_width = 4;
  struct Row {
    std::string name, shape, size, place;
  };
  std::vector<Row> rows;
  for (size_t i = 0; i < layout.params; ++i) {
    const StateEntry& entry = layout.entries[i];
    rows.push_back(
        {param_name(entry), to_string(entry.type.dims), human_count(element_count(entry.type.dims)), entry.spec.text()});
    name_width = std::max(name_width, rows.back().name.size());
    shape_width = std::max(shape_width, rows.back().shape.size());
    size_width = std::max(size_width, rows.back().size.size());
    place_width = std::max(place_width, rows.back().place.size());
  }
  const auto place = [&](const std::string& text) {
    return layout.sharded() ? fmt::format("  {:<{}}", text, place_width) : std::string();
  };
  std::string table = fmt::format("{:<{}}  {:<{}}  {:>{}}{}       mean    std\n", "name", name_width, "shape", shape_width,
                                  "size", size_width, place("mesh"));
  for (size_t i = 0; i < rows.size(); ++i) {
    table += fmt::format("{:<{}}  {:<{}}  {:>{}}{}  {:>+9.4f}  {:.4f}\n", rows[i].name, name_width, rows[i].shape, shape_width,
                         rows[i].size, size_width, place(rows[i].place), moments[i].mean, moments[i].deviation);
  }
  return table + parameter_summary(layout);
}

}  // namespace tessera::state
