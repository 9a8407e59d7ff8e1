#include "data/index/folder_objects.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "store/encoding/bytes.h"
#include "store/file.h"
#include "store/url.h"

namespace tessera::data {
namespace {

constexpr const char* kIndexName = ".tessera-index";
constexpr size_t kObjectsSections = 7;
constexpr int64_t kMaxObject = int64_t{1} << 43;  // larger than any bucket takes; so many as there can be don't overflow a sum
std::atomic<bool> anew = false;

bool is_hidden(std::string_view name) { return name.starts_with('.') || name.find("/.") != std::string_view::npos; }

std::optional<FolderObjects> kept_beside(const std::string& at) {
  if (anew || !store::is_bucket(at)) return std::nullopt;
  const auto bytes = store::read_object(at);
  auto kept = bytes ? FolderObjects::decode(*bytes) : std::nullopt;
  if (!kept) return std::nullopt;
  log_note(fmt::format("{}: {} files, as listed on {:%Y-%m-%d %H:%M} UTC; `tessera data index` lists them anew", one_line(at),
                       human_count(static_cast<int64_t>(kept->objects.size())),
                       fmt::gmtime(static_cast<std::time_t>(kept->listed))));
  return kept;
}

void keep_beside(const std::string& at, const FolderObjects& listed) {
  if (!store::is_bucket(at)) return;
  try {
    store::write_object(at, listed.encode());
  } catch (const Error& error) {
    log_note(fmt::format("the list of files can't be kept beside them, so that each start lists them: {}", error.message()));
  }
}

}  // namespace

void list_folders_anew() { anew = true; }

void FolderObjects::add(const std::vector<std::pair<std::string, store::ListedObject>>& found) {
  std::map<std::string, std::vector<std::pair<std::string, store::ListedObject>>> by_class;
  for (const auto& [name, object] : found) {
    if (is_hidden(name)) continue;
    const size_t slash = name.find('/');
    if (slash == std::string::npos) {
      ++loose;
      continue;
    }
    by_class[name.substr(0, slash)].emplace_back(name, object);
  }
  for (auto& [name, in_class] : by_class) {
    std::ranges::sort(in_class, {}, &std::pair<std::string, store::ListedObject>::first);
    classes.push_back(name);
    first.push_back(static_cast<int64_t>(objects.size()));
    for (const auto& [file, object] : in_class) {
      files.add(file);
      objects.push_back(object);
    }
  }
  first.push_back(static_cast<int64_t>(objects.size()));
}

int64_t FolderObjects::bytes() const {
  int64_t sum = 0;
  for (const store::ListedObject& object : objects) sum += object.size;
  return sum;
}

std::string FolderObjects::encode() const {
  TextList names;
  for (const std::string& name : classes) names.add(name);
  const std::vector<int64_t> numbers = {loose, listed};
  return sidecar_bytes(SidecarKind::kObjectIndex, {},
                       {{names.text},
                        section_of(names.ends),
                        section_of(first),
                        {files.text},
                        section_of(files.ends),
                        section_of(objects),
                        section_of(numbers)});
}

std::optional<FolderObjects> FolderObjects::decode(std::string_view bytes) {
  const auto sidecar =
      Sidecar::parse(store::copy_bytes(store::as_bytes(bytes)), SidecarKind::kObjectIndex, {}, kObjectsSections);
  if (!sidecar) return std::nullopt;
  const auto name_ends = sidecar->array<uint64_t>(1), file_ends = sidecar->array<uint64_t>(4);
  const auto starts = sidecar->array<int64_t>(2), numbers = sidecar->array<int64_t>(6);
  const auto listed_objects = sidecar->array<store::ListedObject>(5);
  if (!name_ends || !file_ends || !starts || !numbers || !listed_objects) return std::nullopt;
  const TextView names(sidecar->section(0), *name_ends), paths(sidecar->section(3), *file_ends);
  const bool whole =
      names.valid() && paths.valid() && numbers->size() == 2 && listed_objects->size() == paths.size() &&
      starts->size() == names.size() + 1 && starts->front() == 0 && std::ranges::is_sorted(*starts) &&
      starts->back() == static_cast<int64_t>(paths.size()) &&
      std::ranges::all_of(*listed_objects, [](const auto& object) { return object.size >= 0 && object.size < kMaxObject; });
  if (!whole) return std::nullopt;
  FolderObjects out;
  for (size_t i = 0; i < names.size(); ++i) out.classes.emplace_back(names[i]);
  for (size_t i = 0; i < paths.size(); ++i) out.files.add(paths[i]);
  out.first.assign(starts->begin(), starts->end());
  out.objects.assign(listed_objects->begin(), listed_objects->end());
  out.loose = (*numbers)[0], out.listed = (*numbers)[1];
  return out;
}

FolderObjects open_folder_objects(const std::string& url) {
  const std::string at = store::join_path(url, kIndexName);
  if (auto kept = kept_beside(at)) return *std::move(kept);
  FolderObjects listed;
  listed.listed = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::vector<std::pair<std::string, store::ListedObject>> found;
  log_status(fmt::format("{}: listing", one_line(url)));
  store::list_objects(url,
                      [&](const std::string& name, const store::ListedObject& object) { found.emplace_back(name, object); });
  log_status("");
  listed.add(found);
  if (!listed.objects.empty()) keep_beside(at, listed);
  return listed;
}

}  // namespace tessera::data
