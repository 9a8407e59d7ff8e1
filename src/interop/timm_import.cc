#include "interop/timm_import.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/text/pattern.h"
#include "base/text/text.h"
#include "interop/nearest_model.h"
#include "interop/patches.h"

namespace tessera::interop {
namespace {

int64_t square_root(int64_t square) {
  return static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(std::max<int64_t>(square, 0)))));
}

// Gathers what does not fit, to report it at once.
class Importer {
 public:
  // `types_alone`: nothing is imported, the arrays have no data.
  Importer(const models::TimmMap& map, const models::ArrayViews& file, const ImportOptions& options, bool types_alone)
      : map_(map), file_(file), options_(options), types_alone_(types_alone) {
    for (const std::string& text : options.dont_load) patterns_.emplace_back(text, "dont_load");
    const auto first = std::ranges::find_if(map.entries, [](const models::TimmEntry& entry) { return !entry.window.empty(); });
    if (first != map.entries.end()) first_kernel_ = &*first;
    new_classifier_ = !options.new_classifier.empty() && classifier_differs();
  }

  Imported run() {
    check_patterns();
    for (const models::TimmEntry& entry : map_.entries) {
      if (skipped(entry.spec.name)) {
        keep(entry, "as dont_load says");
      } else if (new_classifier_ && of_classifier(entry)) {
        keep(entry, classifier_reason_);
      } else {
        load(entry);
      }
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

  // A pattern must match a parameter, or an array of the file.
  void check_patterns() const {
    std::vector<std::string> names;
    for (const models::TimmEntry& entry : map_.entries) names.push_back(entry.spec.name);
    for (const auto& [name, array] : file_) names.push_back(name);
    for (const Pattern& pattern : patterns_) {
      if (const auto message = unmatched(pattern, names, "parameter")) {
        throw usage_error(fmt::format("`dont_load`: {}", *message), options_.where);
      }
    }
  }

  bool of_classifier(const models::TimmEntry& entry) const {
    return std::ranges::any_of(options_.new_classifier,
                               [&](const std::string& head) { return entry.spec.name.starts_with(head + "/"); });
  }

  // Whether the file has no classifier, or one that differs from the model's in its classes alone.
  bool classifier_differs() {
    size_t missing = 0, entries = 0;
    for (const models::TimmEntry& entry : map_.entries) {
      if (!of_classifier(entry)) continue;
      ++entries;
      const auto found = file_.find(entry.name);
      if (found == file_.end()) {
        ++missing;
        continue;
      }
      // Classes are the bias's only dimension, and the kernel's last one here, the first there.
      const Dims& dims = found->second.type.dims;
      if (entry.dims.size() != 1 || dims.size() != 1 || dims == entry.dims) continue;
      classifier_reason_ = fmt::format("for the file has {} classes and the model {}", dims[0], entry.dims[0]);
      return true;
    }
    classifier_reason_ = "for the file has no classifier";
    return missing == entries && entries > 0;
  }

  void keep(const models::TimmEntry& entry, const std::string& reason) {
    for (int64_t b = 0; b < std::max<int64_t>(entry.blocks, 1); ++b) used_.insert(entry.timm_name(b));
    result_.notes.push_back(fmt::format("{} keeps its initial value, {}", entry.spec.name, reason));
    result_.kept.push_back(entry.spec.name);
  }

  void load(const models::TimmEntry& entry) {
    std::vector<float> all;
    if (!types_alone_) all.reserve(static_cast<size_t>(element_count(entry.spec.type.dims)));
    for (int64_t b = 0; b < std::max<int64_t>(entry.blocks, 1); ++b) {
      ++wanted_;
      const std::optional<std::vector<float>> one = read(entry, entry.timm_name(b));
      if (one) ++fitting_, all.insert(all.end(), one->begin(), one->end());
    }
    if (types_alone_ || static_cast<int64_t>(all.size()) != element_count(entry.spec.type.dims))
      return;  // already on the lists
    result_.parameters[entry.spec.name] = models::array_f32(entry.spec.type.dims, all);
  }

  // One block's array in our layout, empty where types alone are asked for, or nothing after noting what is wrong.
  std::optional<std::vector<float>> read(const models::TimmEntry& entry, const std::string& name) {
    const auto found = file_.find(name);
    if (const auto main = models::main_norm(name); main && found == file_.end()) return read(entry, *main);
    if (found == file_.end()) {
      missing_.push_back(fmt::format("{} {}", name, to_string(entry.dims)));
      return {};
    }
    used_.insert(name);
    const TensorType& type = found->second.type;
    const bool counts = entry.layout == models::TimmLayout::kCount && type.dtype == DType::kI64;
    if (is_float(type.dtype) || counts) {
      if (type.dims == entry.dims && types_alone_) return std::vector<float>();
      if (type.dims == entry.dims)
        return models::move_layout(models::to_floats(found->second), entry.layout, entry.dims, false);
      if (auto adapted = adapted_to_shape(entry, found->second)) return adapted;
    }
    misfit_.push_back(fmt::format("{} is {}, wanted {}", name, to_string(type), to_string(entry.dims)));
    return {};
  }

  std::optional<std::vector<float>> adapted_to_shape(const models::TimmEntry& entry, const models::ArrayView& array) {
    if (entry.name == map_.positions) return resampled_positions(entry, array);
    if (&entry == first_kernel_) return adapted_kernel(entry, array);
    return {};
  }

  // Positions [1, prefix + places, width] of another grid.
  std::optional<std::vector<float>> resampled_positions(const models::TimmEntry& entry, const models::ArrayView& array) {
    const Dims& dims = array.type.dims;
    const int64_t width = entry.dims.back(), prefix = map_.position_prefix;
    if (dims.size() != 3 || dims[0] != 1 || dims[2] != width) return {};
    const int64_t places = dims[1] - prefix;
    Grid old = options_.old_grid;
    if (old.rows * old.columns == 0) old = {square_root(places), square_root(places)};
    if (places < 1 || old.rows * old.columns != places) return {};
    if (types_alone_) return std::vector<float>();
    const Grid now = {map_.rows, map_.columns};
    result_.notes.push_back(
        fmt::format("{} is resampled from {} x {} to {} x {}", entry.name, old.rows, old.columns, now.rows, now.columns));
    return resample_positions(models::to_floats(array), prefix, old, now, width, options_.resample);
  }

  // The kernel that reads the image, of other patches or for RGB where the model has other channels.
  std::optional<std::vector<float>> adapted_kernel(const models::TimmEntry& entry, const models::ArrayView& array) {
    const std::optional<Dims> window = window_of(entry, array.type.dims);
    const Dims& wanted = entry.window;
    if (!window || window->back() != wanted.back()) return {};
    const int64_t side = wanted[0], old_side = (*window)[0], channels = wanted[2], old_channels = (*window)[2];
    const bool other_side = old_side != side || (*window)[1] != wanted[1];
    if (other_side && (!entry.patches || old_side != (*window)[1])) return {};
    if (old_channels != channels && old_channels != 3) return {};
    if (types_alone_) return std::vector<float>();
    std::vector<float> values = models::move_layout(models::to_floats(array), entry.layout, array.type.dims, false);
    if (other_side) {
      values = resample_patches(values, old_side, side, old_channels * wanted[3], options_.resample);
      result_.notes.push_back(fmt::format("{} is resampled from patches of {} to {}", entry.name, old_side, side));
    }
    if (old_channels != channels) {
      values = adapt_channels(values, side * wanted[1], channels, wanted[3]);
      result_.notes.push_back(fmt::format("{} is adapted from 3 channels to {}", entry.name, channels));
    }
    return values;
  }

  // [height, width, in, out] of a file's kernel; nothing where it is none.
  static std::optional<Dims> window_of(const models::TimmEntry& entry, const Dims& dims) {
    if (dims.size() == 4) return entry.layout == models::TimmLayout::kMoved ? Dims{dims[2], dims[3], dims[1], dims[0]} : dims;
    if (dims.size() != 2 || !entry.patches) return {};
    // Ours is flat: of the model's channels, or else of RGB.
    for (const int64_t channels : {entry.window[2], int64_t{3}}) {
      const int64_t side = square_root(dims[0] / channels);
      if (side > 0 && side * side * channels == dims[0]) return Dims{side, side, channels, dims[1]};
    }
    return {};
  }

  void check_fixed() {
    const auto found = file_.find(map_.positions);
    if (found == file_.end()) return;
    used_.insert(map_.positions);
    if (types_alone_ && is_float(found->second.type.dtype) &&
        element_count(found->second.type.dims) == static_cast<int64_t>(map_.fixed_positions.size())) {
      return;
    }
    const std::vector<float> values =
        is_float(found->second.type.dtype) && !types_alone_ ? models::to_floats(found->second) : std::vector<float>();
    bool same = values.size() == map_.fixed_positions.size();
    for (size_t i = 0; same && i < values.size(); ++i) same = std::abs(values[i] - map_.fixed_positions[i]) < 1e-4f;
    if (!same) misfit_.push_back(map_.positions + " differs from the fixed positions of posemb \"sincos2d\"");
  }

  static void list(std::string& text, const char* title, const std::vector<std::string>& names) {
    if (names.empty()) return;
    constexpr size_t kShown = 12;
    text += fmt::format("\n  {} ({}):", title, names.size());
    for (size_t i = 0; i < std::min(kShown, names.size()); ++i) text += "\n    " + names[i];
    if (names.size() > kShown) text += fmt::format("\n    and {} more", names.size() - kShown);
  }

  // The named model that the file is, or is more like than this one.
  std::string nearest() const {
    const std::optional<NearestModel> near = nearest_model(file_);
    if (!near || near->same <= fitting_) return "";
    return fmt::format("the file has {} of the {} arrays of model = {{ name = \"{}\", variant = \"{}\" }}: train that one, or ",
                       near->same, near->arrays, near->family, near->variant);
  }

  // As `tessera export --plain` writes them.
  bool has_own_names() const {
    return std::ranges::any_of(map_.entries, [&](const models::TimmEntry& entry) {
      return entry.spec.name != entry.name && file_.contains(entry.spec.name) && !used_.contains(entry.spec.name);
    });
  }

  void report() const {
    if (missing_.empty() && unexpected_.empty() && misfit_.empty()) return;
    std::string text = fmt::format("the weights don't fit the model: {} of its {} arrays do", fitting_, wanted_);
    list(text, "missing in the file", missing_);
    list(text, "in the file, not in the model", unexpected_);
    list(text, "of another shape or kind", misfit_);
    if (has_own_names())
      throw data_error(
          text, options_.where,
          "the file has Tessera's own names, which export --plain writes for other readers: name the run itself, or "
          "export it without --plain");
    throw data_error(text, options_.where,
                     nearest() +
                         "change the model's options to match, or name what to leave at its initial value in dont_load, as "
                         "patterns over the model's names: dont_load = [\"head/.*\"]");
  }

  const models::TimmMap& map_;
  const models::ArrayViews& file_;
  const ImportOptions& options_;
  std::vector<Pattern> patterns_;
  std::set<std::string> used_;
  std::vector<std::string> missing_, unexpected_, misfit_;
  size_t wanted_ = 0, fitting_ = 0;  // arrays of the model
  const models::TimmEntry* first_kernel_ = nullptr;
  bool new_classifier_ = false;
  std::string classifier_reason_;
  bool types_alone_;
  Imported result_;
};

}  // namespace

Imported import_timm(const models::TimmMap& map, const models::ArrayViews& file, const ImportOptions& options) {
  return Importer(map, file, options, false).run();
}

void check_timm_types(const models::TimmMap& map, const models::ArrayViews& types, const ImportOptions& options) {
  Importer(map, types, options, true).run();
}

}  // namespace tessera::interop
