// NCCL looks for this plugin of its own as it begins: before the first process makes the id, and once another has got it.
// Loading it waits for the file that FAKE_NCCL_AFTER names.

#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void begin(void) {
  const char* file = getenv("FAKE_NCCL_AFTER");
  while (file && access(file, F_OK) != 0) usleep(10000);
}
