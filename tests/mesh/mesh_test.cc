#include "mesh/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera::mesh {
namespace {

std::string error_of(std::string_view text, int64_t devices) {
  try {
    parse_mesh(text, devices, "recipe.toml:3");
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Mesh, FillsInWhatIsLeft) {
  EXPECT_EQ(parse_mesh("", 1).text(), "replica=1");
  EXPECT_EQ(parse_mesh("replica=-1", 8).text(), "replica=8");
  const Mesh m = parse_mesh("replica=2, fsdp=-1,tensor=2", 16);
  EXPECT_EQ(m.text(), "replica=2, fsdp=4, tensor=2");
  EXPECT_EQ(m.devices(), 16);
  EXPECT_EQ(m.size("fsdp"), 4);
  EXPECT_EQ(parse_mesh("fsdp=8", 8).size("replica"), 1);
}

TEST(Mesh, MistakesAreExplained) {
  using ::testing::HasSubstr;
  EXPECT_THAT(error_of("replica=3", 8), AllOf(HasSubstr("does not fit 8 devices"), HasSubstr("1, 2, 4, 8"),
                                              HasSubstr("--devices 3"), HasSubstr("recipe.toml:3")));
  EXPECT_THAT(error_of("replica=3, fsdp=-1", 8), HasSubstr("does not fit"));
  EXPECT_THAT(error_of("fdsp=8", 8), HasSubstr("did you mean `fsdp`?"));
  EXPECT_THAT(error_of("fsdp", 8), HasSubstr("needs a size"));
  EXPECT_THAT(error_of("fsdp=0", 8), HasSubstr("needs a size"));
  EXPECT_THAT(error_of("fsdp=1, fsdp=8", 8), HasSubstr("twice"));
  EXPECT_THAT(error_of("fsdp=-1, replica=-1", 8), HasSubstr("only one"));
}

}  // namespace
}  // namespace tessera::mesh
