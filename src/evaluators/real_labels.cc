#include "evaluators/real_labels.h"

#include <fmt/format.h>

#include <charconv>

#include "base/text/json.h"
#include "store/file.h"
#include "store/servers/buckets.h"
#include "store/small_file.h"

namespace tessera::evaluators {
namespace {

using nlohmann::json;

// 292 of "n01440764/ILSVRC2012_val_00000293.JPEG".
std::optional<size_t> imagenet_place(const std::string& id) {
  constexpr std::string_view kPrefix = "ILSVRC2012_val_";
  const size_t at = id.rfind(kPrefix);
  if (at == std::string::npos) return std::nullopt;
  size_t number = 0;
  std::from_chars(id.data() + at + kPrefix.size(), id.data() + id.size(), number);
  return number > 0 ? std::optional(number - 1) : std::nullopt;
}

class RealLabels {
 public:
  RealLabels(const std::string& path, const config::Section& section, const EvaluatorData& available)
      : path_(path), section_(section), data_(available) {
    JsonResult read = read_json(store::read_small_file(store::files_at(path), path));
    if (!read.problem.empty()) section.fail("real", fmt::format("is `{}`, which is no JSON: {}", path, read.problem));
    file_ = std::move(read.value);
    if (!file_.is_array() && !file_.is_object()) {
      section.fail("real", fmt::format("is `{}`, which is no JSON list or table", path), "a list of classes for each image");
    }
  }

  std::vector<std::vector<int32_t>> read() const {
    std::vector<std::vector<int32_t>> labels;
    bool any = false;
    for (int64_t i = 0; i < data_.examples; ++i) {
      const json* entry = find(i);
      labels.push_back(entry ? classes(*entry, i) : std::vector<int32_t>());
      any = any || !labels.back().empty();
    }
    if (!any)
      section_.fail("real", fmt::format("is `{}`, which has a class for none of the images", path_), "is it of this data?");
    return labels;
  }

 private:
  const json* find(int64_t sample) const {
    const std::string id = data_.id(sample);
    if (file_.is_object()) {
      const auto found = file_.find(id.substr(id.rfind('/') + 1));
      return found == file_.end() ? nullptr : &*found;
    }
    const std::optional<size_t> place = imagenet_place(id);
    if (!place && static_cast<int64_t>(file_.size()) != data_.examples) {
      section_.fail("real", fmt::format("is `{}`, of {} images, and the data has {}", path_, file_.size(), data_.examples),
                    "a list goes by the order of the data, unless files are named ILSVRC2012_val_<number>");
    }
    const size_t at = place.value_or(static_cast<size_t>(sample));
    if (at >= file_.size())
      section_.fail("real", fmt::format("is `{}`, of {} images, and has none for `{}`", path_, file_.size(), id));
    return &file_[at];
  }

  std::vector<int32_t> classes(const json& entry, int64_t sample) const {
    std::vector<int32_t> out;
    for (const json& label : entry) {
      if (!entry.is_array() || !label.is_number_integer() || label < 0 || label >= data_.inputs.classes) {
        section_.fail("real", fmt::format("is `{}`, where `{}` has {}; the data has classes 0 to {}", path_, data_.id(sample),
                                          entry.dump(), data_.inputs.classes - 1));
      }
      out.push_back(label);
    }
    return out;
  }

  std::string path_;
  const config::Section& section_;
  const EvaluatorData& data_;
  json file_;
};

}  // namespace

std::vector<std::vector<int32_t>> read_real_labels(const std::string& path, const config::Section& section,
                                                   const EvaluatorData& available) {
  return RealLabels(path, section, available).read();
}

}  // namespace tessera::evaluators
