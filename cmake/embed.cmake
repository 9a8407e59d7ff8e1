# Files as parts of a program.

# tessera_embed(TARGET NAMESPACE FILE NAME [FILE NAME...]): adds to TARGET a source that defines `std::string_view NAME` in
# NAMESPACE as each file's bytes. Read when CMake configures, which it does again when one of them changes.
function(tessera_embed TARGET NAMESPACE)
  set(TEXT "#include <string_view>\nnamespace ${NAMESPACE} {\n")
  while(ARGN)
    list(POP_FRONT ARGN FILE NAME)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${FILE})
    file(READ ${FILE} BYTES HEX)
    string(REGEX REPLACE "(..)" "0x\\1," BYTES "${BYTES}")
    string(APPEND TEXT "static const unsigned char ${NAME}_bytes[] = {${BYTES}};\n"
      "extern const std::string_view ${NAME};\n"
      "const std::string_view ${NAME}{reinterpret_cast<const char*>(${NAME}_bytes), sizeof ${NAME}_bytes};\n")
  endwhile()
  string(APPEND TEXT "}\n")
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/embedded/${TARGET}.cc CONTENT "${TEXT}" @ONLY)
  target_sources(${TARGET} PRIVATE ${CMAKE_BINARY_DIR}/embedded/${TARGET}.cc)
endfunction()
