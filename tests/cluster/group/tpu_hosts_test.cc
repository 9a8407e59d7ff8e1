#include "cluster/group/tpu_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <thread>

#include "base/error.h"
#include "cluster/group/meeting.h"
#include "cluster/group/members.h"
#include "cluster/group/place.h"
#include "http/server.h"

namespace tessera::group {
namespace {

using ::testing::HasSubstr;
using Values = std::map<std::string, std::string>;

Environment environment(const Values& values) {
  return [values](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

TpuAttributes attributes(const Values& values) {
  return [values](const std::string& name) {
    const auto found = values.find(name);
    return found == values.end() ? std::string() : found->second;
  };
}

const PlaceOptions kOnTpu{.on_tpu = true};

// Both forms that the attribute has had.
TEST(TpuHosts, AreThoseOfTheMetadataServer) {
  for (const std::string endpoints :
       {"unknown:unknown:10.0.0.2,unknown:unknown:10.0.0.3,unknown:unknown:10.0.0.4", "10.0.0.2,10.0.0.3,10.0.0.4\n"}) {
    const Place place = find_place(kOnTpu, environment({}),
                                   attributes({{"agent-worker-number", "2"}, {"worker-network-endpoints", endpoints}}));
    EXPECT_EQ(place.process_id, 2);
    EXPECT_EQ(place.num_processes, 3);
    EXPECT_EQ(place.coordinator, "10.0.0.2:8482");
  }
}

TEST(TpuHosts, AreThoseThatGkeNames) {
  const Values gke = {{"TPU_WORKER_ID", "1"}, {"TPU_WORKER_HOSTNAMES", "job-0.svc,job-1.svc"}};
  const TpuAttributes none = attributes({{"agent-worker-number", "0"}, {"worker-network-endpoints", "a,b,c"}});
  const Place place = find_place(kOnTpu, environment(gke), none);
  EXPECT_EQ(place.process_id, 1);
  EXPECT_EQ(place.num_processes, 2);
  EXPECT_EQ(place.coordinator, "job-0.svc:8482");
  // Another etcd, and a run on the host's processors.
  EXPECT_EQ(find_place({.coordinator = "mine:1", .on_tpu = true}, environment(gke), none).coordinator, "mine:1");
  EXPECT_FALSE(find_place({}, environment(gke), none).several());
}

TEST(TpuHosts, OfSeveralSlicesMeetAtTheFirstOne) {
  const Values one = {{"agent-worker-number", "1"}, {"worker-network-endpoints", "a:b:10.0.1.1,a:b:10.0.1.2"}};
  Values all = one;
  all["tpu-env"] =
      "ACCELERATOR_TYPE: 'v5litepod-16'\nMEGASCALE_NUM_SLICES: '3'\nMEGASCALE_SLICE_ID: '2'\n"
      "MEGASCALE_COORDINATOR_ADDRESS: '10.0.0.1:8080'\n";
  const Place place = find_place(kOnTpu, environment({}), attributes(all));
  EXPECT_EQ(place.process_id, 5);
  EXPECT_EQ(place.num_processes, 6);
  EXPECT_EQ(place.coordinator, "10.0.0.1:8482");
  // Where the first slice is not told, somebody has to name an etcd.
  all["tpu-env"] = "MEGASCALE_NUM_SLICES: '3'\nMEGASCALE_SLICE_ID: '2'\n";
  try {
    find_place(kOnTpu, environment({}), attributes(all));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("6 processes need a coordinator"));
  }
}

TEST(TpuHosts, OneHostIsARunByItself) {
  EXPECT_FALSE(find_place(kOnTpu, environment({}), attributes({})).several());
  const Values alone = {{"agent-worker-number", "0"}, {"worker-network-endpoints", "unknown:unknown:10.0.0.2"}};
  EXPECT_FALSE(find_place(kOnTpu, environment({}), attributes(alone)).several());
  EXPECT_FALSE(find_place(kOnTpu, environment({{"TPU_WORKER_ID", "0"}, {"TPU_WORKER_HOSTNAMES", "localhost"}}), attributes({}))
                   .several());
  // Some chips of a host of several.
  const Values of_two = {{"agent-worker-number", "0"}, {"worker-network-endpoints", "10.0.0.2,10.0.0.3"}};
  EXPECT_TRUE(find_place(kOnTpu, environment({}), attributes(of_two)).several());
  EXPECT_FALSE(find_place(kOnTpu, environment({{"TPU_VISIBLE_CHIPS", "1"}}), attributes(of_two)).several());
}

TEST(TpuHosts, WhatContradictsItselfIsRefused) {
  const auto message = [](const Values& values) -> std::string {
    try {
      find_place(kOnTpu, environment({}), attributes(values));
    } catch (const Error& error) {
      return error.message();
    }
    return "none";
  };
  EXPECT_THAT(message({{"agent-worker-number", "2"}, {"worker-network-endpoints", "a,b"}}), HasSubstr("counted from 0"));
  EXPECT_THAT(message({{"agent-worker-number", "one"}, {"worker-network-endpoints", "a,b"}}), HasSubstr("no whole number"));
}

// Also one that fails at first: a host that took itself for one alone would keep the others waiting.
TEST(TpuHosts, AskTheMetadataServer) {
  std::atomic<int> failures = 1;
  const http::Server server({}, [&](const http::Request& request) -> http::Response {
    if (failures-- > 0) return {.status = 503};
    if (request.header("metadata-flavor") != "Google") return {.status = 403};
    if (request.path == "/computeMetadata/v1/instance/attributes/agent-worker-number") return {.body = "3"};
    return {.status = 404};
  });
  setenv("no_proxy", "127.0.0.1", 1);
  setenv("GCE_METADATA_HOST", ("127.0.0.1:" + std::to_string(server.port())).c_str(), 1);
  EXPECT_EQ(tpu_attribute("agent-worker-number"), "3");
  EXPECT_EQ(tpu_attribute("tpu-env"), "");
  unsetenv("GCE_METADATA_HOST");
}

// Nobody starts an etcd for them, or names one.
TEST(TpuHosts, MeetAtTheFirstHost) {
  const auto host = [](const char* number) {
    return attributes({{"agent-worker-number", number}, {"worker-network-endpoints", "a:b:127.0.0.82,a:b:127.0.0.83"}});
  };
  const auto nobody_is_lost = [](const std::string& who, Exit) { ADD_FAILURE() << who; };
  std::thread second([&] {  // waits for the first one
    const Meeting meeting(kOnTpu, environment({}), host("1"));
    const auto members = join_by_etcd(meeting.place(), nobody_is_lost);
    EXPECT_EQ(members->get("key", std::chrono::seconds(30)), "value");
    members->leave();
  });
  const auto first = std::make_unique<Meeting>(kOnTpu, environment({}), host("0"));
  EXPECT_EQ(first->place().coordinator, "127.0.0.82:8482");
  const auto members = join_by_etcd(first->place(), nobody_is_lost);
  members->put("key", "value");
  members->leave();
  second.join();
}

}  // namespace
}  // namespace tessera::group
