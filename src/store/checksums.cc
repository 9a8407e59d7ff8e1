#include "store/checksums.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "store/small_file.h"

namespace tessera::store {
namespace {

constexpr size_t kDigits = 64;
constexpr int64_t kStretch = 1 << 20;
constexpr int64_t kMaxListBytes = 16 << 20;

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

void verify_with(FileSystem& files, const std::string& list, const std::string& path) {
  const auto info = files.info(list);
  if (!info || info->directory) return;
  if (info->size > kMaxListBytes) throw data_error(fmt::format("`{}` is too long for a list of checksums", list));
  const auto sums = parse_checksums(read_small_file(files, list), list);
  const auto wanted = sums.find(file_name(path));
  if (wanted == sums.end() || to_hex(sha256_of(files, path)) == wanted->second) return;
  throw data_error(fmt::format("`{}` is damaged or was changed: its SHA-256 is not the one in `{}`", path, list), {},
                   fmt::format("copy it again; if the change was meant, remove {}", list));
}

}  // namespace

Digest sha256_of(FileSystem& files, const std::string& path) {
  const auto file = files.open(path);
  Sha256 hash;
  std::vector<std::byte> bytes(static_cast<size_t>(std::min(kStretch, file->size())));
  for (int64_t at = 0; at < file->size(); at += kStretch) {
    const auto part = std::span(bytes).first(static_cast<size_t>(std::min(kStretch, file->size() - at)));
    file->read(at, part);
    hash.add(part);
  }
  return hash.finish();
}

std::string checksum_lines(FileSystem& files, const std::string& directory, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += fmt::format("{}  {}\n", to_hex(sha256_of(files, join_path(directory, name))), name);
  }
  return text;
}

std::map<std::string, std::string> parse_checksums(std::string_view text, const std::string& path) {
  std::map<std::string, std::string> sums;
  int64_t number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    if (trim(line).empty() || line.starts_with('#')) continue;
    std::string sum = line.substr(0, kDigits);
    std::ranges::transform(sum, sum.begin(),
                           [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c; });
    std::string name(trim(line.substr(std::min(line.size(), kDigits + 2))));
    while (name.starts_with("./")) name.erase(0, 2);
    // Behind the checksum a space and another one or, of a file taken as binary, '*'.
    const bool well_formed = !name.empty() && line.size() > kDigits + 2 && std::ranges::all_of(sum, is_digit) &&
                             line[kDigits] == ' ' && (line[kDigits + 1] == ' ' || line[kDigits + 1] == '*');
    if (!well_formed) {
      throw data_error("is no line of a SHA-256 list (64 digits, two spaces, a file's name)",
                       fmt::format("{}:{}", path, number), "make the list again with sha256sum, or remove it");
    }
    sums[std::move(name)] = std::move(sum);
  }
  return sums;
}

void verify_checksum(FileSystem& files, const std::string& path) {
  verify_with(files, join_path(parent_path(path), kChecksumList), path);
  verify_with(files, path + std::string(kChecksumEnding), path);
}

}  // namespace tessera::store
