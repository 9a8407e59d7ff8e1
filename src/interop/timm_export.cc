#include <algorithm>

#include "base/error.h"
#include "interop/timm_import.h"

namespace tessera::interop {

models::Arrays export_timm(const models::TimmMap& map, const models::ArrayViews& parameters) {
  models::Arrays out;
  for (const models::TimmEntry& entry : map.entries) {
    if (models::main_norm(entry.spec.name)) continue;  // the library's models have the main norms, which evaluate
    const auto found = parameters.find(entry.spec.name);
    TESSERA_CHECK(found != parameters.end(), "parameter {} is not given", entry.spec.name);
    TESSERA_CHECK(found->second.type == entry.spec.type, "parameter {} is {}, wanted {}", entry.spec.name,
                  to_string(found->second.type), to_string(entry.spec.type));
    const int64_t blocks = std::max<int64_t>(entry.blocks, 1);
    const size_t bytes = found->second.data.size() / static_cast<size_t>(blocks);
    for (int64_t b = 0; b < blocks; ++b) {
      const models::ArrayView one{{DType::kF32, entry.dims}, found->second.data.subspan(static_cast<size_t>(b) * bytes, bytes)};
      const std::vector<float> values = models::move_layout(models::to_floats(one), entry.layout, entry.dims, true);
      const bool counts = entry.layout == models::TimmLayout::kCount;
      out[entry.timm_name(b)] =
          counts ? models::array_i64(entry.dims, {values.begin(), values.end()}) : models::array_f32(entry.dims, values);
    }
  }
  if (!map.fixed_positions.empty()) {
    const int64_t places = map.rows * map.columns;
    out[map.positions] =
        models::array_f32({1, places, static_cast<int64_t>(map.fixed_positions.size()) / places}, map.fixed_positions);
  }
  return out;
}

}  // namespace tessera::interop
