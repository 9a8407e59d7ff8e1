#include "interop/nearest_model.h"

#include <algorithm>

#include "models/model.h"

namespace tessera::interop {
namespace {

bool may_hold(const models::ArrayViews& file, const models::Family& family) {
  const std::string first = family.first_conv;
  return !first.empty() && (file.contains(first + ".weight") || file.contains(first + ".0.weight"));
}

// Whether the array is of a layer that any number of classes may have.
bool is_of_head(const models::Model& model, const std::string& array) {
  const auto* classifier = model.classifier();
  if (classifier == nullptr) return false;
  return std::ranges::any_of(classifier->heads(), [&](const std::string& head) { return array.starts_with(head + "."); });
}

NearestModel compare(const models::ArrayViews& file, const models::Family& family, const models::NamedVariant& variant) {
  NearestModel result{family.name, variant.name};
  const std::unique_ptr<models::Model> model = variant.make();
  for (const models::TimmEntry& entry : model->timm_map().entries) {
    for (int64_t b = 0; b < std::max<int64_t>(entry.blocks, 1); ++b) {
      const auto found = file.find(entry.timm_name(b));
      ++result.arrays;
      if (found == file.end()) continue;
      result.same += found->second.type.dims == entry.dims || is_of_head(*model, entry.name) ? 1 : 0;
    }
  }
  return result;
}

}  // namespace

std::optional<NearestModel> nearest_model(const models::ArrayViews& file) {
  std::optional<NearestModel> best;
  double best_share = 0.5;
  for (const models::Family* family : models::families()) {
    if (!may_hold(file, *family)) continue;
    for (const models::NamedVariant& variant : models::named_variants(*family)) {
      const NearestModel one = compare(file, *family, variant);
      const double share = static_cast<double>(one.same) / static_cast<double>(file.size() + one.arrays - one.same);
      if (share <= best_share) continue;
      best_share = share;
      best = one;
    }
  }
  return best;
}

}  // namespace tessera::interop
