#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "fuzz/targets.h"
#include "recipe/translate/timm.h"
#include "recipe/translate/yaml.h"

namespace tessera::fuzz {
namespace {

// A file of timm's arguments, in memory: it is read by its path. What is taken can be asked for.
bool timm_yaml(std::string_view bytes) {
  static const int file = memfd_create("fuzz.yaml", 0);
  TESSERA_CHECK(file >= 0 && ftruncate(file, 0) == 0);
  TESSERA_CHECK(pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return parses([&] {
    translate::Arguments arguments(translate::timm_arguments());
    translate::read_yaml("/proc/self/fd/" + std::to_string(file), arguments);
    const std::vector<const translate::Argument*> given = arguments.all_given();
    for (const translate::Argument* argument : given) {
      std::string name = translate::long_name(*argument).substr(2);
      std::ranges::replace(name, '-', '_');
      TESSERA_CHECK(arguments.given(name));
      arguments.text(name), arguments.numbers(name);
      if (argument->takes == translate::Takes::kInteger) arguments.integer(name);
    }
    parses([&] { return arguments.refuse_missing(), true; });
    return !given.empty();
  });
}

}  // namespace

const std::vector<NamedTarget>& recipe_targets() {
  static const std::vector<NamedTarget> all = {{"timm_yaml", timm_yaml, 512}};
  return all;
}

}  // namespace tessera::fuzz
