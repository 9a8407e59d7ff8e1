#pragma once
// A file of a server's, brought here whole: what came before is gone on with, what fails on the way is tried again, and what has
// another hash is fetched anew.

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

// Into `partial`, which may be there in part; a line says how long it took. What fails on the way is tried five times, and what has
// another hash twice. Throws http::NotReached where there is no connection, a data Error for what else fails, and IoError.
void fetch_file(http::WebClient& client, const FileFetch& file, const std::string& partial);

// After how many tries a server that fails is given up, and the pause before the next one.
inline constexpr int kFetchTries = 5;
void wait_before_trying_again(int tried);

}  // namespace tessera::store
