#include "data/formats/webdataset.h"

#include <algorithm>
#include <unordered_set>

#include "data/formats/bytes/bytes_file.h"
#include "data/formats/bytes/fail_at.h"
#include "data/formats/tar.h"

namespace tessera::data {
namespace {

constexpr size_t kMaxMembers = 1000;  // each is compared with those before it

bool is_meta(std::string_view path) {
  if (!path.starts_with("__")) return false;
  const std::string_view first = path.substr(0, path.find('/'));
  return first.size() >= 4 && first.ends_with("__");
}

// Puts members together as they come.
class SampleWalk {
 public:
  SampleWalk(const std::string& path, const store::ReadableFile& file) : path_(path), window_(file) {}

  struct Found {
    std::string key;
    Extent extent;
    std::vector<std::pair<std::string, Extent>> members;  // by extension
  };
  // The next sample; nothing at the end.
  std::optional<Found> next() {
    std::optional<Found> found;
    while (auto member = read_tar_member(path_, window_, offset_)) {
      std::optional<WdsName> name;
      if (member->regular) name = parse_wds_name(member->name);
      if (name && found && name->key != found->key) return found;
      offset_ = member->end;
      if (!name) continue;
      if (!found) found = Found{name->key, {member->header, 0}, {}};
      if (found->members.size() == kMaxMembers) {
        fail_at(path_, member->header, fmt::format("the sample `{}` has more than {} members", name->key, kMaxMembers),
                "give its samples keys of their own");
      }
      for (const auto& [extension, extent] : found->members) {
        if (extension != name->extension) continue;
        fail_at(path_, member->header, fmt::format("the sample `{}` has two members .{}", name->key, extension),
                "give its samples keys of their own");
      }
      found->members.emplace_back(name->extension, Extent{member->data, member->size});
      found->extent.length = member->data + member->size - found->extent.offset;
    }
    return found;
  }

 private:
  const std::string& path_;
  Window window_;
  int64_t offset_ = 0;
};

}  // namespace

std::optional<WdsName> parse_wds_name(std::string_view path) {
  if (path.starts_with("./")) path.remove_prefix(2);
  if (is_meta(path)) return std::nullopt;
  const size_t base = path.rfind('/') + 1;  // npos + 1 is 0
  const size_t dot = path.find('.', base);
  if (dot == std::string_view::npos || dot == base) return std::nullopt;
  WdsName name{std::string(path.substr(0, dot)), std::string(path.substr(dot + 1))};
  std::ranges::transform(name.extension, name.extension.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return name;
}

const WdsMember* WdsSample::find(std::string_view extension) const {
  const auto it = std::ranges::find(members, extension, &WdsMember::extension);
  return it == members.end() ? nullptr : &*it;
}

std::vector<Extent> scan_wds(const std::string& path, const store::ReadableFile& file, std::string_view extension,
                             const std::function<void(const WdsSample&)>& visit) {
  SampleWalk walk(path, file);
  std::unordered_set<std::string> keys;
  std::vector<Extent> samples;
  while (const auto found = walk.next()) {
    if (!keys.insert(found->key).second) {
      fail_at(path, found->extent.offset, fmt::format("the key `{}` comes again", found->key),
              "members of one sample must stand together: sort the archive by name when it is made");
    }
    samples.push_back(found->extent);
    if (!visit) continue;
    const auto member = std::ranges::find(found->members, extension, [](const auto& one) { return one.first; });
    const std::string bytes = member == found->members.end() ? "" : read_extent(file, member->second);
    visit(
        {found->key, member == found->members.end() ? std::vector<WdsMember>() : std::vector{WdsMember{member->first, bytes}}});
  }
  return samples;
}

bool visit_first_wds(const std::string& path, const store::ReadableFile& file,
                     const std::function<void(const WdsSample&)>& visit) {
  const auto found = SampleWalk(path, file).next();
  if (found) visit(parse_wds_sample(path, read_extent(file, found->extent)));
  return found.has_value();
}

WdsSample parse_wds_sample(const std::string& path, std::string_view bytes) {
  const BytesFile file(bytes);
  WdsSample sample;
  const auto found = SampleWalk(path, file).next();
  if (!found) return sample;
  sample.key = found->key;
  for (const auto& [extension, extent] : found->members) {
    sample.members.push_back({extension, bytes.substr(static_cast<size_t>(extent.offset), static_cast<size_t>(extent.length))});
  }
  return sample;
}

}  // namespace tessera::data
