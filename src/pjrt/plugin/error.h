#pragma once
// What a PJRT call that failed throws.

#include <exception>
#include <string>

#include "base/error.h"

namespace tessera::pjrt {

// A device Error (exit code 4) made from a plugin's PJRT_Error. message() reads "PJRT_Client_Compile: INVALID_ARGUMENT: <the
// plugin's words>", where() is the plugin's version line.
class PjrtError : public Error {
 public:
  PjrtError(std::string call, int status, std::string what, std::string where, std::string help)
      : Error(Exit::kDevice, std::move(what), std::move(where), std::move(help)), call_(std::move(call)), status_(status) {}
  const std::string& call() const { return call_; }  // the C API function, or what was awaited
  int status() const { return status_; }             // PJRT_Error_Code

 private:
  std::string call_;
  int status_;
};

// The device (or host) had too little memory: RESOURCE_EXHAUSTED. `train` then names the largest arrays.
bool is_out_of_memory(const std::exception& error);

// Of a program or client of several processes: another one was not reached, or gave no answer. UNAVAILABLE, ABORTED or
// DEADLINE_EXCEEDED, or what NCCL says of its peers and connections.
bool is_of_connection(const std::exception& error);

}  // namespace tessera::pjrt
