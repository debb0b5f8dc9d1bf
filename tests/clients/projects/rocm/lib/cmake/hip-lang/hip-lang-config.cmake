# The package that CMake loads for the language HIP.
add_library(hip-lang::amdhip64 SHARED IMPORTED)
get_filename_component(_lib "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
set_target_properties(hip-lang::amdhip64 PROPERTIES IMPORTED_LOCATION "${_lib}/libamdhip64.so")
add_library(hip-lang::device INTERFACE IMPORTED)
set_target_properties(hip-lang::device PROPERTIES INTERFACE_LINK_LIBRARIES hip-lang::amdhip64)
set(_CMAKE_HIP_DEVICE_RUNTIME_TARGET hip-lang::device)
