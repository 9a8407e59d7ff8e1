#include "checkpoint/remote/unfinished_uploads.h"

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "store/servers/s3_uploads.h"

namespace tessera::remote {
namespace {

std::string reason_of(const Error& error) {
  return error.help().empty() ? error.message() : fmt::format("{}; {}", error.message(), error.help());
}

std::string counted(size_t count) { return fmt::format("{} unfinished upload{}", count, count == 1 ? "" : "s"); }

}  // namespace

void remove_unfinished_uploads(const std::string& url, const std::function<bool(const std::string& name)>& is_own,
                               const std::function<void()>& expect_held) {
  if (!url.starts_with("s3://")) return;
  std::optional<store::S3Uploads> uploads;
  std::vector<store::S3Upload> found;
  try {
    uploads.emplace(url);
    found = uploads->list();
  } catch (const Error& error) {
    return log_note(fmt::format("parts that an earlier start may have left in S3 stay: {}", reason_of(error)));
  }
  std::erase_if(found, [&](const store::S3Upload& upload) { return !is_own(upload.key); });
  if (found.empty()) return;
  expect_held();
  size_t removed = 0;
  try {
    for (const store::S3Upload& upload : found) {
      uploads->abort(upload);
      ++removed;
    }
  } catch (const Error& error) {
    return log_note(fmt::format("{} that an earlier start left below `{}` stay{}: {}", counted(found.size() - removed),
                                one_line(url), found.size() - removed == 1 ? "s" : "", reason_of(error)));
  }
  log_note(fmt::format("removed {} that an earlier start left below `{}`", counted(removed), one_line(url)));
}

}  // namespace tessera::remote
