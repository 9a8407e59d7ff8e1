#include "data/read_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/system/file_calls.h"
#include "base/text/text.h"
#include "store/file.h"
#include "store/local/file_kind.h"
#include "store/local/read_retries.h"
#include "store/url.h"

namespace tessera::data {
namespace {

struct OpenFile {
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  explicit OpenFile(const std::string& path) : descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~OpenFile() {
    if (descriptor >= 0) ::close(descriptor);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor;
};

std::string system_reason(const std::string& path) {
  store::expect_not_exhausted(errno, path);
  return std::generic_category().message(errno);
}

std::string over_the_limit(int64_t size) {
  return fmt::format("the file is {}, which is over the limit of {}", human_bytes(static_cast<double>(size)),
                     human_bytes(static_cast<double>(kMaxFileBytes)));
}

// A reason, with errno as the call left it that failed; zero where none did.
std::optional<std::string> read_once(const std::string& path, PaddedBuffer& buffer) {
  const FileCall call("reading", path);
  errno = 0;
  const OpenFile file(path);
  struct stat info {};
  if (file.descriptor < 0 || ::fstat(file.descriptor, &info) != 0) return system_reason(path);
  if (!S_ISREG(info.st_mode)) return fmt::format("{}, not a regular file", store::file_kind(info.st_mode));
  if (info.st_size > kMaxFileBytes) return over_the_limit(info.st_size);
  buffer.reset(static_cast<size_t>(info.st_size));
  for (size_t done = 0; done < buffer.size();) {
    const ssize_t got = ::read(file.descriptor, buffer.data() + done, buffer.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_reason(path);
    if (got == 0) return "it became shorter while it was read";
    done += static_cast<size_t>(got);
  }
  return std::nullopt;
}

std::optional<std::string> read_object(const std::string& path, PaddedBuffer& buffer, const store::ListedObject* listed) {
  try {
    const auto object = store::open_recent(path, listed);
    if (object->size() > kMaxFileBytes) return over_the_limit(object->size());
    buffer.reset(static_cast<size_t>(object->size()));
    object->read(0, std::as_writable_bytes(std::span(buffer.data(), buffer.size())));
    return std::nullopt;
  } catch (const Error& error) {
    return error.message();
  }
}

}  // namespace

std::optional<std::string> read_whole_file(const std::string& path, PaddedBuffer& buffer, const store::ListedObject* listed) {
  if (store::is_remote(path)) return read_object(path, buffer, listed);
  store::ReadRetries retries;
  for (;;) {
    std::optional<std::string> failed = read_once(path, buffer);
    if (!failed || !retries.again(errno)) return failed;
  }
}

std::optional<std::string> read_stdin(PaddedBuffer& buffer) {
  constexpr size_t kPart = size_t{1} << 16;
  std::vector<uint8_t> bytes;
  for (;;) {
    const size_t had = bytes.size();
    bytes.resize(had + kPart);
    const ssize_t got = ::read(STDIN_FILENO, bytes.data() + had, kPart);
    bytes.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno != EINTR) return system_reason(std::string(kStdin));
    if (got == 0) break;
    if (static_cast<int64_t>(bytes.size()) > kMaxFileBytes) return over_the_limit(static_cast<int64_t>(bytes.size()));
  }
  buffer.reset(bytes.size());
  std::ranges::copy(bytes, buffer.data());
  return std::nullopt;
}

void fetch_file(const std::string& path, const store::ListedObject* listed) {
  if (store::is_remote(path)) {
    const auto object = store::open_recent(path, listed);
    object->prefetch(0, object->size());
    return;
  }
  const OpenFile file(path);
  if (file.descriptor >= 0) ::posix_fadvise(file.descriptor, 0, 0, POSIX_FADV_WILLNEED);
}

}  // namespace tessera::data
