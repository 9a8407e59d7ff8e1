#include "models/timm_names.h"

#include <algorithm>

#include "base/error.h"

namespace tessera::models {
namespace {

std::string replace_suffix(const std::string& name, std::string_view from, std::string_view to) {
  return name.ends_with(from) ? name.substr(0, name.size() - from.size()) + std::string(to) : name;
}

TimmEntry make_entry(const nn::ParamSpec& spec) {
  TimmEntry entry{spec, spec.name, TimmLayout::kSame, spec.layer_dims(), spec.stacked ? spec.type.dims[0] : 0};
  std::string& name = entry.name;
  if (spec.stacked) name.insert(nn::block_at(name), "/{}");
  std::replace(name.begin(), name.end(), '/', '.');
  if (spec.name.ends_with("/kernel")) {
    const Dims ours = entry.dims;
    if (ours.size() == 4) entry.window = ours;
    entry.layout = TimmLayout::kMoved;
    entry.dims = {ours[ours.size() - 1], ours[ours.size() - 2]};
    entry.dims.insert(entry.dims.end(), ours.begin(), ours.end() - 2);
    name = replace_suffix(name, ".kernel", ".weight");
  }
  name = replace_suffix(name, ".scale", ".weight");
  if (name.ends_with("num_batches_tracked")) entry.layout = TimmLayout::kCount;
  return entry;
}

}  // namespace

std::vector<float> move_layout(const std::vector<float>& in, TimmLayout layout, const Dims& dims, bool to_timm) {
  if (layout != TimmLayout::kMoved) return in;
  const int64_t out_features = dims[0], in_features = dims[1];
  const int64_t window = element_count(dims) / (out_features * in_features);
  std::vector<float> out(in.size());
  for (int64_t o = 0; o < out_features; ++o) {
    for (int64_t i = 0; i < in_features; ++i) {
      for (int64_t w = 0; w < window; ++w) {
        const auto timms = static_cast<size_t>((o * in_features + i) * window + w);
        const auto ours = static_cast<size_t>((w * in_features + i) * out_features + o);
        to_timm ? out[timms] = in[ours] : out[ours] = in[timms];
      }
    }
  }
  return out;
}

std::string TimmEntry::timm_name(int64_t block) const {
  const size_t at = name.find("{}");
  return at == std::string::npos ? name : name.substr(0, at) + std::to_string(first_block + block) + name.substr(at + 2);
}

std::optional<std::string> main_norm(const std::string& name) {
  const std::string mark = "aux_bn";
  const size_t begin = name.find(mark);
  if (begin == std::string::npos) return std::nullopt;
  const size_t end = name.find_first_of("./", begin + mark.size() + 1);
  return name.substr(0, begin) + name.substr(end + 1);
}

std::vector<TimmEntry> timm_entries(const std::vector<nn::ParamSpec>& specs) {
  std::vector<TimmEntry> entries;
  for (const nn::ParamSpec& spec : specs) entries.push_back(make_entry(spec));
  return entries;
}

void flat_patches(TimmEntry& entry, const std::string& layer, int64_t patch, int64_t channels) {
  const bool kernel = entry.name == layer + ".weight";
  if (!kernel && entry.name != layer + ".bias") return;
  entry.name.insert(layer.size(), ".proj");
  if (kernel) entry.dims = {entry.dims[0], channels, patch, patch};
  if (kernel) entry.window = {patch, patch, channels, entry.dims[0]};
  entry.patches = kernel;
}

void first_of_stage(TimmEntry& entry, const std::string& parent) {
  for (const std::string& ours : {std::string(".first."), std::string(".blocks.{}.")}) {
    const size_t at = entry.name.find(ours);
    if (at == std::string::npos) continue;
    const bool first = ours == ".first.";
    entry.name.replace(at, ours.size(), fmt::format(".{}{}.", parent, first ? "0" : "{}"));
    if (!first) entry.first_block = 1;
    return;
  }
}

TimmMap own_map(const TimmMap& map) {
  TimmMap own = map;
  own.positions.clear();
  own.fixed_positions.clear();
  for (TimmEntry& entry : own.entries) {
    if (entry.name == map.positions) own.positions = entry.spec.name;
    entry.name = entry.spec.name;
    if (entry.spec.stacked) entry.name.insert(nn::block_at(entry.name), "/{}");
    entry.layout = TimmLayout::kSame;
    entry.dims = entry.spec.layer_dims();
    entry.first_block = 0;
  }
  return own;
}

}  // namespace tessera::models
