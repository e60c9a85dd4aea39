# SPDX-License-Identifier: Apache-2.0
# Files as C++ constants. As a script: cmake -DNAME= -DINPUT= -DOUTPUT= -P FolioEmbed.cmake writes one.
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ "${INPUT}" bytes HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  file(WRITE "${OUTPUT}" "#include <string_view>\nnamespace {\nconstexpr unsigned char bytes[] = {\n${bytes}0};\n}\n"
       "extern const std::string_view ${NAME};\n"
       "const std::string_view ${NAME}{reinterpret_cast<const char*>(bytes), sizeof bytes - 1};\n")
  return()
endif()

set(folio_embed_script ${CMAKE_CURRENT_LIST_FILE})

# folio_embed(target name file): `extern const std::string_view name;` holds the bytes of `file`, as they are when it is built.
function(folio_embed target name file)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/embedded_${name}.cpp)
  cmake_path(ABSOLUTE_PATH file)
  add_custom_command(OUTPUT ${source} DEPENDS ${file} ${folio_embed_script} VERBATIM
                     COMMAND ${CMAKE_COMMAND} -DNAME=${name} -DINPUT=${file} -DOUTPUT=${source} -P ${folio_embed_script})
  target_sources(${target} PRIVATE ${source})
endfunction()
