#include "data/tools/convert/journal.h"

#include "base/error.h"
#include "base/text/text.h"
#include "store/checksums.h"
#include "store/file.h"
#include "store/servers/buckets.h"

namespace tessera::data {
namespace {

constexpr const char* kJournal = "convert.journal";

}  // namespace

ConvertJournal::ConvertJournal(std::string out, std::string folder)
    : path_(store::join_path(out, kJournal)), folder_(std::move(folder)) {
  store::FileSystem& files = store::files_at(folder_);
  const std::string manifest = store::join_path(folder_, kManifestFile);
  std::vector<ManifestFile> known;
  if (files.info(manifest)) known = parse_manifest(store::read_text(files, manifest), manifest).value_or(known);
  if (files.info(path_)) {
    // The last line of a killed conversion may be half there: its shard is made again.
    for (const std::string& line : split(store::read_text(files, path_), '\n')) {
      if (auto file = parse_manifest_line(line)) known.push_back(*std::move(file));
    }
  }
  for (ManifestFile& file : known) known_.insert_or_assign(file.name, file);
}

std::optional<ManifestFile> ConvertJournal::finished(const std::string& name, bool& damaged) const {
  store::FileSystem& files = store::files_at(folder_);
  const std::string path = store::join_path(folder_, name);
  const auto info = files.info(path);
  const auto entry = known_.find(name);
  if (!info || entry == known_.end()) return std::nullopt;
  const ManifestFile& wanted = entry->second;
  damaged = info->size != wanted.size || store::to_hex(store::sha256_of(files, path)) != wanted.sha256;
  return damaged ? std::nullopt : std::optional(wanted);
}

void ConvertJournal::add(const ManifestFile& entry) {
  const std::lock_guard lock(mutex_);
  const auto file = store::files_at(path_).append(path_);
  file->write(store::as_bytes(fmt::format("\n{}", manifest_line(entry))));  // a line of its own behind a half one
  file->sync();
  file->close();
}

void ConvertJournal::finish(const std::vector<ManifestFile>& entries) {
  store::FileSystem& files = store::files_at(folder_);
  store::write_atomic(files, store::join_path(folder_, kManifestFile), manifest_text(entries));
  if (files.info(path_)) files.remove_file(path_);
}

}  // namespace tessera::data
