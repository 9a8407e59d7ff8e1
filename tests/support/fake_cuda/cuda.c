// The driver. Device memory is the host's, so that copies are true; kernels and whatever else is asked for do nothing.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef unsigned long long Pointer;  // CUdeviceptr

enum { kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotFound = 500 };
static const size_t kMemory = (size_t)4 << 30;  // of a device, and none of it is taken before it is written to

static _Thread_local char* current;  // a context is a place of this array
static char contexts[64];

static int devices(void) {
  const char* text = getenv("FAKE_GPUS");
  return text ? atoi(text) : 1;
}

int cuDriverGetVersion(int* version) { return *version = 13000, kSuccess; }
int cuGetErrorName(int status, const char** name) { return *name = status ? "FAKE_ERROR" : "CUDA_SUCCESS", kSuccess; }
int cuGetErrorString(int status, const char** text) { return *text = status ? "the driver is none" : "no error", kSuccess; }

int cuDeviceGetCount(int* count) { return *count = devices(), kSuccess; }
int cuDeviceGet(int* device, int place) { return *device = place, kSuccess; }
int cuDeviceGetName(char* name, int size, int device) { return snprintf(name, size, "NVIDIA H100 80GB HBM3"), kSuccess; }
int cuDeviceGetUuid(char* uuid, int device) { return memset(uuid, device + 1, 16), kSuccess; }
int cuDeviceGetUuid_v2(char* uuid, int device) { return cuDeviceGetUuid(uuid, device); }
int cuDeviceTotalMem_v2(size_t* bytes, int device) { return *bytes = kMemory, kSuccess; }
int cuMemGetInfo_v2(size_t* unused, size_t* total) { return *unused = *total = kMemory, kSuccess; }
int cuDeviceComputeCapability(int* major, int* minor, int device) { return *major = 9, *minor = 0, kSuccess; }
int cuDeviceGetPCIBusId(char* id, int size, int device) { return snprintf(id, size, "0000:%02X:00.0", device + 1), kSuccess; }
int cuDeviceCanAccessPeer(int* can, int device, int peer) { return *can = 0, kSuccess; }

// By CUdevice_attribute, those of an H100 that the plugin asks for; others are 0.
static const int kAttributes[] = {
    [1] = 1024,                      // threads of a block
    [2] = 1024,                      // along x
    [3] = 1024,                      // along y
    [4] = 64,                        // along z
    [5] = 0x7fffffff,                // blocks along x
    [6] = 65535,                     // along y
    [7] = 65535,                     // along z
    [8] = 48 << 10,                  // bytes of shared memory of a block
    [10] = 32,                       // threads of a warp
    [12] = 65536,                    // registers of a block
    [13] = 1980000,                  // kHz
    [16] = 132,                      // multiprocessors
    [36] = 2619000,                  // kHz of the memory
    [37] = 5120,                     // bits of its bus
    [38] = 50 << 20,                 // bytes of the second cache
    [39] = 2048,                     // threads of a multiprocessor
    [41] = 1,                        // one address space with the host
    [75] = 9,         [76] = 0,      // compute capability
    [81] = 227 << 10, [82] = 65536,  // shared memory and registers of a multiprocessor
    [97] = 227 << 10,                // shared memory of a block that asks for it
    [102] = 1,                       // memory by ranges of addresses
    [106] = 32,                      // blocks of a multiprocessor
};
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  return *value = attribute < (int)(sizeof kAttributes / sizeof *kAttributes) ? kAttributes[attribute] : 0, kSuccess;
}

int cuDevicePrimaryCtxRetain(char** context, int device) { return *context = contexts + device, kSuccess; }
int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) { return *flags = 0, *active = 1, kSuccess; }
int cuCtxGetCurrent(char** context) { return *context = current, kSuccess; }
int cuCtxSetCurrent(char* context) { return current = context, kSuccess; }
int cuCtxPushCurrent_v2(char* context) { return current = context, kSuccess; }
int cuCtxPopCurrent_v2(char** context) { return *context = current, kSuccess; }
int cuCtxGetDevice(int* device) { return *device = current ? (int)(current - contexts) : 0, kSuccess; }
int cuCtxGetApiVersion(char* context, unsigned* version) { return *version = 13000, kSuccess; }
int cuStreamGetCtx(void* stream, char** context) { return *context = current, kSuccess; }
int cuCtxGetStreamPriorityRange(int* least, int* greatest) { return *least = 0, *greatest = -5, kSuccess; }

// Handles are told apart, no more.
static int handle(void** out) { return *out = malloc(16), kSuccess; }
int cuStreamCreate(void** stream, unsigned flags) { return handle(stream); }
int cuStreamCreateWithPriority(void** stream, unsigned flags, int priority) { return handle(stream); }
int cuEventCreate(void** event, unsigned flags) { return handle(event); }
int cuEventElapsedTime(float* milliseconds, void* from, void* to) { return *milliseconds = 1, kSuccess; }
int cuEventElapsedTime_v2(float* milliseconds, void* from, void* to) { return *milliseconds = 1, kSuccess; }
int cuModuleLoadData(void** module, const void* image) { return handle(module); }
int cuModuleLoadDataEx(void** module, const void* image, unsigned n, void* options, void* values) { return handle(module); }
int cuModuleLoadFatBinary(void** module, const void* image) { return handle(module); }
int cuModuleGetFunction(void** function, void* module, const char* name) { return handle(function); }
int cuFuncGetAttribute(int* value, int attribute, void* function) { return *value = attribute == 0 ? 1024 : 0, kSuccess; }
int cuFuncGetModule(void** module, void* function) { return handle(module); }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* f, int n, size_t bytes) { return *blocks = 1, kSuccess; }
int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, void* f, int n, size_t bytes, unsigned flags) {
  return *blocks = 1, kSuccess;
}

