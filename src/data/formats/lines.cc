#include "data/formats/lines.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/text.h"

namespace tessera::data {
namespace {

constexpr int64_t kLineReadBytes = 1 << 20;

// Lines from bytes that come piece by piece.
class LineFinder {
 public:
  void feed(std::string_view bytes) {
    while (!bytes.empty()) {
      const size_t end = bytes.find('\n');
      const std::string_view part = bytes.substr(0, end);
      blank_ = blank_ && trim(part).empty();
      if (!part.empty()) last_ = part.back();
      length_ += static_cast<int64_t>(part.size());
      if (end == std::string_view::npos) return;
      finish();
      begin_ += length_ + 1;
      length_ = 0, blank_ = true, last_ = 0;
      bytes.remove_prefix(end + 1);
    }
  }
  void finish() {
    if (!blank_) lines.push_back({begin_, length_ - (last_ == '\r')});
  }
  void skip(int64_t size) { begin_ += size; }
  std::vector<Extent> lines;

 private:
  int64_t begin_ = 0, length_ = 0;
  bool blank_ = true;
  char last_ = 0;
};

std::vector<Extent> find_lines(const std::string& path, const store::ReadableFile& file, bool first_alone) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  LineFinder finder;
  std::string bytes;
  for (int64_t offset = 0; offset < file.size(); offset += kLineReadBytes) {
    bytes.resize(static_cast<size_t>(std::min(kLineReadBytes, file.size() - offset)));
    file.read(offset, std::as_writable_bytes(std::span(bytes)));
    expect_no_zeros(path, offset, bytes);
    std::string_view rest = bytes;
    if (offset == 0 && rest.starts_with(kMark)) {
      rest.remove_prefix(kMark.size());
      finder.skip(static_cast<int64_t>(kMark.size()));
    }
    finder.feed(rest);
    if (first_alone && !finder.lines.empty()) break;
  }
  finder.finish();
  return std::move(finder.lines);
}

}  // namespace

void expect_no_zeros(const std::string& path, int64_t offset, std::string_view bytes) {
  const size_t at = bytes.find('\0');
  if (at == std::string_view::npos) return;
  throw data_error(fmt::format("`{}` is no text: byte {} is 0", one_line(path), offset + static_cast<int64_t>(at)), {},
                   "copy it again where it was damaged; save it as UTF-8 where it is text in UTF-16");
}

std::vector<Extent> scan_lines(const std::string& path, const store::ReadableFile& file) {
  return find_lines(path, file, false);
}

std::string first_line(const std::string& path, const store::ReadableFile& file) {
  const std::vector<Extent> lines = find_lines(path, file, true);
  return lines.empty() ? std::string() : read_extent(file, lines[0]);
}

}  // namespace tessera::data
