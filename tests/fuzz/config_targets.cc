#include <sys/mman.h>
#include <unistd.h>

#include "base/text/call.h"
#include "config/byte_size.h"
#include "config/duration.h"
#include "config/section.h"
#include "fuzz/targets.h"

namespace tessera::fuzz {
namespace {

// A field of every type.
struct Options {
  bool flag = false;
  int64_t count = 3;
  double rate = 0.5;
  std::string text = "x";
  std::vector<bool> flags;
  std::vector<int64_t> counts;
  std::vector<double> rates;
  std::vector<std::string> texts;
  std::optional<bool> maybe_flag;
  std::optional<int64_t> maybe_count;
  std::optional<std::vector<std::string>> maybe_texts;

  template <class Visitor>
  void visit(Visitor&& field) {
    field("text", text, "");
    field("flag", flag, "");
    field("count", count, "");
    field("rate", rate, "");
    field("flags", flags, "");
    field("counts", counts, "");
    field("rates", rates, "");
    field("texts", texts, "");
    field("maybe_flag", maybe_flag, "");
    field("maybe_count", maybe_count, "");
    field("maybe_texts", maybe_texts, "");
  }
};

// What messages say of a key.
void ask(const config::Section& section) {
  constexpr const char* kKey = "rate";
  TESSERA_CHECK(section.place(kKey).find(section.path(kKey)) != std::string::npos);
  TESSERA_CHECK(!section.has(kKey) || !section.where(kKey).empty());
  TESSERA_CHECK(!parses([&] { return section.fail(kKey, "is wrong"), true; }));
  TESSERA_CHECK(!parses([&] { return section.fail_missing(kKey), true; }));
  parses([&] { return section.keys().empty(); });
}

// What documentation says that a key is set to is read as that.
void check_documented(const Options& options, const std::string& dump) {
  std::string text;
  for (const config::KeyDoc& doc : config::describe(options)) {
    TESSERA_CHECK(!doc.type.empty());
    if (!doc.default_value.empty()) text += doc.key + " = " + doc.default_value + "\n";
  }
  Options again;
  config::Section section = config::parse_recipe(text);
  section.bind(again);
  TESSERA_CHECK(section.dump() == dump);
}

// The same recipe as a file, in memory.
std::string dump_of_file(std::string_view text) {
  static const int file = memfd_create("fuzz.toml", 0);
  TESSERA_CHECK(file >= 0 && ftruncate(file, 0) == 0);
  TESSERA_CHECK(pwrite(file, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  Options options;
  config::Section section = config::load_recipe("/proc/self/fd/" + std::to_string(file));
  section.bind_part(options);
  return section.dump();
}

// A recipe up to the first zero byte, and overrides behind it, a zero byte between two.
bool recipe(std::string_view bytes) {
  std::vector<std::string> overrides;
  std::string_view text = bytes.substr(0, bytes.find('\0'));
  for (size_t at = text.size(); at < bytes.size();) {
    const size_t end = bytes.find('\0', at + 1);
    overrides.emplace_back(bytes.substr(at + 1, end == std::string_view::npos ? end : end - at - 1));
    at = end;
  }
  const auto read = [](std::string_view recipe_text, const std::vector<std::string>& with) {
    config::Section section = config::parse_recipe(recipe_text, "fuzz", with);
    Options own, inner;
    section.bind_part(own);
    config::Section model = section.section("model");
    model.name("vit");
    model.bind(inner);
    if (section.has("part")) section.section("part").text("kind");
    section.finish();
    return section.dump();
  };
  parses([&] {
    config::Section section = config::parse_recipe(text);
    ask(section);
    if (section.has("model")) ask(section.section("model"));
    TESSERA_CHECK(config::difference(text, text).empty());
    return config::difference(text, "seed = 1").empty();
  });
  parses([&] {
    Options options;
    config::Section section = config::parse_recipe(text);
    section.bind(options);
    check_documented(options, section.dump());
    return true;
  });
  return parses([&] {
    const std::string dump = read(text, overrides);
    TESSERA_CHECK(read(dump, {}) == dump && dump_of_file(dump).find("model") != std::string::npos);
    return true;
  });
}

void read_call(const Call& call, int depth) {
  for (const CallArg& arg : call.args) {
    parse_number(arg.value);
    parse_bool(arg.value);
    if (depth < 8) {
      parses([&] {
        read_call(parse_call(arg.value, "fuzz"), depth + 1);
        return true;
      });
    }
  }
  parses([&] {
    CallReader reader(call, "fuzz");
    reader.integer("size", 1);
    reader.number("prob", 0.5);
    reader.boolean("flag", false);
    reader.text("mode", "m");
    reader.numbers("range", std::vector<double>{});
    reader.finish();
    return true;
  });
  TESSERA_CHECK(call.args.empty() || CallReader(call, "fuzz").has(call.args[0].key) || call.args[0].key.empty());
  parses([&] { return !CallReader(call, "fuzz").rest_texts().empty(); });
}

bool chain(std::string_view bytes) {
  return parses([&] {
    for (const Call& call : parse_chain(bytes, "fuzz")) read_call(call, 0);
    return true;
  });
}

bool amount(std::string_view bytes) {
  const bool duration = parses([&] {
    const config::Duration found = config::parse_duration(bytes, "fuzz");
    TESSERA_CHECK(found.value >= 0 && config::parse_duration(config::to_string(found)) == found);
    parses([&] { return config::to_steps(found, 128, 1'281'167, 0) >= 0; });
    return config::to_steps(found, 128, 1'281'167, 90'000) >= 0;
  });
  const bool size = parses([&] {
    const int64_t found = config::parse_byte_size(bytes, "fuzz");
    TESSERA_CHECK(1 <= found && found <= 1'000'000'000'000'000);
    return true;
  });
  return duration || size;
}

}  // namespace

const std::vector<NamedTarget>& config_targets() {
  static const std::vector<NamedTarget> all = {{"recipe", recipe, 1024}, {"chain", chain, 1024}, {"amount", amount, 64}};
  return all;
}

}  // namespace tessera::fuzz
