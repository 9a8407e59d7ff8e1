#include "host/register.h"

#include "pjrt/plugin/ffi.h"

namespace tessera::host {

Kernels register_kernels(const pjrt::Client& client) {
  Kernels kernels;
  if (client.platform_name() != "cpu") return kernels;
  for (const Kernel* kernel : kernel_table()) {
    if (!kernel->available()) continue;
    bool callable = true;
    for (const Entry& entry : kernel->functions) {
      void* handler = reinterpret_cast<void*>(entry.handler);
      callable = callable && pjrt::register_ffi(client.plugin(), call_target(entry.name), "Host", handler);
    }
    if (callable) kernels.add(*kernel);
  }
  return kernels;
}

}  // namespace tessera::host
