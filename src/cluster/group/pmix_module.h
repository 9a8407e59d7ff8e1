#pragma once
// What the program and tessera_pmix.so agree on: C alone, so that neither depends on the other's library.

#include <cstddef>
#include <cstdint>

extern "C" {

constexpr int32_t kTesseraPmixVersion = 1;

struct TesseraPmixPlace {
  int32_t process, count;
  bool one_host;  // all processes are on this one
};

// A function that fails returns false and gives a text for free_text in `reason`; null there means that memory ran out. All are
// called by one thread, in this order.
struct TesseraPmixApi {
  int32_t version;
  void (*free_text)(char* text);
  // Comes to the server of mpirun or srun, which says who this process is.
  bool (*open)(TesseraPmixPlace* place, char** reason);
  // Gives all processes the value of process 0. All of them call it, once, and wait for each other. `take` is called with it.
  bool (*share)(const char* value, size_t bytes, void* taker, void (*take)(void* taker, const char* value, size_t bytes),
                char** reason);
  // Goes from the server: how this process ends is none of its business then.
  void (*close)();
};

// The module's one symbol.
using TesseraPmixApiFn = const TesseraPmixApi* (*)();
}
