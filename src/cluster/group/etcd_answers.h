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
// Of a line of /v3/watch: the keys that are gone.
std::vector<std::string> etcd_deleted(std::string_view line);

// The number behind the last "/" of a process's key.
std::optional<int64_t> process_of_key(std::string_view key);

}  // namespace tessera::group
