#pragma once
// What etcd's JSON gateway answers (https://etcd.io/docs/v3.4/dev-guide/api_grpc_gateway/), as etcd.cc reads it: keys and
// values are Base64, 64-bit numbers are texts, and what is empty, 0 or false is left out. Nothing is given for what etcd does
// not say.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::group {

struct KeyValue {
  std::string key, value;
  std::string lease;  // by which it lives; empty: none
};

// Of /v3/kv/range: the pairs in the answer's order.
std::optional<std::vector<KeyValue>> etcd_pairs(const nlohmann::json& answer);
// Of the same: the number of the last change.
std::optional<int64_t> etcd_revision(const nlohmann::json& answer);
// Of /v3/lease/grant.
std::optional<std::string> etcd_lease(const nlohmann::json& answer);
// Of /v3/lease/keepalive: whether the lease goes on.
bool etcd_lease_lives(const nlohmann::json& answer);
// Of /v3/kv/txn.
bool etcd_succeeded(const nlohmann::json& answer);
struct WatchNews {
  std::vector<std::string> deleted;  // keys that are gone
  bool over = false;                 // etcd has ended the watch; the stream goes on without a word
  int64_t oldest = 0;                // the first change that etcd has, where the watch asked for one before it
};
// Of a line of /v3/watch.
WatchNews etcd_news(std::string_view line);

// The number behind the last "/" of a process's key.
std::optional<int64_t> process_of_key(std::string_view key);

}  // namespace tessera::group
