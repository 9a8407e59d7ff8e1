#include "state/weight_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/text/json.h"
#include "checkpoint/formats/npz.h"
#include "checkpoint/formats/safetensors.h"
#include "checkpoint/formats/torch_file.h"
#include "state/hub_cache.h"
#include "store/checksums.h"
#include "store/file.h"
#include "store/small_file.h"

namespace tessera::state {
namespace {

constexpr std::string_view kSafetensors = ".safetensors", kNpz = ".npz", kShardIndex = ".safetensors.index.json";
// Of torch.save.
constexpr std::string_view kTorch[] = {".pth", ".pt", ".bin", ".pth.tar", ".ckpt"};

bool is_torch(const std::string& path) {
  return std::ranges::any_of(kTorch, [&](std::string_view ending) { return path.ends_with(ending); });
}

// What follows the scope in a name of torch's; nothing where it is not below it.
std::optional<std::string> below_scope(const std::string& name, const std::string& scope) {
  const std::string prefix = scope.empty() ? "" : scope + ".";
  return name.starts_with(prefix) ? std::optional(name.substr(prefix.size())) : std::nullopt;
}

void expect_arrays(const WeightPath& from, const WeightFile& out) {
  if (!out.arrays.empty()) return;
  throw data_error(
      from.scope.empty() ? "holds no arrays" : fmt::format("holds no array whose name begins with `{}.`", from.scope),
      from.path);
}

void to_timm_names(WeightFile& out) {
  out.naming = interop::naming_of(out.arrays);
  if (out.naming == interop::Naming::kTimm) return;
  out.owned = interop::to_timm_naming(out.arrays, out.naming, out.path);
  out.arrays = models::views(out.owned);
}

void read_torch_types(const WeightPath& from, WeightFile& out) {
  for (auto& [array, type] : checkpoint::torch_types(from.path)) {
    if (const auto name = below_scope(array, from.scope)) out.arrays[*name] = {type, {}};
  }
  expect_arrays(from, out);
  to_timm_names(out);
}

void read_torch_arrays(const WeightPath& from, WeightFile& out, const CheckTypes& check) {
  store::verify_checksum(store::local_files(), from.path);
  if (check) {
    WeightFile types;
    types.path = from.path;
    read_torch_types(from, types);
    check(types.arrays);
  }
  for (checkpoint::NpzArray& array : checkpoint::read_torch(from.path)) {
    if (const auto name = below_scope(array.name, from.scope)) out.owned[*name] = {array.type, std::move(array.data)};
  }
  out.arrays = models::views(out.owned);
  expect_arrays(from, out);
}

checkpoint::NpzFile open_npz(const WeightPath& from) {
  store::verify_checksum(store::local_files(), from.path);
  const std::string below = from.scope.empty() ? "" : from.scope + "/";
  return checkpoint::NpzFile(from.path, {"params/" + below, "opt/target/" + below, below});
}

void read_npz_types(const checkpoint::NpzFile& file, WeightFile& out) {
  for (const checkpoint::NpzFile::Entry& entry : file.entries()) out.arrays[entry.name] = {entry.type, {}};
  to_timm_names(out);
}

void read_npz_arrays(const WeightPath& from, WeightFile& out, const CheckTypes& check) {
  const checkpoint::NpzFile file = open_npz(from);
  WeightFile types;
  types.path = from.path;
  read_npz_types(file, types);
  if (check) check(types.arrays);
  for (const checkpoint::NpzFile::Entry& entry : file.entries()) {
    // Of other names than timm's what is no weight, as a step, is left out anyway.
    if (types.naming != interop::Naming::kTimm && !is_float(entry.type.dtype)) continue;
    checkpoint::NpzArray array = file.read(entry);
    out.owned[entry.name] = {std::move(array.type), std::move(array.data)};
  }
  out.arrays = models::views(out.owned);
}

// Of an index: for each file its arrays' names.
std::map<std::string, std::set<std::string>> read_index(const std::string& path) {
  store::verify_checksum(store::local_files(), path);
  const auto json = parse_json(store::read_small_file(store::local_files(), path), path);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    throw data_error("is no index of safetensors files: it has no `weight_map`", path);
  }
  std::map<std::string, std::set<std::string>> files;
  for (const auto& [array, file] : json["weight_map"].items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (!name.ends_with(kSafetensors) || name.find('/') != std::string::npos) {
      throw data_error(fmt::format("`{}` is in {}, which names no .safetensors file beside it", array, file.dump()), path);
    }
    files[name].insert(array);
  }
  return files;
}

// The arrays of one file that `wanted` names; all of them where it is null.
void read_safetensors_arrays(const std::string& path, const std::string& scope, const std::set<std::string>* wanted,
                             WeightFile& out) {
  store::verify_checksum(store::local_files(), path);
  const checkpoint::SafetensorsFile file = checkpoint::SafetensorsFile::open(path);
  size_t found = 0;
  for (const checkpoint::TensorView& tensor : file.tensors()) {
    if (wanted != nullptr && !wanted->contains(tensor.name)) continue;
    ++found;
    if (const auto name = below_scope(tensor.name, scope)) out.arrays[*name] = {tensor.type, tensor.data};
  }
  if (wanted != nullptr && found != wanted->size()) {
    throw data_error(fmt::format("holds {} of the {} arrays that the index says are in it", found, wanted->size()), path,
                     "copy all files of the model again");
  }
  out.files.push_back(file.bytes());
}

void read_safetensors(const WeightPath& from, WeightFile& out) {
  if (from.path.ends_with(kShardIndex)) {
    for (const auto& [name, arrays] : read_index(from.path)) {
      read_safetensors_arrays(store::join_path(store::parent_path(from.path), name), from.scope, &arrays, out);
    }
  } else {
    read_safetensors_arrays(from.path, from.scope, nullptr, out);
  }
  expect_arrays(from, out);
}

}  // namespace

