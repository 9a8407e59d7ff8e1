#pragma once
// Shared libraries that the program loads when it first uses them, so that it runs without them: libraries of the system, and
// the program's own modules (modules/), which hold what needs large libraries. What is loaded stays so until the process ends.

#include <cstdint>
#include <functional>
#include <string>

#include "base/error.h"

namespace tessera {

class SharedLibrary {
 public:
  // Makes the Error for a library that cannot be loaded or lacks a function; `reason` is the dynamic linker's.
  using Missing = std::function<Error(const std::string& reason)>;

  // `file` is a path, or a name that the dynamic linker looks for ("libcurl.so.4"). Throws missing(reason).
  SharedLibrary(const std::string& file, Missing missing);

  // The function `name`, as of the type of `function`. Throws missing(reason) where the library has none.
  template <class Function>
  void find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(address(name));
    if (!function) throw missing_(reason());
  }
  // Null where the library has no such function.
  void* address(const char* name) const;

 private:
  static std::string reason();

  void* library_;
  Missing missing_;
};

// A module of the program: NAME.so beside it or in its build's bin/, which gives a table of functions.
struct Module {
  std::string file;                           // "tessera_parquet.so"
  std::string environment;                    // a variable that names the file elsewhere
  std::string function;                       // which gives the table, `const void* function()`
  std::string needed_by;                      // begins the message "… tessera_parquet.so, which is not beside the program"
  Exit code = Exit::kData;                    // of every Error here
  std::string help_missing, help_unloadable;  // what to do where the file is missing, and where it cannot be loaded
};

// The module's table, which begins with its version. Throws an Error where there is none of this version.
const void* load_module(const Module& module, int32_t version);

template <class Api>
const Api& module_api(const Module& module, int32_t version) {
  return *static_cast<const Api*>(load_module(module, version));
}

}  // namespace tessera
