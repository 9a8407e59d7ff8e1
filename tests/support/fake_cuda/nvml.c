// The library of the driver's figures, which has none.

#include <string.h>

int nvmlInit_v2(void) { return 0; }
int nvmlInit(void) { return 0; }
int nvmlInitWithFlags(unsigned flags) { return 0; }
int nvmlShutdown(void) { return 0; }
const char* nvmlErrorString(int status) { return status ? "Not Supported" : "Success"; }
int nvmlSystemGetDriverVersion(char* version, unsigned size) { return strncpy(version, "580.65.06", size), 0; }
int nvmlSystemGetCudaDriverVersion(int* version) { return *version = 13000, 0; }
int nvmlSystemGetCudaDriverVersion_v2(int* version) { return *version = 13000, 0; }
