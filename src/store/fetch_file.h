#pragma once
// Downloads whole files. A download that was cut off is continued, a failed request is tried again, and a file with the wrong
// hash is fetched anew.

#include <cstdint>
#include <functional>
#include <string>

#include "http/web_client.h"

namespace tessera::store {

struct FileFetch {
  std::string what;    // for messages: "libtpu 0.0.51"
  std::string url;     // its address
  std::string shown;   // the same as messages show it: without credentials
  int64_t size = -1;   // bytes; -1: not known
  std::string lister;  // who knows its hash: "the Hub lists"
  // Whether the file at `path` is the one that is wanted.
  std::function<bool(const std::string& path)> is_whole;
  // Throws for an answer that no other try changes (404, 401, …).
  std::function<void(const http::WebReply& reply)> refuse;
};

// Downloads into `partial`, which may hold the beginning already, and logs how long that took. A failed request is tried five
// times, and a file with the wrong hash twice. Throws http::NotReached where there is no connection, a data Error for other
// failures, and IoError.
void fetch_file(http::WebClient& client, const FileFetch& file, const std::string& partial);

// How often a request is tried, and the pause before the next try.
inline constexpr int kFetchTries = 5;
void wait_before_trying_again(int tried);

}  // namespace tessera::store
