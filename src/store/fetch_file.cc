#include "store/fetch_file.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <span>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "store/file.h"

namespace tessera::store {
namespace {

using Clock = std::chrono::steady_clock;

// How much of the file there is.
class Shown {
 public:
  explicit Shown(const FileFetch& file) : file_(file) {}
  ~Shown() { log_status(""); }
  Shown(const Shown&) = delete;
  Shown& operator=(const Shown&) = delete;

  void show(int64_t have) {
    const auto now = Clock::now();
    if (now - last_ < std::chrono::milliseconds(200)) return;
    last_ = now;
    const std::string bytes = human_bytes(static_cast<double>(have));
    if (file_.size <= 0) return log_status(fmt::format("fetch {}  {}", file_.what, bytes));
    log_status(fmt::format("fetch {}  {:.0f} % of {}", file_.what,
                           100 * static_cast<double>(have) / static_cast<double>(file_.size),
                           human_bytes(static_cast<double>(file_.size))));
  }

 private:
  const FileFetch& file_;
  Clock::time_point last_{};
};

// What is missing of `partial`, appended to it. Throws a data Error without a place where the server fails.
void transfer(http::WebClient& client, const FileFetch& file, const std::string& partial) {
  FileSystem& files = local_files();
  const auto info = files.info(partial);
  int64_t have = info ? info->size : 0;
  if (file.size >= 0 && have > file.size) {
    files.remove_file(partial);
    have = 0;
  }
  if (have == file.size && have > 0) return;
  std::unique_ptr<WritableFile> out;
  Shown shown(file);
  const http::WebReply reply = client.download({
      .url = file.url,
      .from = have,
      .begin =
          [&](int64_t first) {
            have = first;
            out = first > 0 ? files.append(partial) : files.create(partial);
          },
      .take =
          [&](std::string_view bytes) {
            if (file.size >= 0 && have + static_cast<int64_t>(bytes.size()) > file.size) return false;
            out->write(std::as_bytes(std::span(bytes)));
            have += static_cast<int64_t>(bytes.size());
            shown.show(have);
            return true;
          },
  });
  if (out) out->close();
  if (reply.status == 200 || reply.status == 206) {
    if (have < file.size) throw data_error(fmt::format("the server ended after {} of {} bytes", have, file.size));
    return;
  }
  if (reply.status < 500 && reply.status != 408 && reply.status != 416 && reply.status != 429) file.refuse(reply);
  // Nothing lies beyond what is here: it is whole, or it is none of the file.
  if (reply.status == 416 && file.size < 0 && have > 0 && file.is_whole(partial)) return;
  if (reply.status == 416) files.remove_file(partial);
  throw data_error(fmt::format("the server answers {}", reply.status));
}

}  // namespace

void wait_before_trying_again(int tried) { std::this_thread::sleep_for(std::chrono::milliseconds(100 << tried)); }

void fetch_file(http::WebClient& client, const FileFetch& file, const std::string& partial) {
  FileSystem& files = local_files();
  const auto start = Clock::now();
  for (int tried = 1;; ++tried) {
    std::string why = fmt::format("it is not the file that {} (its hash differs)", file.lister);
    int tries = 2;  // what was damaged on the way, or before
    try {
      transfer(client, file, partial);
      if (file.is_whole(partial)) break;
      files.remove_file(partial);
    } catch (const http::NotReached&) {
      throw;
    } catch (const Error& error) {
      if (error.code() != Exit::kData || !error.where().empty()) throw;  // not the server's
      if (dynamic_cast<const IoError*>(&error) != nullptr) throw;
      why = error.message();
      tries = kFetchTries;
    }
    if (tried >= tries) {
      throw data_error(fmt::format("could not be fetched: {}", why), file.shown, "the same command goes on with what is there");
    }
    log_warning(fmt::format("{}: {}; trying again", file.what, one_line(why)));
    wait_before_trying_again(tried);
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const auto size = static_cast<double>(files.info(partial)->size);
  log_line(fmt::format("fetched {} ({}) in {}", file.what, human_bytes(size), human_duration(seconds)));
}

}  // namespace tessera::store
