#include "train/weight_file.h"

#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/npz.h"
#include "checkpoint/safetensors.h"
#include "store/file.h"

namespace tessera::train {
namespace {

constexpr std::string_view kSafetensors = ".safetensors", kNpz = ".npz";

void read_npz_arrays(const WeightPath& from, WeightFile& out) {
  const std::string below = from.scope.empty() ? "" : from.scope + "/";
  for (checkpoint::NpzArray& array : checkpoint::read_npz(from.path, {"params/" + below, "opt/target/" + below, below})) {
    out.owned[array.name] = {array.type, std::move(array.data)};
  }
  out.arrays = models::views(out.owned);
}

void read_safetensors_arrays(const WeightPath& from, WeightFile& out) {
  const checkpoint::SafetensorsFile file = checkpoint::SafetensorsFile::open(from.path);
  const std::string prefix = from.scope.empty() ? "" : from.scope + ".";
  for (const checkpoint::TensorView& tensor : file.tensors()) {
    if (tensor.name.starts_with(prefix)) out.arrays[tensor.name.substr(prefix.size())] = {tensor.type, tensor.data};
  }
  if (out.arrays.empty()) throw data_error(fmt::format("holds no array whose name begins with `{}`", prefix), from.path);
  out.file = file.bytes();
}

}  // namespace

WeightPath parse_weight_path(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || store::local_files().info(text)) return {text, ""};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

bool is_weight_file(const std::string& path) { return path.ends_with(kSafetensors) || path.ends_with(kNpz); }

WeightFile read_weight_file(const WeightPath& from) {
  WeightFile out;
  out.path = from.path;
  from.path.ends_with(kNpz) ? read_npz_arrays(from, out) : read_safetensors_arrays(from, out);
  out.naming = models::naming_of(out.arrays);
  if (out.naming != models::Naming::kTimm) {
    out.owned = models::to_timm_naming(out.arrays, out.naming, from.path);
    out.arrays = models::views(out.owned);
    out.file = {};
  }
  return out;
}

}  // namespace tessera::train