void WeightFile::check() const {
  for (const store::Bytes& bytes : files) bytes.check();
}

WeightPath parse_weight_path(const std::string& text) {
  const size_t colon = text.rfind(':'), scheme = text.find("://");
  // Of a URL the colons of the scheme and of the port are no scope's.
  const size_t begin = scheme == std::string::npos ? 0 : text.find('/', scheme + 3);
  if (colon == std::string::npos || colon < begin) return {text, ""};
  if (scheme == std::string::npos && store::local_files().info(text)) return {text, ""};
  const std::string path = text.substr(0, colon);
  // Whoever looks for it says how it is named.
  if (!other_hub_name(text).empty() && !store::local_files().info(path)) return {text, ""};
  return {path, text.substr(colon + 1)};
}

bool is_weight_file(const std::string& path) {
  return path.ends_with(kSafetensors) || path.ends_with(kNpz) || path.ends_with(kShardIndex) || is_torch(path);
}

std::string weight_file_in(const std::string& directory) {
  for (const char* name : {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"}) {
    std::string path = store::join_path(directory, name);
    if (store::local_files().info(path)) return path;
  }
  return "";
}

WeightFile read_weight_file(const WeightPath& from, const CheckTypes& check) {
  WeightFile out;
  out.path = from.path;
  if (is_torch(from.path)) {
    read_torch_arrays(from, out, check);
  } else {
    from.path.ends_with(kNpz) ? read_npz_arrays(from, out, check) : read_safetensors(from, out);
  }
  to_timm_names(out);
  if (out.naming != interop::Naming::kTimm) {
    out.check();
    out.files.clear();
  }
  return out;
}

WeightFile read_weight_types(const WeightPath& from) {
  const bool torch = is_torch(from.path);
  if (!torch && !from.path.ends_with(kNpz)) return read_weight_file(from);
  WeightFile out;
  out.path = from.path;
  if (torch) {
    store::verify_checksum(store::local_files(), from.path);
    read_torch_types(from, out);
  } else {
    read_npz_types(open_npz(from), out);
  }
  return out;
}

}  // namespace tessera::state
