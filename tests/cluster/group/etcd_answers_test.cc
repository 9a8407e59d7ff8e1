// What etcd answers, and what it does not.
#include "cluster/group/etcd_answers.h"

#include <gtest/gtest.h>

#include "base/text/base64.h"
#include "base/text/json.h"

namespace tessera::group {
namespace {

nlohmann::json answer(const char* text) { return read_json(text).value; }

TEST(EtcdAnswers, AreRead) {
  const auto pairs = etcd_pairs(answer(R"({"kvs": [{"key": "YQ==", "value": "Yg=="}, {"key": "Yw=="}], "count": "2"})"));
  ASSERT_TRUE(pairs && pairs->size() == 2);
  EXPECT_EQ((*pairs)[0].key + (*pairs)[0].value + (*pairs)[1].key + (*pairs)[1].value, "abc");
  EXPECT_EQ(etcd_pairs(answer(R"({"kvs": [{"key": "YQ==", "lease": "7587"}]})"))->at(0).lease, "7587");
  EXPECT_TRUE(etcd_pairs(answer("{}"))->empty());
  EXPECT_EQ(etcd_revision(answer(R"({"header": {"revision": "12"}})")), 12);
  EXPECT_EQ(etcd_lease(answer(R"({"ID": "7587"})")), "7587");
  EXPECT_TRUE(etcd_lease_lives(answer(R"({"result": {"TTL": "10"}})")));
  EXPECT_TRUE(etcd_succeeded(answer(R"({"succeeded": true})")));
  const std::string key = base64("tessera/run/members/00000003");
  const std::string line =
      R"({"result": {"events": [{"type": "DELETE", "kv": {"key": ")" + key + R"("}}, {"kv": {"key": "YQ=="}}]}})";
  ASSERT_EQ(etcd_news(line).deleted.size(), 1u);
  EXPECT_EQ(process_of_key(etcd_news(line).deleted[0]), 3);
  EXPECT_FALSE(etcd_news(line).over);
  const WatchNews late = etcd_news(R"({"result": {"canceled": true, "compact_revision": "12"}})");
  EXPECT_TRUE(late.over && late.deleted.empty());
  EXPECT_EQ(late.oldest, 12);
}

// The thread that watches has nobody who would catch what a conversion throws.
TEST(EtcdAnswers, WhatIsNoneGivesNothing) {
  for (const char* text : {"7", "[]", R"({"kvs": 7})", R"({"kvs": [7]})", R"({"kvs": [{"key": 7}]})",
                           R"({"kvs": [{"key": "?"}]})", R"({"kvs": [{"key": "YQ==", "value": 7}]})"}) {
    const auto pairs = etcd_pairs(answer(text));
    EXPECT_TRUE(!pairs || pairs->empty()) << text;
    EXPECT_TRUE(etcd_news(text).deleted.empty());
  }
  for (const char* text :
       {R"({"header": 7})", R"({"header": {"revision": 7}})", R"({"header": {"revision": "x"}})",
        R"({"header": {"revision": "9223372036854775807"}})", R"({"header": {"revision": "99999999999999999999"}})"}) {
    EXPECT_FALSE(etcd_revision(answer(text))) << text;
  }
  for (const char* line :
       {R"({"result": 7})", R"({"result": {"events": [{"type": 7}]}})", R"({"result": {"events": {"a": 1}}})",
        R"({"result": {"events": [{"type": "DELETE", "kv": []}]}})"}) {
    EXPECT_TRUE(etcd_news(line).deleted.empty()) << line;
  }
  EXPECT_FALSE(etcd_lease(answer(R"({"ID": 7587})")));
  EXPECT_FALSE(etcd_lease_lives(answer(R"({"result": "TTL"})")));
  EXPECT_FALSE(etcd_succeeded(answer(R"({"succeeded": "true"})")));
  EXPECT_FALSE(process_of_key("tessera/run/members/x"));
  EXPECT_FALSE(process_of_key(""));
}

}  // namespace
}  // namespace tessera::group
