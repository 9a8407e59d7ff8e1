// cuDNN of that version; nothing else of it is real.

#include <stdlib.h>

size_t cudnnGetVersion(void) { return 92000; }
size_t cudnnGetCudartVersion(void) { return 13000; }
const char* cudnnGetErrorString(int status) { return status ? "FAKE_ERROR" : "CUDNN_STATUS_SUCCESS"; }
int cudnnCreate(void** handle) { return *handle = malloc(16), 0; }
int cudnnGetProperty(int type, int* value) { return *value = type == 0 ? 9 : type == 1 ? 20 : 0, 0; }
