#include <fmt/format.h>

#include <algorithm>

#include "base/text/text.h"
#include "fuzz/targets.h"
#include "store/checksums.h"
#include "store/memory_files.h"
#include "store/servers/web_answers.h"

namespace tessera::fuzz {
namespace {

// A list of SHA-256. What is read is written again as such a list, and a file is compared with its line alone.
bool checksums(std::string_view bytes) {
  return parses([&] {
    const auto sums = store::parse_checksums(bytes, "fuzz");
    std::string text;
    for (const auto& [name, sum] : sums) {
      TESSERA_CHECK(sum.size() == 64 && sum.find_first_not_of("0123456789abcdef") == std::string::npos && !name.empty());
      text += fmt::format("{}  ./{}\n", sum, name);
    }
    TESSERA_CHECK(store::parse_checksums(text, "fuzz") == sums);
    testing::MemoryFiles files;
    files.make_directories("dir");
    for (const char* path : {"dir/SHA256SUMS", "dir/a.npz"}) store::write_atomic(files, path, bytes);
    const auto line = sums.find("a.npz");
    const bool fits = parses([&] { return store::verify_checksum(files, "dir/a.npz"), true; });
    TESSERA_CHECK(fits == (line == sums.end() || line->second == store::to_hex(store::sha256_of(files, "dir/a.npz"))));
    return !sums.empty();
  });
}

// A page of the Hub's listing behind the first zero byte; before it what a reply's head says of a range and of the next page.
bool hub_tree(std::string_view bytes) {
  const size_t end = std::min(bytes.find('\0'), bytes.size());
  const std::string_view head = bytes.substr(0, end), page = end < bytes.size() ? bytes.substr(end + 1) : bytes;
  const store::ContentRange range = store::parse_content_range(head);
  TESSERA_CHECK(range.first.value_or(0) >= 0 && range.size.value_or(0) >= 0 && store::parse_length(head).value_or(0) >= 0);
  const std::string next = store::next_page(head);
  TESSERA_CHECK(next.empty() || head.find("<" + next + ">") != std::string::npos);
  bool any = false;
  for (const char* folder : {"", "data"}) {
    try {
      store::read_hub_tree(page, folder, [&](const std::string& name, const store::ObjectInfo& info) {
        const std::vector<std::string> parts = split(name, '/');
        TESSERA_CHECK(std::ranges::none_of(parts, [](const std::string& part) { return part.empty() || part == ".."; }));
        TESSERA_CHECK(info.kind != store::ObjectKind::kNothing && info.size >= 0);
        any = true;
      });
    } catch (const store::ServerError& error) {
      TESSERA_CHECK(*error.what() != '\0');
    }
  }
  return any;
}

}  // namespace

const std::vector<NamedTarget>& store_targets() {
  static const std::vector<NamedTarget> all = {{"checksums", checksums, 1024}, {"hub_tree", hub_tree, 1024}};
  return all;
}

}  // namespace tessera::fuzz
