#include "models/timm_names.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/pattern.h"
#include "base/text.h"

namespace tessera::models {
namespace {

constexpr char kPositions[] = "pos_embed";

// Moves float elements from one layout to the other. `dims` are timm's.
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
    entry.layout = TimmLayout::kMoved;
    entry.dims = {ours[ours.size() - 1], ours[ours.size() - 2]};
    entry.dims.insert(entry.dims.end(), ours.begin(), ours.end() - 2);
    name = replace_suffix(name, ".kernel", ".weight");
  }
  name = replace_suffix(name, ".scale", ".weight");
  if (name.ends_with("num_batches_tracked")) entry.layout = TimmLayout::kCount;
  return entry;
}

// Gathers what does not fit, to report it at once.
class Importer {
 public:
  Importer(const TimmMap& map, const ArrayViews& file, const ImportOptions& options)
      : map_(map), file_(file), options_(options) {
    for (const std::string& text : options.dont_load) patterns_.emplace_back(text, "dont_load");
  }

  Imported run() {
    for (const TimmEntry& entry : map_.entries) {
      skipped(entry.spec.name) ? skip(entry) : load(entry);
    }
    if (!map_.fixed_positions.empty()) check_fixed();
    for (const auto& [name, array] : file_) {
      if (used_.contains(name)) continue;
      if (skipped(name))
        result_.notes.push_back(fmt::format("{} of the file is left out, as dont_load says", name));
      else
        unexpected_.push_back(fmt::format("{} {}", name, to_string(array.type)));
    }
    report();
    return std::move(result_);
  }

 private:
  bool skipped(const std::string& name) const {
    return std::any_of(patterns_.begin(), patterns_.end(), [&](const Pattern& p) { return p.matches(name); });
  }

  void skip(const TimmEntry& entry) {
    for (int64_t b = 0; b < std::max<int64_t>(entry.blocks, 1); ++b) used_.insert(entry.timm_name(b));
    result_.notes.push_back(fmt::format("{} keeps its initial value, as dont_load says", entry.spec.name));
  }

  void load(const TimmEntry& entry) {
    std::vector<float> all;
    all.reserve(static_cast<size_t>(element_count(entry.spec.type.dims)));
    for (int64_t b = 0; b < std::max<int64_t>(entry.blocks, 1); ++b) {
      const std::optional<std::vector<float>> one = read(entry, entry.timm_name(b));
      if (one) all.insert(all.end(), one->begin(), one->end());
    }
    if (static_cast<int64_t>(all.size()) != element_count(entry.spec.type.dims)) return;  // already on the lists
    result_.parameters[entry.spec.name] = array_f32(entry.spec.type.dims, all);
  }

  // One block's array in our layout, or nothing after noting what is wrong.
  std::optional<std::vector<float>> read(const TimmEntry& entry, const std::string& name) {
    const auto found = file_.find(name);
    if (found == file_.end()) {
      missing_.push_back(fmt::format("{} {}", name, to_string(entry.dims)));
      return {};
    }
    used_.insert(name);
    const TensorType& type = found->second.type;
    const bool counts = entry.layout == TimmLayout::kCount && type.dtype == DType::kI64;
    if (is_float(type.dtype) || counts) {
      if (type.dims == entry.dims) return move_layout(to_floats(found->second), entry.layout, entry.dims, false);
      if (name == kPositions) {
        if (auto moved = resampled(found->second)) return moved;
      }
    }
    misfit_.push_back(fmt::format("{} is {}, wanted {}", name, to_string(type), to_string(entry.dims)));
    return {};
  }

