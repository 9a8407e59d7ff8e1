// The runtime, as far as the plugin and its NCCL ask for it before a kernel runs.

#include <stdlib.h>

int cudaRuntimeGetVersion(int* version) { return *version = 13000, 0; }
int cudaDriverGetVersion(int* version) { return *version = 13000, 0; }
const char* cudaGetErrorName(int status) { return status ? "FAKE_ERROR" : "cudaSuccess"; }
const char* cudaGetErrorString(int status) { return status ? "the driver is none" : "no error"; }
int cudaGetDeviceCount(int* count) {
  const char* text = getenv("FAKE_GPUS");
  return *count = text ? atoi(text) : 1, 0;
}
static _Thread_local int current;
int cudaGetDevice(int* device) { return *device = current, 0; }
int cudaSetDevice(int device) { return current = device, 0; }
void** __cudaRegisterFatBinary(void* binary) {
  static void* module;
  return &module;
}
