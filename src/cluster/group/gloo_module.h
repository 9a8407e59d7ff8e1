#pragma once
// What the program and tessera_gloo.so agree on: C alone, so that neither depends on the other's library.

#include <cstddef>
#include <cstdint>

extern "C" {

constexpr int32_t kTesseraGlooVersion = 1;

// Where the processes find each other's addresses. A function that fails returns false; the module then says so.
struct TesseraGlooStore {
  void* self;
  bool (*put)(void* self, const char* key, const char* value, size_t bytes);
  // Waits for it. `take` is called once with the value.
  bool (*get)(void* self, const char* key, void* taker, void (*take)(void* taker, const char* value, size_t bytes));
};

// Bytes for another process, or from it.
struct TesseraGlooPart {
  int32_t process;
  void* data;
  size_t bytes;
};

// Functions that can fail give a text for free_text in `reason`; null there means that memory ran out.
struct TesseraGlooApi {
  int32_t version;
  void (*free_text)(char* text);
  // Connects to all others over TCP, from this host's `address`. Null when it fails.
  void* (*connect)(int32_t process, int32_t count, const char* address, const TesseraGlooStore* store, int64_t timeout_ms,
                   char** reason);
  void (*close)(void* context);
  // Sends and receives all parts and waits for that. Both ends of a part name the same slot, which no other transfer under way
  // between them has. From any thread.
  bool (*transfer)(void* context, const TesseraGlooPart* sends, size_t send_count, const TesseraGlooPart* receives,
                   size_t receive_count, uint64_t slot, char** reason);
};

// The module's one symbol.
using TesseraGlooApiFn = const TesseraGlooApi* (*)();
}
