#include "plan/compiled.h"

#include <string_view>

#include "base/error.h"
#include "base/text/json.h"

namespace tessera::plan {
namespace {

using nlohmann::json;

// A line of JSON, and then the program's bytes.
std::string payload_of(const CompilerAccount& account) {
  json header = {{"seconds", account.seconds}, {"format", account.format}};
  const pjrt::CompiledMemory& memory = account.memory;
  header["memory"] = {memory.arguments, memory.outputs, memory.aliased, memory.temporaries, memory.generated_code, memory.peak};
  if (account.refusal) {
    const pjrt::PjrtError& error = *account.refusal;
    header["refusal"] = {{"call", error.call()},
                         {"status", error.status()},
                         {"message", error.message()},
                         {"where", error.where()},
                         {"help", error.help()}};
  }
  return header.dump(-1, ' ', false, json::error_handler_t::replace) + '\n' + account.bytes;
}

CompilerAccount read_payload(std::string_view payload) {
  const size_t end = payload.find('\n');
  if (end == std::string_view::npos) throw data_error("no header");
  const json header = parse_json(payload.substr(0, end), "a plan's account");
  CompilerAccount account;
  account.seconds = header.at("seconds");
  account.format = header.at("format");
  account.bytes = payload.substr(end + 1);
  const json& memory = header.at("memory");
  account.memory = {memory.at(0), memory.at(1), memory.at(2), memory.at(3), memory.at(4), memory.at(5)};
  if (header.contains("refusal")) {
    const json& error = header["refusal"];
    account.refusal.emplace(error.at("call"), error.at("status"), error.at("message"), error.at("where"), error.at("help"));
  }
  return account;
}

}  // namespace

std::optional<CompilerAccount> find_account(const pjrt::ExecutableCache& cache, const Hash128& key) {
  const auto found = cache.find(key);
  if (!found.payload) return std::nullopt;
  try {
    return read_payload(*found.payload);
  } catch (const Error&) {
    return std::nullopt;
  } catch (const json::exception&) {  // sealed by another version of this program
    return std::nullopt;
  }
}

void keep_account(const pjrt::ExecutableCache& cache, const Hash128& key, const CompilerAccount& account) {
  cache.keep(key, payload_of(account));  // without a cache the next plan compiles
}

Compiled read_account(const CompilerAccount& account, bool kept) {
  if (account.refusal) throw pjrt::PjrtError(*account.refusal);
  return {account.memory, account.seconds, kept, pjrt::parse_hlo(account.bytes, account.format)};
}

}  // namespace tessera::plan