int cuGraphCreate(void** graph, unsigned flags) { return handle(graph); }
int cuGraphAddNode_v2(void** node, void* graph, const void* after, const void* edges, size_t count, const void* what) {
  return handle(node);
}
int cuGraphNodeGetType(void* node, int* type) { return *type = 0, kSuccess; }
int cuGraphInstantiateWithFlags(void** program, void* graph, unsigned long long flags) { return handle(program); }

// Before each is its size.
static void* take(size_t bytes) {
  char* at = mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return NULL;
  *(size_t*)at = bytes;
  return at + 4096;
}
static int give(void* memory) {
  if (memory) munmap((char*)memory - 4096, *(size_t*)((char*)memory - 4096) + 4096);
  return kSuccess;
}
int cuMemAlloc_v2(Pointer* at, size_t bytes) { return (*at = (Pointer)take(bytes)) ? kSuccess : kOutOfMemory; }
int cuMemAllocManaged(Pointer* at, size_t bytes, unsigned flags) { return cuMemAlloc_v2(at, bytes); }
int cuMemHostAlloc(void** at, size_t bytes, unsigned flags) { return (*at = take(bytes)) ? kSuccess : kOutOfMemory; }
int cuMemAllocHost_v2(void** at, size_t bytes) { return cuMemHostAlloc(at, bytes, 0); }
int cuMemFree_v2(Pointer at) { return give((void*)at); }
int cuMemFreeHost(void* at) { return give(at); }
int cuMemHostGetDevicePointer_v2(Pointer* at, void* host, unsigned flags) { return *at = (Pointer)host, kSuccess; }
int cuModuleGetGlobal_v2(Pointer* at, size_t* bytes, void* module, const char* name) {
  if (bytes) *bytes = 1 << 20;
  return cuMemAlloc_v2(at, 1 << 20);
}
int cuMemAddressReserve(Pointer* at, size_t bytes, size_t alignment, Pointer wanted, unsigned long long flags) {
  return cuMemAlloc_v2(at, bytes);
}
int cuMemAddressFree(Pointer at, size_t bytes) { return give((void*)at); }
int cuMemCreate(Pointer* at, size_t bytes, const void* properties, unsigned long long flags) { return handle((void**)at); }
int cuMemGetAllocationGranularity(size_t* bytes, const void* properties, int kind) { return *bytes = 2 << 20, kSuccess; }
int cuMemGetAddressRange_v2(Pointer* base, size_t* bytes, Pointer at) { return kNotFound; }
int cuPointerGetAttribute(void* value, int attribute, Pointer at) { return kInvalidValue; }

static int copy(Pointer to, Pointer from, size_t bytes) { return memcpy((void*)to, (void*)from, bytes), kSuccess; }
int cuMemcpyHtoD_v2(Pointer to, const void* from, size_t bytes) { return copy(to, (Pointer)from, bytes); }
int cuMemcpyDtoH_v2(void* to, Pointer from, size_t bytes) { return copy((Pointer)to, from, bytes); }
int cuMemcpyDtoD_v2(Pointer to, Pointer from, size_t bytes) { return copy(to, from, bytes); }
int cuMemcpyHtoDAsync_v2(Pointer to, const void* from, size_t bytes, void* stream) { return copy(to, (Pointer)from, bytes); }
int cuMemcpyDtoHAsync_v2(void* to, Pointer from, size_t bytes, void* stream) { return copy((Pointer)to, from, bytes); }
int cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t bytes, void* stream) { return copy(to, from, bytes); }
int cuMemcpyAsync(Pointer to, Pointer from, size_t bytes, void* stream) { return copy(to, from, bytes); }
static int set(Pointer at, unsigned word, size_t words) {
  for (size_t i = 0; i < words; ++i) ((unsigned*)at)[i] = word;
  return kSuccess;
}
int cuMemsetD8_v2(Pointer at, unsigned char byte, size_t bytes) { return memset((void*)at, byte, bytes), kSuccess; }
int cuMemsetD8Async(Pointer at, unsigned char byte, size_t bytes, void* stream) { return cuMemsetD8_v2(at, byte, bytes); }
int cuMemsetD32_v2(Pointer at, unsigned word, size_t words) { return set(at, word, words); }
int cuMemsetD32Async(Pointer at, unsigned word, size_t words, void* stream) { return set(at, word, words); }

// Streams are done with all they were given.
int cuLaunchHostFunc(void* stream, void (*call)(void*), void* argument) { return call(argument), kSuccess; }
int cuStreamAddCallback(void* stream, void (*call)(void*, int, void*), void* argument, unsigned flags) {
  return call(stream, 0, argument), kSuccess;
}
int cuStreamIsCapturing(void* stream, int* status) { return *status = 0, kSuccess; }
