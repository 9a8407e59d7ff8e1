#pragma once
// Names for addresses in a plugin's code: of the functions that it has compiled in memory, which XLA names after the instructions
// of the optimized program, and of those in its file.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/system/elf_symbols.h"
#include "pjrt/plugin/plugin.h"
#include "store/encoding/bytes.h"

namespace tessera::pjrt {

struct CodeName {
  std::string name;       // of the plugin's own functions without their arguments
  bool compiled = false;  // in memory
};

// As things are when it is made. LLVM lists what it compiles for debuggers, as GDB's JIT interface says
// (https://sourceware.org/gdb/current/onlinedocs/gdb.html/JIT-Interface.html); the list's address is a symbol of the plugin's
// file. A plugin without symbols has no names.
class CodeNames {
 public:
  CodeNames() = default;  // none
  explicit CodeNames(const Plugin& plugin);

  std::optional<CodeName> find(uintptr_t address) const;

 private:
  struct Function {
    uintptr_t begin, end;
    std::string_view name;  // in the file, or in `objects_`
    bool compiled;
  };
  void add(const std::vector<ElfSymbol>& symbols, uintptr_t base, bool compiled);
  void add_compiled(uintptr_t list);

  store::Bytes file_;
  std::vector<std::vector<std::byte>> objects_;
  std::vector<Function> functions_;  // by where they begin
};

}  // namespace tessera::pjrt
