#include "monitor/tensorboard/projector.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "base/printable.h"
#include "image/codec/png.h"
#include "image/draw.h"

namespace tessera::monitor {
namespace {

constexpr const char* kFolder = "projector";

// For names of files, and texts in the configuration.
std::string plain(std::string name) {
  for (char& c : name) {
    const bool safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (!safe) c = '_';
  }
  return name;
}

struct Entry {
  std::string folder, name;
  int64_t step = 0;
};

// Nothing for what is not ours.
std::optional<Entry> entry_of(const store::FileInfo& info) {
  const size_t end = info.name.rfind('_');
  if (!info.directory || info.symlink || end == std::string::npos) return std::nullopt;
  Entry entry{info.name, info.name.substr(0, end)};
  const char* last = info.name.data() + info.name.size();
  const auto [at, error] = std::from_chars(info.name.data() + end + 1, last, entry.step);
  if (error != std::errc{} || at != last) return std::nullopt;
  return entry;
}

std::vector<Entry> entries(store::FileSystem& files, const std::string& root) {
  std::vector<Entry> found;
  const auto there = files.info(root);
  if (!there || there->symlink) return found;
  for (const store::FileInfo& info : files.list(root)) {
    if (auto entry = entry_of(info)) found.push_back(std::move(*entry));
  }
  return found;
}

std::string tensors_of(const Embedding& embedding) {
  std::string out;
  for (size_t i = 0; i < embedding.values.size(); ++i) {
    const bool last = (i + 1) % static_cast<size_t>(embedding.width) == 0;
    const float value = embedding.values[i];
    out += fmt::format("{}{}", std::isfinite(value) ? value : 0.0F, last ? '\n' : '\t');
  }
  return out;
}

std::string metadata_of(const Embedding& embedding) {
  std::string out = "label\tname\n";
  for (size_t i = 0; i < embedding.ids.size(); ++i) {
    out += fmt::format("{}\t{}\n", one_line(embedding.labels[i]), one_line(embedding.ids[i]));
  }
  return out;
}

// Row by row, as many rows as columns at most.
std::vector<uint8_t> sprite_of(const Embedding& embedding) {
  const int side = embedding.images.at(0).width(), count = static_cast<int>(embedding.images.size());
  const int columns = static_cast<int>(std::ceil(std::sqrt(static_cast<double>(count))));
  image::Image sprite(columns * side, columns * side);
  image::fill(sprite, {0, 0, sprite.width(), sprite.height()}, 255);
  for (int i = 0; i < count; ++i) {
    image::enlarge(embedding.images[static_cast<size_t>(i)], 1, sprite, i % columns * side, i / columns * side);
  }
  return image::encode_png(sprite.view());
}

// A part of the configuration.
std::string config_of(const Embedding& embedding, const Entry& entry) {
  const int side = embedding.images.at(0).width();
  const std::string place = fmt::format("{}/{}/", kFolder, entry.folder);
  return fmt::format(
      "embeddings {{\n  tensor_name: \"{} at step {}\"\n  tensor_shape: {}\n  tensor_shape: {}\n  tensor_path: "
      "\"{}tensors.tsv\"\n"
      "  metadata_path: \"{}metadata.tsv\"\n  sprite {{\n    image_path: \"{}sprite.png\"\n    single_image_dim: {}\n"
      "    single_image_dim: {}\n  }}\n}}\n",
      entry.name, entry.step, embedding.ids.size(), embedding.width, place, place, place, side, side);
}

void write_config(store::FileSystem& files, const std::string& directory) {
  const std::string root = store::join_path(directory, kFolder), path = store::join_path(directory, "projector_config.pbtxt");
  std::string config;
  for (const Entry& entry : entries(files, root)) {
    const std::string part = store::join_path(root, entry.folder + "/config.pbtxt");
    if (files.info(part)) config += store::read_text(files, part);
  }
  if (!config.empty()) {
    store::write_atomic(files, path, config);
  } else if (files.info(path)) {
    files.remove_file(path);
  }
}

// Those that `drop` names.
template <class Drop>
bool remove_entries(store::FileSystem& files, const std::string& root, const Drop& drop) {
  bool any = false;
  for (const Entry& entry : entries(files, root)) {
    if (!drop(entry)) continue;
    store::remove_tree(files, store::join_path(root, entry.folder));
    any = true;
  }
  return any;
}

}  // namespace

void write_projector(store::FileSystem& files, const std::string& directory, int64_t step, const Embedding& embedding) {
  const std::string root = store::join_path(directory, kFolder), name = plain(embedding.name);
  remove_entries(files, root, [&](const Entry& entry) { return entry.name == name; });
  const Entry entry{fmt::format("{}_{:09}", name, step), name, step};
  const std::string folder = store::join_path(root, entry.folder);
  store::make_directories_below(files, directory, store::join_path(kFolder, entry.folder));
  const std::vector<uint8_t> sprite = sprite_of(embedding);
  store::write_atomic(files, folder + "/tensors.tsv", tensors_of(embedding));
  store::write_atomic(files, folder + "/metadata.tsv", metadata_of(embedding));
  store::write_atomic(files, folder + "/sprite.png",
                      std::string_view(reinterpret_cast<const char*>(sprite.data()), sprite.size()));
  store::write_atomic(files, folder + "/config.pbtxt", config_of(embedding, entry));
  write_config(files, directory);
}

void cut_projector(store::FileSystem& files, const std::string& directory, int64_t kept_step) {
  const std::string root = store::join_path(directory, kFolder);
  if (remove_entries(files, root, [&](const Entry& entry) { return entry.step > kept_step; })) write_config(files, directory);
}

}  // namespace tessera::monitor
