#pragma once
// Programs. Those of this process's devices are the inner plugin's alone. One that has other processes' devices too runs on all of
// them here, once the processes have told each other what their arguments hold.

#include <pjrt_c_api.h>

namespace tessera::joint {

void put_program_functions(PJRT_Api& api);

}  // namespace tessera::joint
