#include "pjrt/code_names.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "store/file.h"

namespace tessera::pjrt {
namespace {

constexpr std::string_view kList = "__jit_debug_descriptor";

// As GDB's JIT interface lays them out.
struct JitEntry {
  uintptr_t next, previous, image;
  uint64_t size;
};
struct JitList {
  uint32_t version, action;
  uintptr_t relevant, first;
};

// Of this process, by a call that fails where nothing is mapped: other threads may change the list meanwhile.
bool copy_memory(uintptr_t from, void* to, size_t size) {
  const iovec local{to, size}, remote{reinterpret_cast<void*>(from), size};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(size);
}

// "Eigen::internal::gebp_kernel<float, …>::operator()(…)" -> "Eigen::internal::gebp_kernel::operator()".
// Anonymous namespaces are left out.
std::string short_name(std::string demangled) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  for (size_t at = 0; (at = demangled.find(kAnonymous, at)) != std::string::npos;) demangled.erase(at, kAnonymous.size());
  std::string out;
  int depth = 0;
  for (const char c : demangled) {
    if (c == '<') ++depth;
    if (depth == 0 && c == '(' && !out.ends_with("operator") && !out.empty()) break;
    if (depth == 0) out += c;
    if (c == '>') --depth;
  }
  const size_t result = out.rfind(' ');  // what a function template returns stands before its name
  return result == std::string::npos || out.find("operator") < result ? out : out.substr(result + 1);
}

std::string readable_name(std::string_view symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(
      abi::__cxa_demangle(std::string(symbol).c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? short_name(demangled.get()) : std::string(symbol);
}

uintptr_t base_of(const Plugin& plugin) {
  Dl_info info{};
  return dladdr(plugin.api(), &info) != 0 ? reinterpret_cast<uintptr_t>(info.dli_fbase) : 0;
}

}  // namespace

CodeNames::CodeNames(const Plugin& plugin) {
  const uintptr_t base = base_of(plugin);
  if (base == 0) return;
  try {
    file_ = store::local_files().map(plugin.path());
  } catch (const Error&) {
    return;
  }
  const std::vector<ElfSymbol> symbols = elf_symbols(file_.data);
  add(symbols, base, false);
  const auto list = std::ranges::find(symbols, kList, &ElfSymbol::name);
  if (list != symbols.end()) add_compiled(base + list->address);
  if (!file_.readable()) functions_.clear();
  std::ranges::sort(functions_, {}, &Function::begin);
}

void CodeNames::add(const std::vector<ElfSymbol>& symbols, uintptr_t base, bool compiled) {
  for (const ElfSymbol& symbol : symbols) {
    if (!symbol.is_function || symbol.size == 0) continue;
    functions_.push_back({base + symbol.address, base + symbol.address + symbol.size, symbol.name, compiled});
  }
}

void CodeNames::add_compiled(uintptr_t list) {
  constexpr uint64_t kLargest = uint64_t{1} << 28U;
  constexpr int kMax = 1'000'000;  // of a list that was changed while it was read, and has no end
  JitList head{};
  JitEntry entry{};
  if (!copy_memory(list, &head, sizeof(head))) return;
  int count = 0;
  for (uintptr_t at = head.first; at != 0 && count < kMax && copy_memory(at, &entry, sizeof(entry)); at = entry.next, ++count) {
    if (entry.size > kLargest) continue;
    std::vector<std::byte> object(entry.size);
    if (!copy_memory(entry.image, object.data(), object.size())) continue;
    objects_.push_back(std::move(object));
    add(elf_symbols(objects_.back()), 0, true);
  }
}

std::optional<CodeName> CodeNames::find(uintptr_t address) const {
  auto after = std::ranges::upper_bound(functions_, address, {}, &Function::begin);
  if (after == functions_.begin()) return std::nullopt;
  const Function& function = *--after;
  if (address >= function.end) return std::nullopt;
  return CodeName{function.compiled ? std::string(function.name) : readable_name(function.name), function.compiled};
}

}  // namespace tessera::pjrt
