#include "cluster/group/tpu_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"
#include "http/google_metadata.h"

namespace tessera::group {
namespace {

constexpr const char *kWorker = "TPU_WORKER_ID", *kHosts = "TPU_WORKER_HOSTNAMES", *kSlice = "MEGASCALE_SLICE_ID",
                     *kSlices = "MEGASCALE_NUM_SLICES", *kFirst = "MEGASCALE_COORDINATOR_ADDRESS";

struct Slice {
  int64_t worker = 0;              // this host's number in it
  std::vector<std::string> hosts;  // names or addresses
  std::string others;              // lines that say more of several slices: "MEGASCALE_NUM_SLICES: '2'"
};

// Of the attribute: names, or `name:id:address` for each host.
std::vector<std::string> addresses_of(const std::string& endpoints) {
  std::vector<std::string> addresses;
  for (const std::string& endpoint : split(std::string(trim(endpoints)), ',')) {
    const std::vector<std::string> parts = split(endpoint, ':');
    addresses.push_back(parts.size() == 3 ? parts[2] : endpoint);
  }
  return addresses;
}

std::optional<Slice> find_slice(const Environment& environment, const TpuAttributes& attributes) {
  const auto worker = environment(kWorker), hosts = environment(kHosts);
  if (worker && hosts) return Slice{whole_number(kWorker, *worker), split(*hosts, ','), {}};
  const std::string number = attributes("agent-worker-number"), endpoints = attributes("worker-network-endpoints");
  if (number.empty() || endpoints.empty()) return std::nullopt;
  return Slice{whole_number("agent-worker-number", std::string(trim(number))), addresses_of(endpoints), attributes("tpu-env")};
}

// Of the environment, else of the slice's lines.
std::optional<std::string> of_slices(const char* name, const Environment& environment, const Slice& slice) {
  if (auto value = environment(name)) return value;
  for (const std::string& line : split(slice.others, '\n')) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || trim(line.substr(0, colon)) != name) continue;
    std::string value(trim(line.substr(colon + 1)));
    std::erase(value, '\'');
    if (!value.empty()) return value;
  }
  return std::nullopt;
}

}  // namespace

std::string tpu_attribute(const std::string& name) {
  return http::has_google_metadata() ? http::google_metadata("instance/attributes/" + name) : "";
}

std::optional<TpuHost> find_tpu_host(const Environment& environment, const TpuAttributes& attributes,
                                     std::optional<int64_t> count) {
  const auto slice = find_slice(environment, attributes);
  if (!slice) return std::nullopt;
  const auto number = of_slices(kSlice, environment, *slice), slices = of_slices(kSlices, environment, *slice);
  const auto known = static_cast<int64_t>(slice->hosts.size());
  const int64_t parts = slices ? std::max<int64_t>(whole_number(kSlices, *slices), 1) : 1;
  constexpr int64_t kMax = 1'000'000;  // so that no product overflows
  if (known > kMax || parts > kMax) return std::nullopt;
  const int64_t all = known * parts;
  if (all <= 1 || (count && *count != all)) return std::nullopt;
  if (parts > 1 && !number)
    throw usage_error(fmt::format("{} is {}, and {} is not set", kSlices, parts, kSlice), "the environment");
  const int64_t part = parts > 1 ? whole_number(kSlice, *number) : 0;
  if (slice->worker >= known) {
    throw usage_error(fmt::format("{} is {}, and {} names {} host{}, counted from 0", kWorker, slice->worker, kHosts, known,
                                  known == 1 ? "" : "s"),
                      "the environment");
  }
  if (part >= parts) {
    throw usage_error(fmt::format("{} is {}, and {} is {}: slices are counted from 0", kSlice, part, kSlices, parts),
                      "the environment");
  }
  std::string first = slice->hosts.front();
  if (parts > 1) {
    first = of_slices(kFirst, environment, *slice).value_or("");
    first = first.substr(0, first.find(':'));
  }
  return TpuHost{part * known + slice->worker, all, std::move(first)};
}

}  // namespace tessera::group
