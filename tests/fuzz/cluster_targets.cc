#include "base/text/json.h"
#include "cluster/group/etcd_answers.h"
#include "fuzz/targets.h"

namespace tessera::fuzz {
namespace {

// An answer of etcd's, whatever was asked, and a line of those that come as keys go.
bool etcd(std::string_view bytes) {
  const nlohmann::json answer = read_json(bytes).value;
  const auto pairs = group::etcd_pairs(answer);
  const auto revision = group::etcd_revision(answer);
  TESSERA_CHECK(revision.value_or(0) >= 0);
  bool any = (pairs && !pairs->empty()) || revision || group::etcd_lease(answer);
  any |= group::etcd_lease_lives(answer);
  any |= group::etcd_succeeded(answer);
  for (const std::string& key : group::etcd_news(bytes).deleted) any |= group::process_of_key(key).has_value();
  return any;
}

}  // namespace

const std::vector<NamedTarget>& cluster_targets() {
  static const std::vector<NamedTarget> all = {{"etcd", etcd, 512}};
  return all;
}

}  // namespace tessera::fuzz
