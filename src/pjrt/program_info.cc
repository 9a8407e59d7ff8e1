#include "pjrt/program_info.h"

#include "pjrt/plugin/call.h"

namespace tessera::pjrt {

CompiledMemory memory_of(const Plugin& plugin, PJRT_Executable* executable) {
  const auto out = PJRT(plugin, PJRT_Executable_GetCompiledMemoryStats)({.executable = executable});
  return {.arguments = out.argument_size_in_bytes,
          .outputs = out.output_size_in_bytes,
          .aliased = out.alias_size_in_bytes,
          .temporaries = out.temp_size_in_bytes,
          .generated_code = out.generated_code_size_in_bytes,
          .peak = out.peak_memory_in_bytes};
}

std::string optimized_program_of(const Plugin& plugin, PJRT_Executable* executable, std::string* format) {
  PJRT_Program program{.struct_size = PJRT_Program_STRUCT_SIZE};
  const auto call = PJRT(plugin, PJRT_Executable_OptimizedProgram);
  call({.executable = executable, .program = &program});
  std::string code(program.code_size, '\0');
  program.code = code.data();
  call({.executable = executable, .program = &program});
  if (format) format->assign(program.format, program.format_size);
  return code;
}

}  // namespace tessera::pjrt
