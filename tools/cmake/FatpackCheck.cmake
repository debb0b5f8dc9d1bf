# fatpack_check(target ARCHS arch...  [OPTIONS option...]  [NAME name])
#
# Adds a test that holds what a target builds against a policy: every unit of its device code must serve each
# architecture. Run it with ctest.
#
#   include(FatpackCheck)
#   add_library(kernels SHARED kernels.cu)
#   fatpack_check(kernels ARCHS sm_80 sm_90 sm_120+ptx)
#
# Of ARCHS, those that CMake knows (80, 90-real, 120-virtual) are taken too. FATPACK_COMMAND names the command.

find_program(FATPACK_COMMAND fatpack DOC "the command fatpack")

function(fatpack_check target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "NAME" "ARCHS;OPTIONS")
  if(NOT FATPACK_COMMAND)
    message(FATAL_ERROR "fatpack_check: fatpack is not found; run pip install in its checkout, or set FATPACK_COMMAND")
  endif()
  if(NOT TARGET ${target})
    message(FATAL_ERROR "fatpack_check: there is no target ${target}")
  endif()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "fatpack_check: unknown arguments ${arg_UNPARSED_ARGUMENTS}; write ARCHS in front of them")
  endif()
  if(NOT arg_ARCHS AND NOT arg_OPTIONS)
    message(FATAL_ERROR "fatpack_check: nothing is asked of ${target}; give ARCHS")
  endif()
  set(required "")
  foreach(arch IN LISTS arg_ARCHS)
    if(arch MATCHES "^([0-9]+[af]?)(-real)?$")
      set(arch "sm_${CMAKE_MATCH_1}")
    elseif(arch MATCHES "^([0-9]+)-virtual$")
      set(arch "sm_${CMAKE_MATCH_1}+ptx")
    endif()
    list(APPEND required "--require=${arch}")
  endforeach()
  if(NOT arg_NAME)
    set(arg_NAME "fatpack_check.${target}")
  endif()
  add_test(NAME ${arg_NAME} COMMAND ${FATPACK_COMMAND} check --no-config ${required} ${arg_OPTIONS} $<TARGET_FILE:${target}>)
endfunction()
