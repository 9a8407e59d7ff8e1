#include <fmt/format.h>

#include <algorithm>

#include "base/text/text.h"
#include "fuzz/targets.h"
#include "store/checksums.h"
#include "store/memory_files.h"
#include "store/servers/s3_answers.h"
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

std::string element(std::string_view name, std::string_view text) {
  std::string escaped;
  for (const unsigned char c : text) escaped += c < 0x80 ? fmt::format("&#x{:X};", c) : std::string(1, static_cast<char>(c));
  return fmt::format("<{0}>{1}</{0}>", name, escaped);
}

// A page of S3's list of uploads, or a refusal. What is read is read again as it is written.
bool s3_answer(std::string_view bytes) {
  const store::S3Refusal refusal = store::parse_s3_refusal(bytes);
  const store::S3Refusal same = store::parse_s3_refusal(
      fmt::format("<Error>{}{}</Error>", element("Code", refusal.code), element("Message", refusal.message)));
  TESSERA_CHECK(refusal.code.find('\0') != std::string::npos || refusal.message.find('\0') != std::string::npos ||
                (same.code == refusal.code && same.message == refusal.message));
  try {
    const store::S3UploadsPage page = store::parse_s3_uploads(bytes);
    TESSERA_CHECK(refusal.code.empty() && (!page.more || !page.next_key.empty()));
    std::string inside = element("IsTruncated", page.more ? "true" : "false") + element("NextKeyMarker", page.next_key);
    for (const store::S3Upload& upload : page.uploads) {
      TESSERA_CHECK(!upload.key.empty() && !upload.id.empty());
      inside += fmt::format("<Upload>{}{}</Upload>", element("Key", upload.key), element("UploadId", upload.id));
    }
    if (inside.find("&#x0;") != std::string::npos) return true;  // a byte that was no escape, and cannot be written as one
    const store::S3UploadsPage again =
        store::parse_s3_uploads(fmt::format("<ListMultipartUploadsResult>{}</ListMultipartUploadsResult>", inside));
    TESSERA_CHECK(again.uploads == page.uploads && again.more == page.more && again.next_key == page.next_key);
    return true;
  } catch (const store::ServerError& error) {
    TESSERA_CHECK(*error.what() != '\0');
    return !refusal.code.empty();
  }
}

}  // namespace

const std::vector<NamedTarget>& store_targets() {
  static const std::vector<NamedTarget> all = {
      {"checksums", checksums, 1024}, {"hub_tree", hub_tree, 1024}, {"s3_answer", s3_answer, 1024}};
  return all;
}

}  // namespace tessera::fuzz
