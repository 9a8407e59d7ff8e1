#include "base/system/shared_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace tessera {
namespace {

using testing::HasSubstr;

Error missing(const std::string& reason) { return data_error("no library: " + reason); }

std::string message_of(const Module& module) {
  try {
    (void)load_module(module, 1);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kDevice);
    return error.what();
  }
  return {};
}

Module sample_module() {
  return {.file = "tessera_absent.so",
          .environment = "TESSERA_ABSENT",
          .function = "tessera_absent_api",
          .needed_by = "tests need",
          .code = Exit::kDevice,
          .help_missing = "build it",
          .help_unloadable = "mend it"};
}

TEST(SharedLibrary, FindsFunctionsOfALibraryOfTheSystem) {
  const SharedLibrary library("libm.so.6", missing);
  double (*cosine)(double) = nullptr;
  library.find("cos", cosine);
  EXPECT_EQ(cosine(0.0), 1.0);
}

TEST(SharedLibrary, SaysWhatIsMissing) {
  const SharedLibrary library("libm.so.6", missing);
  void (*function)() = nullptr;
  const auto text_of = [](const auto& run) -> std::string {
    try {
      run();
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_THAT(text_of([&] { library.find("no_such_function", function); }), HasSubstr("no_such_function"));
  EXPECT_THAT(text_of([] { SharedLibrary("no_such_library.so", missing); }), HasSubstr("no_such_library.so"));
}

TEST(SharedLibrary, AModuleThatIsNotThereIsNoLibraryOrIsAnotherOneIsAMessageEach) {
  EXPECT_EQ(message_of(sample_module()), "tests need tessera_absent.so, which is not beside the program\nhelp: build it");
  ::setenv("TESSERA_ABSENT", "/dev/null", 1);
  EXPECT_THAT(message_of(sample_module()), testing::AllOf(HasSubstr("cannot load `/dev/null`"), HasSubstr("help: mend it")));
  ::setenv("TESSERA_ABSENT", "libm.so.6", 1);
  EXPECT_THAT(message_of(sample_module()), HasSubstr("`libm.so.6` belongs to another version of the program"));
  ::unsetenv("TESSERA_ABSENT");
}

}  // namespace
}  // namespace tessera
