#include "monitor/metrics_tail.h"

#include <algorithm>
#include <utility>

namespace tessera::monitor {
namespace {

constexpr int64_t kPiece = 4 << 20;  // bytes read at once
constexpr size_t kMark = 256;        // bytes: a line has a step or a time, so none ends like another

}  // namespace

LineTail::LineTail(std::string path, store::FileSystem& files) : path_(std::move(path)), files_(files) {}

bool LineTail::goes_on(const store::FileInfo& info) const {
  if (position_.offset == 0) return true;
  if (info.id != position_.id || info.size < position_.offset) return false;
  const auto length = static_cast<int64_t>(position_.mark.size());
  const std::vector<std::byte> now = store::read_range(files_, path_, position_.offset - length, length);
  return store::as_text(now) == position_.mark;
}

void LineTail::take_lines(std::string_view text, Position& position, const std::function<void(std::string_view)>& take) {
  position.offset += static_cast<int64_t>(text.size());
  position.mark += text;
  position.mark.erase(0, position.mark.size() - std::min(position.mark.size(), kMark));
  while (!text.empty()) {
    const size_t end = text.find('\n');
    take(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
}

bool LineTail::read(const std::function<void(std::string_view line)>& take) {
  bool from_start = false;
  const auto info = files_.info(path_);
  Position next = position_;
  if (!info || !goes_on(*info)) {
    from_start = position_.offset > 0;
    next = {};
  }
  if (info) next.id = info->id;
  std::string pending;  // the beginning of a line
  for (int64_t at = next.offset; info && at < info->size;) {
    const std::vector<std::byte> piece = store::read_range(files_, path_, at, std::min(kPiece, info->size - at));
    at += static_cast<int64_t>(piece.size());
    pending += store::as_text(piece);
    const size_t end = pending.rfind('\n');
    if (end == std::string::npos) continue;
    take_lines(std::string_view(pending).substr(0, end + 1), next, take);
    pending.erase(0, end + 1);
  }
  position_ = std::move(next);
  return from_start;
}

MetricsTail::News MetricsTail::read() {
  News out;
  out.from_start = tail_.read([&](std::string_view line) {
    if (auto row = parse_metrics_line(line)) {
      out.rows.push_back(std::move(*row));
    } else if (!line.empty()) {
      ++out.unreadable;
    }
  });
  return out;
}

}  // namespace tessera::monitor
