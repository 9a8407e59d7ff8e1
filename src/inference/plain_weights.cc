#include "inference/plain_weights.h"

#include <fmt/format.h>

#include "base/error.h"

namespace tessera::inference {

std::string write_plain_weights(const std::string& from, const std::string& path, state::Weights weights, Existing existing) {
  store::FileSystem& files = store::local_files();
  const auto there = files.info(path);
  if (!path.ends_with(".safetensors") || (there && there->directory)) {
    throw usage_error(fmt::format("`{}` does not name a .safetensors file", path), "--to", "name one, as weights.safetensors");
  }
  // Whose an export that has a record is can be told only with the checkpoint.
  if (export_record_at(files, path).empty()) check_export_file(files, path, existing);
  const checkpoint::LoadedCheckpoint loaded = state::open_checkpoint(from);
  const std::string_view prefix = state::prefix_of(weights, loaded);
  std::vector<NamedType> types;
  std::vector<const checkpoint::StoredArray*> arrays;
  for (const auto& [name, array] : loaded.arrays) {
    if (!name.starts_with(prefix)) continue;
    types.push_back({name.substr(prefix.size()), array.type});
    arrays.push_back(&array);
  }
  const auto data_of = [&](size_t i) { return checkpoint::whole_bytes(*arrays[i]); };
  const checkpoint::Metadata metadata{{"format", "tessera"}, {"step", std::to_string(loaded.step)}};
  const auto write = [&](const std::string& temporary) {
    checkpoint::write_safetensors(files, temporary, types, data_of, metadata);
    loaded.check();
  };
  write_export_file(files, path, existing, write, export_record(loaded.run, "plain", weights, loaded.step));
  return loaded.path;
}

}  // namespace tessera::inference