  std::optional<std::vector<float>> resampled(const ArrayView& array) {
    const Dims& dims = array.type.dims;
    const int64_t width = spec_width(), prefix = map_.position_prefix;
    if (dims.size() != 3 || dims[0] != 1 || dims[2] != width) return {};
    const int64_t places = dims[1] - prefix;
    Grid old = options_.old_grid;
    if (old.rows * old.columns == 0) {
      const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(std::max<int64_t>(places, 0)))));
      old = {side, side};
    }
    if (places < 1 || old.rows * old.columns != places) return {};
    const Grid now = {map_.rows, map_.columns};
    result_.notes.push_back(
        fmt::format("pos_embed is resampled from {} x {} to {} x {}", old.rows, old.columns, now.rows, now.columns));
    return resample_positions(to_floats(array), prefix, old, now, width, options_.resample);
  }

  int64_t spec_width() const {
    for (const TimmEntry& entry : map_.entries) {
      if (entry.name == kPositions) return entry.dims.back();
    }
    return 0;
  }

  void check_fixed() {
    const auto found = file_.find(kPositions);
    if (found == file_.end()) return;
    used_.insert(kPositions);
    const std::vector<float> values = is_float(found->second.type.dtype) ? to_floats(found->second) : std::vector<float>();
    bool same = values.size() == map_.fixed_positions.size();
    for (size_t i = 0; same && i < values.size(); ++i) same = std::abs(values[i] - map_.fixed_positions[i]) < 1e-4f;
    if (!same) misfit_.push_back("pos_embed differs from the fixed positions of posemb \"sincos2d\"");
  }

  static void list(std::string& text, const char* title, const std::vector<std::string>& names) {
    if (names.empty()) return;
    text += fmt::format("\n  {} ({}):", title, names.size());
    for (const std::string& name : names) text += "\n    " + name;
  }

  void report() const {
    if (missing_.empty() && unexpected_.empty() && misfit_.empty()) return;
    std::string text = "the weights don't fit the model";
    list(text, "missing in the file", missing_);
    list(text, "in the file, not in the model", unexpected_);
    list(text, "of another shape or kind", misfit_);
    throw data_error(
        text, options_.where,
        "change the model's options to match, or name what to leave at its initial value in dont_load, as patterns "
        "over the model's names: dont_load = [\"head/.*\"]");
  }

  const TimmMap& map_;
  const ArrayViews& file_;
  const ImportOptions& options_;
  std::vector<Pattern> patterns_;
  std::set<std::string> used_;
  std::vector<std::string> missing_, unexpected_, misfit_;
  Imported result_;
};

}  // namespace

std::string TimmEntry::timm_name(int64_t block) const {
  const size_t at = name.find("{}");
  return at == std::string::npos ? name : name.substr(0, at) + std::to_string(first_block + block) + name.substr(at + 2);
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

Arrays export_timm(const TimmMap& map, const ArrayViews& parameters) {
  Arrays out;
  for (const TimmEntry& entry : map.entries) {
    const auto found = parameters.find(entry.spec.name);
    TESSERA_CHECK(found != parameters.end(), "parameter {} is not given", entry.spec.name);
    TESSERA_CHECK(found->second.type == entry.spec.type, "parameter {} is {}, wanted {}", entry.spec.name,
                  to_string(found->second.type), to_string(entry.spec.type));
    const int64_t blocks = std::max<int64_t>(entry.blocks, 1);
    const size_t bytes = found->second.data.size() / static_cast<size_t>(blocks);
    for (int64_t b = 0; b < blocks; ++b) {
      const ArrayView one{{DType::kF32, entry.dims}, found->second.data.subspan(static_cast<size_t>(b) * bytes, bytes)};
      const std::vector<float> values = move_layout(to_floats(one), entry.layout, entry.dims, true);
      const bool counts = entry.layout == TimmLayout::kCount;
      out[entry.timm_name(b)] = counts ? array_i64(entry.dims, {values.begin(), values.end()}) : array_f32(entry.dims, values);
    }
  }
  if (!map.fixed_positions.empty()) {
    const int64_t places = map.rows * map.columns;
    out[kPositions] = array_f32({1, places, static_cast<int64_t>(map.fixed_positions.size()) / places}, map.fixed_positions);
  }
  return out;
}

Imported import_timm(const TimmMap& map, const ArrayViews& file, const ImportOptions& options) {
  return Importer(map, file, options).run();
}

}  // namespace tessera::models
