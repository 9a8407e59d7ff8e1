#include "pjrt/program/compile_options.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

using namespace std::string_literals;

TEST(CompileOptions, OneDevice) {
  EXPECT_EQ(pjrt::compile_options_proto({}), "\x1a\x09\x20\x01\x28\x01\x30\x00\x98\x01\x01"s);
  EXPECT_EQ(pjrt::compile_options_proto({.donated = {1, 2}}), pjrt::compile_options_proto({})) << "donation is about calls";
}

TEST(CompileOptions, DevicesArePerPartitionThenReplica) {
  const std::string proto = pjrt::compile_options_proto(
      {.num_replicas = 2, .num_partitions = 2, .use_shardy = false, .device_ids = {10, 11, 300, 13}});
  const std::string assignment = "\x08\x02\x10\x02"s + "\x1a\x05\x08\x0a\x08\xac\x02"s + "\x1a\x04\x08\x0b\x08\x0d"s;
  const std::string build = "\x20\x02\x28\x02\x30\x01"s + "\x4a\x11"s + assignment + "\x98\x01\x00"s;
  EXPECT_EQ(proto, "\x1a\x1c"s + build);
}

TEST(CompileOptions, OptimizationLevelsAreEffortLevels) {
  const std::string options = "\x20\x01\x28\x01\x30\x00\x98\x01\x01"s;
  EXPECT_EQ(pjrt::compile_options_proto({.optimization_level = 0}), "\x1a\x0c"s + options + "\xc0\x01\x09"s);
  EXPECT_EQ(pjrt::compile_options_proto({.optimization_level = 3}), "\x1a\x0c"s + options + "\xc0\x01\x27"s);
  EXPECT_THROW(pjrt::compile_options_proto({.optimization_level = 4}), InternalError);
}

TEST(CompileOptions, FlagsCarryTheirType) {
  const std::string plain = pjrt::compile_options_proto({});
  const std::string with = pjrt::compile_options_proto(
      {.flags = {
           {"a", true}, {"b", int64_t{7}}, {"c", 1.0}, {"d", std::string("x")}, {"e", int64_t{-1}}, {"f", std::string()}}});
  EXPECT_EQ(with, plain + "\x3a\x07\x0a\x01\x61\x12\x02\x10\x01"s + "\x3a\x07\x0a\x01\x62\x12\x02\x18\x07"s +
                      "\x3a\x0e\x0a\x01\x63\x12\x09\x21\0\0\0\0\0\0\xf0\x3f"s + "\x3a\x08\x0a\x01\x64\x12\x03\x0a\x01x"s +
                      "\x3a\x10\x0a\x01\x65\x12\x0b\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s +
                      "\x3a\x07\x0a\x01\x66\x12\x02\x0a\0"s);
}

TEST(CompileOptions, WrongNumberOfDevices) {
  EXPECT_THROW(pjrt::compile_options_proto({.num_partitions = 4, .device_ids = {0, 1}}), InternalError);
  EXPECT_THROW(pjrt::compile_options_proto({.num_partitions = 0}), InternalError);
}

}  // namespace
}  // namespace tessera
