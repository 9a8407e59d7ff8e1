#include "cluster/group/addresses.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera::group {
namespace {

TEST(Addresses, AreThoseOfTheInterfaceThatLeadsThere) {
  EXPECT_EQ(address_towards("127.0.0.1:2379"), "127.0.0.1");
  EXPECT_EQ(address_towards("127.0.0.2"), "127.0.0.1");
  EXPECT_EQ(address_towards("no.such.host.invalid:1,127.0.0.1:2379"), "127.0.0.1");
  // One of the members is on this host, and the others have to reach it.
  std::string outwards = "127.0.0.1";
  try {
    outwards = address_towards("192.0.2.1:1");
  } catch (const Error&) {
    // This host has no network.
  }
  EXPECT_EQ(address_towards("127.0.0.1:2379,192.0.2.1:1"), outwards);
  EXPECT_THROW(address_towards("no.such.host.invalid:1"), Error);
  in_addr address{};
  EXPECT_EQ(::inet_pton(AF_INET, own_address().c_str(), &address), 1) << own_address();
}

}  // namespace
}  // namespace tessera::group
